//! Why a schedule refuses an input.

use std::fmt;

use language::schedule::LARGEST_QUEUE;

use super::Status;
use super::control::MOST_BY_HAND;
use crate::ids::RunKey;

/// Why a schedule refuses an input. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The schedule's status does not allow the request.
    WrongStatus { verb: &'static str, status: Status },
    /// This run is active already.
    Busy(Option<RunKey>),
    /// Too many runs that were started by hand have not ended.
    TooManyByHand,
    /// The rule has no time after now.
    NoNextTime,
    /// There are no occurrences in the requested range.
    NothingThere,
    /// All occurrences in the requested range fell due after the schedule was paused. Resuming the
    /// schedule decides over them.
    WhilePaused,
    /// The request covers more occurrences than are allowed at once.
    TooMany { limit: u32 },
    /// With those that wait already, more occurrences would wait than are allowed.
    QueueFull { waiting: usize },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WrongStatus { verb, status } => {
                write!(f, "Cannot {verb} schedule with status '{}'.", status.name())
            }
            Refusal::Busy(_) => f.write_str("The schedule is active already."),
            Refusal::TooManyByHand => write!(
                f,
                "{MOST_BY_HAND} runs of this schedule that were started by hand have not ended. Wait for some of \
                 them, or start its workflow instead."
            ),
            Refusal::NoNextTime => f.write_str(
                "Cannot revive schedule: its rule has no time after now. Change the rule first.",
            ),
            Refusal::NothingThere => f.write_str("The rule has no occurrence in this range."),
            Refusal::WhilePaused => f.write_str(
                "The range has only occurrences that fell due after the schedule was paused. \
                 Resume it with catch-up to make up for them.",
            ),
            Refusal::TooMany { limit } => {
                write!(f, "The range has more than {limit} occurrences. Ask for a shorter one.")
            }
            Refusal::QueueFull { waiting } => write!(
                f,
                "{waiting} occurrences of this schedule wait already, and at most {LARGEST_QUEUE} may. \
                 Let some of them run first, or ask for a shorter range."
            ),
        }
    }
}
