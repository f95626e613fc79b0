//! A turn with many reports is several transactions side by side: some settle the reports, some decide what is
//! due. What is due of a schedule whose report is being settled is locked, and left to the next turn: a run that
//! ends at an instant is settled before an occurrence due at it.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::turn::Places;

use super::core::Fills;
use crate::request::{Report, TurnRequest, Turned};

/// With fewer reports one transaction is sooner done than two.
const MANY: usize = 64;
/// With so many, each half is worth two: while the node decides for the one, the database writes for the other.
const VERY_MANY: usize = 256;
/// Transactions of one half, at most. Each has a connection of its own.
pub(super) const PARTS: usize = 2;

/// Settles reports.
pub(super) struct Settling {
    pub(super) request: TurnRequest,
    /// Dropped when everything is locked that the reports are about.
    pub(super) locked: Vec<Sender<Infallible>>,
}

/// Decides what is due.
pub(super) struct Claiming {
    pub(super) request: TurnRequest,
    pub(super) fills: Fills,
    /// Ends when all of those who settle have locked what they need: it may begin.
    pub(super) begins: Receiver<Infallible>,
}

/// Whether a turn is worth splitting. In doubt, everything is looked at in one view; and where places are
/// scarce, runs that would have one in the other half had to wait.
pub(super) fn is_worthwhile(request: &TurnRequest) -> bool {
    let reports = request.reports.len();
    let is_plain = request.limit > 0 && request.performed.is_none();
    is_plain && reports >= MANY && request.places.free >= 2 * reports
}

/// Splits a turn.
pub(super) fn split(request: TurnRequest) -> (Vec<Settling>, Vec<Claiming>) {
    let TurnRequest { moment, node, reports, limit, places, performed: _, traced } = request;
    // A run that goes on with its next step keeps the place it had.
    let left = places.free - places.free.min(reports.len());
    let is_large = reports.len() >= VERY_MANY && left >= limit;
    let parts = if is_large { PARTS } else { 1 };
    let part = |reports: Vec<Report>, limit: usize, free: usize| TurnRequest {
        moment,
        node,
        reports,
        limit,
        places: Places { free, ..places },
        performed: None,
        traced,
    };
    let (mut locked, mut claiming) = (Vec::new(), Vec::new());
    for place in 0..parts {
        let (lock, begins) = channel();
        locked.push(lock);
        let request = part(Vec::new(), limit.div_ceil(parts), left / parts);
        let fills = if place == 0 { Fills::Places } else { Fills::Nothing };
        claiming.push(Claiming { request, fills, begins });
    }
    let settling = halved(reports, parts).into_iter().map(|reports| {
        let kept = reports.len().min(places.free);
        Settling { request: part(reports, 0, kept), locked: locked.clone() }
    });
    (settling.collect(), claiming)
}

/// Reports of runs with neighbouring keys stay together: what they are about lies together.
fn halved(mut reports: Vec<Report>, parts: usize) -> Vec<Vec<Report>> {
    if parts == 1 {
        return vec![reports];
    }
    let mut keys: Vec<_> = reports.iter().map(|report| report.run).collect();
    let middle = *keys.select_nth_unstable(reports.len() / 2).1;
    let later = reports.extract_if(.., |report| report.run >= middle).collect();
    vec![reports, later]
}

/// What came of all parts.
pub(super) fn join(settled: Vec<Turned>, claimed: Vec<Turned>) -> Option<Turned> {
    let served = claimed.first().map(|turned| turned.places.served);
    let mut all = settled.into_iter().chain(claimed).reduce(both)?;
    // Only the first of those that claim fills places.
    all.places.served = served.unwrap_or(all.places.served);
    Some(all)
}

fn both(mut one: Turned, other: Turned) -> Turned {
    one.effects.extend(other.effects);
    one.notices.extend(other.notices);
    one.spans.extend(other.spans);
    Turned {
        effects: one.effects,
        notices: one.notices,
        spans: one.spans,
        claimed: one.claimed + other.claimed,
        refused: one.refused + other.refused,
        taken_over: one.taken_over + other.taken_over,
        next_wakeup: [one.next_wakeup, other.next_wakeup].into_iter().flatten().min(),
        places: Places {
            free: one.places.free + other.places.free,
            served: one.places.served,
            look: one.places.look || other.places.look,
            more: one.places.more || other.places.more,
        },
    }
}
