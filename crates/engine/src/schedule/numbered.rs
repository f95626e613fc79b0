//! An occurrence with its number, and its stored form.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::upcoming::Due;

/// An occurrence with its number. Its stored form is short because it is written each time the
/// schedule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Line", try_from = "Line")]
pub struct Numbered {
    pub n: u64,
    pub due: Due,
    /// The number of missed occurrences that it stands for besides itself.
    pub merged: u64,
    /// Whether it is made up after its own time: after downtime, after a pause, or by a backfill.
    /// If it then overlaps with another occurrence, that is not the schedule's fault.
    pub made_up: bool,
    /// Whether a backfill asked for it. It does not count towards the repeat limit.
    pub backfilled: bool,
}

/// The stored form of [`Numbered`]. Queries that look for an occurrence's number look for `n`.
#[derive(Serialize, Deserialize)]
struct Line {
    n: u64,
    a: i64,
    e: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    m: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    c: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    b: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<Numbered> for Line {
    fn from(Numbered { n, due, merged, made_up, backfilled }: Numbered) -> Line {
        let (nominal, effective) = (due.nominal.as_millisecond(), due.effective.as_millisecond());
        Line { n, a: nominal, e: effective, m: merged, c: made_up, b: backfilled }
    }
}

impl TryFrom<Line> for Numbered {
    type Error = jiff::Error;

    fn try_from(Line { n, a, e, m, c, b }: Line) -> Result<Numbered, jiff::Error> {
        let nominal = Timestamp::from_millisecond(a)?;
        let effective = Timestamp::from_millisecond(e)?;
        let due = Due { nominal, effective };
        Ok(Numbered { n, due, merged: m, made_up: c, backfilled: b })
    }
}
