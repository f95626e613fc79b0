//! The supervisor's own process. It starts one command, adopts and reaps the processes that the
//! command leaves behind, and kills all of them when the command or the node ends.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    set_child_subreaper, wait, waitid,
};
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{self, SignalKind};

use super::super::group::is_zombie;
use super::descendants::{self, Killed};
use super::wire::{BEFORE_START, FromSupervisor, ToSupervisor, line, receive_descriptor};

/// The first wait after the command's group was killed. Its processes are usually reaped within
/// this time, which saves a search for descendants.
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// How long the supervisor waits for killed processes before it searches for further ones.
const WAIT: Duration = Duration::from_millis(100);
/// The most searches: with `WAIT`, five seconds. Only a process that the kernel does not let go, or
/// one that restarts itself faster than it is found, takes longer.
const ROUNDS: usize = 50;

/// A message to the supervisor's main thread from one of its two other threads.
enum Event {
    Request(ToSupervisor),
    /// The command has ended, with this wait status.
    LeaderEnded(i32),
    /// The supervisor has no children left, so nothing can start another process.
    Childless,
}

/// Supervises one command, requested over the socket that is standard input. This is the main
/// function of a [`Supervisor`](super::Supervisor).
pub fn supervise() -> ExitCode {
    let mut has_tried = false;
    match outlast_signals().and_then(|_caught| serve(&mut has_tried)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A node notices that the socket is closed. The message is for people who start this
            // program by hand.
            let _ = writeln!(io::stderr(), "the command cannot be supervised: {error}");
            if has_tried { ExitCode::FAILURE } else { ExitCode::from(BEFORE_START) }
        }
    }
}

/// Catches the signals that end a whole service or session, because the node decides when the
/// command ends. Processes started from here do not inherit the handlers.
fn outlast_signals() -> io::Result<(Runtime, Vec<unix::Signal>)> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let caught = {
        let _inside = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
            .map(unix::signal)
            .into_iter()
            .collect::<io::Result<_>>()?
    };
    Ok((runtime, caught))
}

/// `has_tried` becomes true before the command is started.
fn serve(has_tried: &mut bool) -> io::Result<()> {
    let mut to_node = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = receive_descriptor(&to_node)?;
    let mut from_node = BufReader::new(to_node.try_clone()?);
    let Some(ToSupervisor::Start(order)) = next(&mut from_node) else {
        return Err(io::Error::other("no command came"));
    };
    let adopts = set_child_subreaper(Some(getpid())).is_ok();
    *has_tried = true;
    let started = order.command().stdin(input).process_group(0).spawn();
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            let (os_code, message) = (error.raw_os_error(), error.to_string());
            return tell(&mut to_node, &FromSupervisor::NotStarted { os_code, message });
        }
    };
    let leader = Leader::new(Pid::from_child(&child));
    let (events, happened) = channel();
    let (reaping, listening) = (events.clone(), events);
    let reaped = leader.clone();
    // From here on no other thread may wait for children. Neither thread is joined: both end with
    // the process.
    thread::Builder::new().spawn(move || reap(&reaped, &reaping))?;
    thread::Builder::new().spawn(move || listen(from_node, &listening))?;
    // The listening thread notices if the node has ended.
    let _ = tell(&mut to_node, &FromSupervisor::Started { leader: leader.id(), adopts });
    let status = accompany(&leader, &happened);
    let _ = tell(&mut to_node, &FromSupervisor::LeaderEnded { status });
    let left = end_all(&happened);
    let _ = tell(&mut to_node, &FromSupervisor::AllEnded { left });
    Ok(())
}

/// Sends the signals that the node asks for, until the command has ended. Returns its wait status.
fn accompany(leader: &Leader, happened: &Receiver<Event>) -> i32 {
    loop {
        match happened.recv() {
            Ok(Event::LeaderEnded(status)) => return status,
            Ok(Event::Request(ToSupervisor::Terminate)) => leader.signal(Signal::TERM),
            Ok(Event::Request(ToSupervisor::Kill)) => leader.signal(Signal::KILL),
            // `Childless` cannot come while the leader, a child, is running. A second order of a
            // node is ignored.
            Ok(Event::Childless | Event::Request(ToSupervisor::Start(_))) => {}
            Err(_) => unreachable!("the reaper tells of the leader's end before its own"),
        }
    }
}

/// Kills the processes that the command has left until there are none. Returns how many could not
/// be killed.
fn end_all(happened: &Receiver<Event>) -> usize {
    let mut patience = FIRST_WAIT;
    let mut killed = Killed::default();
    for _ in 0..ROUNDS {
        loop {
            match happened.recv_timeout(patience) {
                Ok(Event::Childless) => return 0,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        patience = WAIT;
        killed = descendants::kill_all();
        if killed.killed == 0 && killed.refused > 0 {
            break;
        }
    }
    killed.killed + killed.refused
}

/// Forwards the node's messages. The end of the connection counts as `Kill`.
fn listen(mut from_node: BufReader<UnixStream>, events: &Sender<Event>) {
    while let Some(asked) = next(&mut from_node) {
        let _ = events.send(Event::Request(asked));
    }
    let _ = events.send(Event::Request(ToSupervisor::Kill));
}

/// Reaps the leader and every adopted process, until there are no children left.
fn reap(leader: &Leader, events: &Sender<Event>) {
    let has_ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::All, has_ended) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        if let Some(status) = leader.reap_one() {
            let _ = events.send(Event::LeaderEnded(status));
        }
    }
    let _ = events.send(Event::Childless);
}

/// The command's own process, and the process group with the same id.
#[derive(Clone)]
struct Leader {
    id: Pid,
    /// True until the leader is reaped. Only then may its id be given to another process or group.
    is_ours: Arc<Mutex<bool>>,
}

impl Leader {
    fn new(id: Pid) -> Leader {
        Leader { id, is_ours: Arc::new(Mutex::new(true)) }
    }

    fn id(&self) -> i32 {
        self.id.as_raw_pid()
    }

    /// Signals every process of the group. The leader is signalled directly if that fails, and on
    /// SIGKILL, because it may have moved to another group.
    fn signal(&self, signal: Signal) {
        let is_ours = self.is_ours();
        if *is_ours && (kill_process_group(self.id, signal).is_err() || signal == Signal::KILL) {
            let _ = kill_process(self.id, signal);
        }
    }

    /// Reaps a child that has ended. Returns its wait status if it was the leader; the leader's
    /// group is killed first.
    fn reap_one(&self) -> Option<i32> {
        let mut is_ours = self.is_ours();
        if *is_ours && is_zombie(self.id) {
            let _ = kill_process_group(self.id, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some((id, status))) if *is_ours && id == self.id => {
                *is_ours = false;
                Some(status.as_raw())
            }
            _ => None,
        }
    }

    fn is_ours(&self) -> MutexGuard<'_, bool> {
        self.is_ours.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node's next message; `None` if the node has ended or the message cannot be parsed.
fn next(from_node: &mut BufReader<UnixStream>) -> Option<ToSupervisor> {
    let mut line = String::new();
    from_node.read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn tell(to_node: &mut UnixStream, message: &FromSupervisor) -> io::Result<()> {
    to_node.write_all(&line(message)?)
}
