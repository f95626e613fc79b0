//! A TCP proxy in front of a server that can silently stop forwarding: both ends keep their
//! connections and receive nothing more, as in a network that has lost track of a connection.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::Trouble;

/// PostgreSQL's message that a transaction was committed.
const COMMITTED: &[u8] = b"COMMIT\0";

/// The state of a proxy: what it is to do, and what it has done.
#[derive(Debug, Default)]
struct Orders {
    /// For each connection, whether it is silent.
    silent: Mutex<Vec<Arc<AtomicBool>>>,
    /// How many answers to a commit are still to be withheld. Their connections become silent.
    swallow: AtomicUsize,
    swallowed: AtomicUsize,
    /// Whether the connection of a withheld answer is closed instead of becoming silent.
    cuts: AtomicBool,
}

/// A proxy. A connection ends when one of its ends closes it. Dropping the value stops accepting
/// further connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    orders: Arc<Orders>,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts forwarding to a port on the loopback interface.
    pub fn start(to: u16) -> Result<Proxy, Trouble> {
        let failed = |why| Trouble::new("a proxy", why);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let orders = Arc::new(Orders::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let proxy = Proxy { port, orders: orders.clone(), is_over: is_over.clone() };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) {
                    let _ = forward(&orders, client, server);
                }
            }
        });
        Ok(proxy)
    }

    /// The port that the proxy listens on, on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes all current connections silent: nothing sent on them arrives, and neither end is
    /// notified. Later connections are forwarded. Returns how many became silent.
    pub fn fall_silent(&self) -> usize {
        let silent = std::mem::take(&mut *self.connections());
        silent.iter().for_each(|silent| silent.store(true, Ordering::SeqCst));
        silent.len()
    }

    /// Withholds the next `count` answers to a commit, and everything after them on their
    /// connections.
    pub fn swallow_commits(&self, count: usize) {
        self.orders.cuts.store(false, Ordering::SeqCst);
        self.orders.swallow.store(count, Ordering::SeqCst);
    }

    /// Withholds the next `count` answers to a commit, and closes their connections.
    pub fn cut_at_commits(&self, count: usize) {
        self.orders.cuts.store(true, Ordering::SeqCst);
        self.orders.swallow.store(count, Ordering::SeqCst);
    }

    /// How many answers to a commit were withheld.
    pub fn swallowed(&self) -> usize {
        self.orders.swallowed.load(Ordering::SeqCst)
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicBool>>> {
        self.orders.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Connecting wakes the thread that accepts connections, which then ends.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

fn forward(orders: &Arc<Orders>, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    let silent = Arc::new(AtomicBool::new(false));
    orders.silent.lock().unwrap_or_else(PoisonError::into_inner).push(silent.clone());
    let there = (client.try_clone()?, server.try_clone()?);
    let (of_client, of_server) = (silent.clone(), silent);
    thread::spawn(move || carry(there.0, there.1, &of_client, |_| Fate::Arrives));
    let orders = orders.clone();
    thread::spawn(move || {
        carry(server, client, &of_server, |answer| fate(&orders, answer));
    });
    Ok(())
}

/// The fate of a piece of data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    /// Neither this nor anything after it arrives.
    Silenced,
    /// The data does not arrive, and the connection is closed.
    Cut,
}

/// Decides whether an answer is withheld.
fn fate(orders: &Orders, answer: &[u8]) -> Fate {
    let one_less = |left: usize| left.checked_sub(1);
    let is_commit = answer.windows(COMMITTED.len()).any(|part| part == COMMITTED);
    let swallows = is_commit
        && orders.swallow.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
    orders.swallowed.fetch_add(usize::from(swallows), Ordering::SeqCst);
    match (swallows, orders.cuts.load(Ordering::SeqCst)) {
        (false, _) => Fate::Arrives,
        (true, false) => Fate::Silenced,
        (true, true) => Fate::Cut,
    }
}

/// Forwards data from one end to the other. Data on a silent connection is dropped, and so is the
/// end of the connection.
fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    silent: &AtomicBool,
    mut fate: impl FnMut(&[u8]) -> Fate,
) {
    let mut part = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut part).unwrap_or(0);
        match fate(&part[..read]) {
            Fate::Arrives => {}
            Fate::Silenced => silent.store(true, Ordering::SeqCst),
            Fate::Cut => {
                // Either end may be closed already.
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
        match (silent.load(Ordering::SeqCst), read) {
            (true, 0) => return,
            (true, _) => {}
            (false, 0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            (false, _) if to.write_all(&part[..read]).is_err() => return,
            (false, _) => {}
        }
    }
}
