//! How wakeups are stored, and which due ones a turn takes when more are due than it can take.

use engine::turn::Wakeup;
use engine::{HandlerId, NodeId, RunKey, ScheduleId};

use crate::codes::{WAKE_HANDLER, WAKE_NODE, WAKE_RUN, WAKE_SCHEDULE};
use crate::failure::Failure;

/// The kind and the id that are stored for a wakeup, or for what is set aside.
pub(crate) fn stored_wakeup(wakeup: Wakeup) -> (i16, i64) {
    match wakeup {
        Wakeup::Run(key) => (WAKE_RUN, key.0),
        Wakeup::Schedule(id) => (WAKE_SCHEDULE, id.0),
        Wakeup::Node(node) => (WAKE_NODE, node.0),
        Wakeup::Handler(id) => (WAKE_HANDLER, id.0),
    }
}

/// The reverse of [`stored_wakeup`].
pub(crate) fn read_wakeup(kind: i16, id: i64) -> Result<Wakeup, Failure> {
    match kind {
        WAKE_RUN => Ok(Wakeup::Run(RunKey(id))),
        WAKE_SCHEDULE => Ok(Wakeup::Schedule(ScheduleId(id))),
        WAKE_NODE => Ok(Wakeup::Node(NodeId(id))),
        WAKE_HANDLER => Ok(Wakeup::Handler(HandlerId(id))),
        _ => Err(Failure::Damaged(format!("a row has the unknown kind of wakeup {kind}"))),
    }
}

/// How many kinds of wakeups there are.
const KINDS: usize = 4;

/// Keeps `limit` of these due wakeups, in order of their time: the oldest of each kind up to an
/// equal share of the turn, then the oldest of the rest. So a flood of one kind does not delay the
/// others.
pub(crate) fn fair(mut due: Vec<(i64, Wakeup)>, limit: usize) -> Vec<(i64, Wakeup)> {
    due.sort_unstable();
    if due.len() <= limit {
        return due;
    }
    let mut counts = [0; KINDS];
    let (mut taken, rest): (Vec<_>, Vec<_>) = due.into_iter().partition(|(_, wakeup)| {
        let count = &mut counts[kind(*wakeup)];
        *count += 1;
        *count <= limit / KINDS
    });
    let free = limit - taken.len();
    taken.extend(rest.into_iter().take(free));
    taken.sort_unstable();
    taken
}

fn kind(wakeup: Wakeup) -> usize {
    match wakeup {
        Wakeup::Run(_) => 0,
        Wakeup::Schedule(_) => 1,
        Wakeup::Handler(_) => 2,
        Wakeup::Node(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use engine::{RunKey, ScheduleId};

    use super::*;

    fn runs(due: std::ops::Range<i64>) -> Vec<(i64, Wakeup)> {
        due.map(|at| (at, Wakeup::Run(RunKey(at)))).collect()
    }

    #[test]
    fn all_that_are_due_fit_or_each_kind_has_its_share() {
        let schedules =
            |due: std::ops::Range<i64>| due.map(|at| (at, Wakeup::Schedule(ScheduleId(at))));
        let few: Vec<_> = runs(0..4).into_iter().chain(schedules(9..12)).collect();
        assert_eq!(fair(few.clone(), 7), few);

        let many: Vec<_> = runs(0..100).into_iter().chain(schedules(500..600)).collect();
        let taken = fair(many, 8);
        let expected: Vec<_> = runs(0..6).into_iter().chain(schedules(500..502)).collect();
        assert_eq!(taken, expected);
        assert_eq!(fair(runs(0..100), 8), runs(0..8));
        assert_eq!(fair(runs(0..100), 1), runs(0..1));
        assert_eq!(fair(runs(0..100), 0), []);
    }
}
