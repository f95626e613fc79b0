//! An occurrence with its number, and how it is stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::upcoming::Due;

/// An occurrence with its number. Stored in few letters: it is written with each fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Line", try_from = "Line")]
pub struct Numbered {
    /// Its number.
    pub n: u64,
    /// When it was and is due.
    pub due: Due,
    /// How many missed ones it stands for besides itself.
    pub merged: u64,
    /// Whether it is made up for: after downtime, after a pause, or by a backfill. It runs at another time than its
    /// own, so that what it overlaps with is no mistake of the schedule.
    pub made_up: bool,
    /// Whether somebody asked for it by a backfill, besides the ordinary ones: it does not count towards the repeat
    /// limit.
    pub backfilled: bool,
}

/// How a [`Numbered`] is stored. Whoever looks for an occurrence's number in what is stored looks for `n`.
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
