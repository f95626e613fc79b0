//! Why a schedule does not do what it is asked.

use std::fmt;

use super::Status;
use super::control::MOST_BY_HAND;
use crate::ids::RunKey;

/// Nothing was changed, for this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not in this status.
    WrongStatus {
        /// What was asked.
        verb: &'static str,
        /// Where the schedule stands.
        status: Status,
    },
    /// It is active already, by this run.
    Busy(Option<RunKey>),
    /// As many runs by hand as it may have at a time have not ended.
    TooManyByHand,
    /// Its rule has no time after now.
    NoNextTime,
    /// What is asked for has nothing to start.
    NothingThere,
    /// More than can be done at once.
    TooMany {
        /// The most.
        limit: u32,
    },
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
            Refusal::TooMany { limit } => {
                write!(f, "The range has more than {limit} occurrences. Ask for a shorter one.")
            }
        }
    }
}
