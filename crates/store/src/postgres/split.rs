//! A turn with many reports is two transactions side by side: one settles the reports, one decides what is due.
//! What is due of a schedule whose report is being settled is locked, and left to the next turn: a run that ends
//! at an instant is settled before an occurrence due at it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::turn::Places;

use crate::request::{TurnRequest, Turned};

/// With fewer reports one transaction is sooner done than two.
const MANY: usize = 64;

/// The two halves, and how the second learns that it may begin.
pub(super) struct Split {
    pub(super) settling: TurnRequest,
    pub(super) claiming: TurnRequest,
    pub(super) locked: SyncSender<()>,
    pub(super) is_locked: Receiver<()>,
}

/// Whether a turn is worth splitting. In doubt, everything is looked at in one view; and where places are
/// scarce, runs that would have one in the other half had to wait.
pub(super) fn is_worthwhile(request: &TurnRequest) -> bool {
    let reports = request.reports.len();
    let is_plain = request.limit > 0 && request.performed.is_none();
    is_plain && reports >= MANY && request.places.free >= 2 * reports
}

/// Splits a turn.
pub(super) fn split(request: TurnRequest) -> Split {
    let TurnRequest { moment, node, reports, limit, places, performed: _ } = request;
    // A run that goes on with its next step keeps the place it had.
    let kept = places.free.min(reports.len());
    let (locked, is_locked) = sync_channel(1);
    Split {
        settling: TurnRequest {
            moment,
            node,
            reports,
            limit: 0,
            places: Places { free: kept, ..places },
            performed: None,
        },
        claiming: TurnRequest {
            moment,
            node,
            reports: Vec::new(),
            limit,
            places: Places { free: places.free - kept, ..places },
            performed: None,
        },
        locked,
        is_locked,
    }
}

/// What came of both.
pub(super) fn join(settled: Turned, claimed: Turned) -> Turned {
    let Turned { mut effects, mut notices, refused, .. } = settled;
    effects.extend(claimed.effects);
    notices.extend(claimed.notices);
    Turned {
        effects,
        notices,
        claimed: claimed.claimed,
        refused,
        taken_over: settled.taken_over + claimed.taken_over,
        next_wakeup: [settled.next_wakeup, claimed.next_wakeup].into_iter().flatten().min(),
        places: Places {
            free: settled.places.free + claimed.places.free,
            served: claimed.places.served,
            look: settled.places.look || claimed.places.look,
            more: settled.places.more || claimed.places.more,
        },
    }
}
