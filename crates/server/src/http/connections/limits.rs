//! Limits on connections, in all and from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// How many connections may be open: a few hundred people and programs, and a thousand workers that
/// each hold one while they wait. Each costs some 20 KiB.
const MOST: usize = 2_048;
/// How many connections one address may have: half of all, so that one caller leaves as many for
/// everybody else. All callers behind one proxy share an address, and this is enough for them.
const FROM_ONE_ADDRESS: usize = MOST / 2;
/// File handles left for the store, commands, scripts and outgoing requests, whatever limit the
/// process has.
const KEPT_FILES: usize = 256;
/// The least number of connections, however few files the process may open.
const FEWEST: usize = 64;
/// How long a peer may accept nothing of its response before the connection is closed. A network
/// that recovers resends within this time.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// How long a peer may take to send the head of a request. A connection without a request is closed
/// after the same time.
const HEADER_TIME: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// How many may be open at a time.
    pub most: usize,
    /// How many one address may have open, or one IPv6 /64 network.
    pub from_one_address: usize,
    /// How long a peer may accept nothing of its response before the connection is closed.
    pub write_time: Duration,
    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    pub header_time: Duration,
}

impl Default for ConnectionLimits {
    /// The usual limits, reduced to the number of files that the process may open.
    fn default() -> ConnectionLimits {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let most = MOST.min(files.saturating_sub(KEPT_FILES)).max(FEWEST);
        ConnectionLimits {
            most,
            from_one_address: FROM_ONE_ADDRESS.min(most / 2),
            write_time: WRITE_TIME,
            header_time: HEADER_TIME,
        }
    }
}

/// The open connections, counted by address.
#[derive(Debug)]
pub(super) struct Permits {
    limits: ConnectionLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The slot of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    address: IpAddr,
}

impl Permits {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Permits> {
        Arc::new(Permits { limits, taken: Mutex::default() })
    }

    /// A slot for a connection from this address, if one is free.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Permit> {
        let address = network(from);
        let mut taken = self.lock();
        if taken.all >= self.limits.most {
            return None;
        }
        let own = taken.by_address.get(&address).copied().unwrap_or_default();
        if own >= self.limits.from_one_address {
            return None;
        }
        taken.by_address.insert(address, own + 1);
        taken.all += 1;
        Some(Permit { permits: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.lock();
        taken.all -= 1;
        match taken.by_address.get_mut(&self.address) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.by_address.remove(&self.address)),
        }
    }
}

/// The address under which a peer is counted: the /64 network of an IPv6 address, since its holder
/// usually has all of it.
pub(in crate::http) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_address() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:1::1"));
        assert_ne!(network("::ffff:192.0.2.1"), network("::ffff:192.0.2.2"));
    }

    #[test]
    fn permits_are_counted_in_all_and_by_address() {
        let limits =
            ConnectionLimits { most: 3, from_one_address: 2, ..ConnectionLimits::default() };
        let permits = Permits::new(limits);
        let from = |last: u8| IpAddr::from([192, 0, 2, last]);
        let first = permits.take(from(1)).unwrap();
        let _second = permits.take(from(1)).unwrap();
        assert!(permits.take(from(1)).is_none(), "the address has all that it may");
        let _third = permits.take(from(2)).unwrap();
        assert!(permits.take(from(3)).is_none(), "there are no more in all");
        drop(first);
        let _fourth = permits.take(from(1)).unwrap();
        assert_eq!(permits.lock().by_address.len(), 2);
    }
}
