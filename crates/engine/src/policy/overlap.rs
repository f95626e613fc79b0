//! Overlap: an occurrence is due while the schedule is still active.

use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Record and wait for the next.
    #[default]
    Skip,
    /// Keep at most one; it starts the moment the active one ends.
    Queue,
    /// Keep up to the queue limit, then skip.
    QueueAll,
    /// Cancel the active run; the new one starts when it has ended.
    Cancel,
    /// Run side by side.
    Allow,
    /// The schedule is dead.
    Error,
}

impl Overlap {
    /// Every policy.
    pub const ALL: [Overlap; 6] = [
        Overlap::Skip,
        Overlap::Queue,
        Overlap::QueueAll,
        Overlap::Cancel,
        Overlap::Allow,
        Overlap::Error,
    ];

    /// As it is written.
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

/// What becomes of an occurrence that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It starts now.
    Start,
    /// It does not run.
    Skip,
    /// It waits at the end of the queue.
    Queue,
    /// One that waits already stands for it.
    Coalesce,
    /// What is active is cancelled, what waited is dropped, this one waits.
    Replace,
    /// It fails, and the schedule with it.
    Fail,
}

/// Decides over an occurrence that is due while `active` others have not ended and `queued` wait.
pub fn decide(policy: Overlap, active: usize, queued: usize, queue_limit: u32) -> Verdict {
    let busy = active > 0 || queued > 0;
    match policy {
        Overlap::Allow => Verdict::Start,
        _ if !busy => Verdict::Start,
        Overlap::Skip => Verdict::Skip,
        Overlap::Queue if queued == 0 => Verdict::Queue,
        Overlap::Queue => Verdict::Coalesce,
        Overlap::QueueAll if queued < queue_limit as usize => Verdict::Queue,
        Overlap::QueueAll => Verdict::Skip,
        Overlap::Cancel => Verdict::Replace,
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
            let verdicts = [(0, 0), (1, 0), (1, 1), (1, 3)].map(|(a, q)| decide(policy, a, q, 3));
            assert_eq!(verdicts, [idle, busy, one_waits, full], "{}", policy.name());
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
