//! Overlap: what happens to an occurrence that is due while the schedule is still active.

use serde::{Deserialize, Serialize};

/// The overlap policy of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Overlap {
    /// Skip the occurrence and wait for the next one.
    #[default]
    Skip,
    /// Queue at most one. It starts as soon as the active one has ended.
    Queue,
    /// Queue up to the queue limit, then skip.
    QueueAll,
    /// Cancel the active run. The new one starts when it has ended.
    Cancel,
    /// The occurrence runs beside the active ones.
    Allow,
    /// The schedule dies, unless the overlap involves a made-up occurrence.
    Error,
}

impl TryFrom<String> for Overlap {
    type Error = String;

    fn try_from(written: String) -> Result<Overlap, String> {
        calendar::by_name(&written, &Overlap::ALL, Overlap::name)
    }
}

impl Overlap {
    pub const ALL: [Overlap; 6] = [
        Overlap::Skip,
        Overlap::Queue,
        Overlap::QueueAll,
        Overlap::Cancel,
        Overlap::Allow,
        Overlap::Error,
    ];

    /// The name in a declaration.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::QueueAll => "queue_all",
            Overlap::Cancel => "cancel",
            Overlap::Allow => "allow",
            Overlap::Error => "error",
        }
    }
}

/// What happens to a start if a limit is reached, or if the schedule or handler is already active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfBusy {
    /// The run is created. Over a limit it stays pending until an earlier run has ended.
    #[default]
    Wait,
    /// Nothing is created, and the refusal names an active run.
    Refuse,
}

/// The decision about an occurrence that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Start,
    /// The occurrence does not run.
    Skip,
    /// The occurrence waits at the end of the queue.
    Queue,
    /// A queued occurrence stands for it.
    Coalesce,
    /// Active runs are cancelled, queued occurrences are dropped, and this one is queued.
    Replace,
    /// The occurrence fails, and the schedule dies.
    Fail,
}

/// Whether occurrences are made up after downtime, by a backfill or after a pause, and so run at
/// another time than their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadeUp {
    /// Whether the occurrence itself is made up.
    pub this: bool,
    /// Whether an active or queued one is made up.
    pub in_the_way: bool,
}

/// Decides an occurrence that is due while `active` others have not ended and `queued` others wait.
/// Overlap is an error of the schedule only between occurrences that begin at their own times:
/// made-up ones are queued, and those that fall due meanwhile are skipped.
pub fn decide(
    policy: Overlap,
    active: usize,
    queued: usize,
    queue_limit: u32,
    made_up: MadeUp,
) -> Verdict {
    let busy = active > 0 || queued > 0;
    let has_room = queued < queue_limit as usize;
    match policy {
        Overlap::Allow => Verdict::Start,
        _ if !busy => Verdict::Start,
        Overlap::Skip => Verdict::Skip,
        Overlap::Queue if queued == 0 => Verdict::Queue,
        Overlap::Queue => Verdict::Coalesce,
        Overlap::QueueAll if has_room => Verdict::Queue,
        Overlap::QueueAll => Verdict::Skip,
        Overlap::Cancel => Verdict::Replace,
        Overlap::Error if made_up.this && has_room => Verdict::Queue,
        Overlap::Error if made_up.this || made_up.in_the_way => Verdict::Skip,
        Overlap::Error => Verdict::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_idle_busy_and_with_a_queue() {
        use Verdict::{Coalesce, Fail, Queue, Replace, Skip, Start};
        for (policy, idle, busy, one_waits, full) in [
            (Overlap::Skip, Start, Skip, Skip, Skip),
            (Overlap::Queue, Start, Queue, Coalesce, Coalesce),
            (Overlap::QueueAll, Start, Queue, Queue, Skip),
            (Overlap::Cancel, Start, Replace, Replace, Replace),
            (Overlap::Allow, Start, Start, Start, Start),
            (Overlap::Error, Start, Fail, Fail, Fail),
        ] {
            let verdicts = [(0, 0), (1, 0), (1, 1), (1, 3)]
                .map(|(a, q)| decide(policy, a, q, 3, MadeUp::default()));
            assert_eq!(verdicts, [idle, busy, one_waits, full], "{}", policy.name());
        }
    }

    #[test]
    fn what_is_made_up_for_is_no_error() {
        use Verdict::{Fail, Queue, Skip, Start};
        for (this, in_the_way, expected) in [
            (false, false, [Start, Fail, Fail, Fail]),
            (true, false, [Start, Queue, Queue, Skip]),
            (false, true, [Start, Skip, Skip, Skip]),
            (true, true, [Start, Queue, Queue, Skip]),
        ] {
            let made_up = MadeUp { this, in_the_way };
            let verdicts = [(0, 0), (1, 0), (1, 1), (1, 3)]
                .map(|(a, q)| decide(Overlap::Error, a, q, 3, made_up));
            assert_eq!(verdicts, expected, "{made_up:?}");
        }
    }

    #[test]
    fn names_are_as_written() {
        for policy in Overlap::ALL {
            let written = serde_json::to_value(policy).unwrap();
            assert_eq!(written, policy.name());
        }
    }
}
