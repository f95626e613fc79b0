//! Somebody who asks nodes for things and notes what they were told.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::history::{Ask, Fault, Millis, Reply, What};
use super::sink::Sink;
use crate::chaos::plan::Random;
use crate::http::{Request, Sent};
use crate::steps::wall_millis;

/// Of so many requests one is sent by a client that hangs up.
const ONE_HANGS_UP_IN: usize = 8;
/// A client that hangs up does so within so many milliseconds: before, while and after the command
/// is committed.
const HANGS_UP_WITHIN: usize = 12;
/// How often somebody asks again with the same `Idempotency-Key`, and how long they wait before
/// that.
const TRIES: usize = 6;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// What clients, people and faults share.
pub(super) struct Shared {
    /// Where each node listens, while it is there.
    pub(super) addresses: Mutex<Vec<Option<String>>>,
    pub(super) sink: Sink,
    asks: Mutex<Vec<Ask>>,
    faults: Mutex<Vec<Fault>>,
    /// Until when the latest fault lasts.
    disturbed_until: AtomicI64,
    /// Whether clients are to stop.
    has_stopped: AtomicBool,
    /// Whether people are to go home.
    is_over: AtomicBool,
}

impl Shared {
    pub(super) fn new(nodes: usize, sink: Sink) -> Shared {
        Shared {
            addresses: Mutex::new(vec![None; nodes]),
            sink,
            asks: Mutex::default(),
            faults: Mutex::default(),
            disturbed_until: AtomicI64::new(0),
            has_stopped: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn note(&self, ask: Ask) {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
    }

    /// Notes a fault that lasts from `begin` to `end`, which may be to come.
    pub(super) fn disturb(&self, begin: Millis, end: Millis, what: String) {
        self.disturbed_until.fetch_max(end, Ordering::Relaxed);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(Fault { begin, end, what });
    }

    /// Since when there is no fault, in milliseconds; negative while there is one.
    pub(super) fn calm_for(&self) -> Millis {
        wall_millis() - self.disturbed_until.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.has_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Relaxed)
    }

    /// Everything has ended, or will not.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A node that is there, if any is.
    pub(super) fn any_address(&self, random: &mut Random) -> Option<String> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let there: Vec<&String> = addresses.iter().flatten().collect();
        (!there.is_empty()).then(|| there[random.below(there.len())].clone())
    }

    pub(super) fn set_address(&self, node: usize, address: Option<String>) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)[node] = address;
    }

    /// All that was asked, and all that went wrong.
    pub(super) fn told(&self) -> (Vec<Ask>, Vec<Fault>) {
        let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (asks, faults)
    }
}

/// One client, with a way of its own to be random.
pub(super) struct Client<'a> {
    pub(super) shared: &'a Shared,
    pub(super) random: Random,
    name: String,
    count: u64,
    hangs_up: HangsUp,
    /// The only node that is asked, if not any.
    only: Option<String>,
}

/// How patient a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HangsUp {
    /// Waits for each answer, and does not ask again without one.
    Never,
    /// Once in a while.
    Sometimes,
    /// Each time, and never asks again.
    Always,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared, seed: u64, name: String) -> Client<'a> {
        Client {
            shared,
            random: Random(seed),
            name,
            count: 0,
            hangs_up: HangsUp::Sometimes,
            only: None,
        }
    }

    pub(super) fn hanging_up(self, hangs_up: HangsUp) -> Client<'a> {
        Client { hangs_up, ..self }
    }

    /// Asks this node alone.
    pub(super) fn only(self, address: &str) -> Client<'a> {
        Client { only: Some(address.to_owned()), ..self }
    }

    /// A text that nobody else has.
    pub(super) fn token(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.name, self.count)
    }

    /// Asks for something and notes it. With a key, whoever has no answer may ask again. What was
    /// answered, if it was acknowledged.
    pub(super) fn ask(&mut self, what: What, request: &Request<'_>) -> Option<Value> {
        let sent = wall_millis();
        let (mut reply, mut answer) = self.try_once(request, true);
        let insists = !request.key.is_empty()
            && self.hangs_up == HangsUp::Sometimes
            && self.random.below(2) == 0;
        for _ in 0..TRIES {
            if !insists || !matches!(reply, Reply::Unknown(_) | Reply::NeverSent) {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            let was_unknown = matches!(reply, Reply::Unknown(_));
            let (again, text) = self.try_once(request, false);
            // A second try that was never sent says nothing about the first, which may have been
            // carried out.
            if !(was_unknown && again == Reply::NeverSent) {
                (reply, answer) = (again, text);
            }
        }
        self.shared.note(Ask { sent, done: wall_millis(), what, reply });
        answer
    }

    fn try_once(&mut self, request: &Request<'_>, may_hang_up: bool) -> (Reply, Option<Value>) {
        let any = || self.shared.any_address(&mut self.random);
        let Some(address) = self.only.clone().or_else(any) else {
            return (Reply::NeverSent, None);
        };
        let hangs_up = may_hang_up
            && match self.hangs_up {
                HangsUp::Never => false,
                HangsUp::Sometimes => self.random.below(ONE_HANGS_UP_IN) == 0,
                HangsUp::Always => true,
            };
        let sent = if hangs_up {
            let after = self.random.below(HANGS_UP_WITHIN) as u64 * 250;
            request.send_and_hang_up(&address, Duration::from_micros(after))
        } else {
            request.send(&address)
        };
        match sent {
            Sent::Never => (Reply::NeverSent, None),
            Sent::Unanswered(why) => (Reply::Unknown(why), None),
            Sent::Answered(200..300, text) => {
                (Reply::Acknowledged, Some(serde_json::from_str(&text).unwrap_or_default()))
            }
            Sent::Answered(status @ 400..500, text) => (Reply::Refused(status, text), None),
            Sent::Answered(status, text) => (Reply::Unknown(format!("{status}: {text}")), None),
        }
    }
}
