//! Rolling: moves an occurrence that falls on a day off.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::calendars::Calendar;
use crate::choice::by_name;
use crate::civil::{self, Day};

/// The most days that an occurrence is moved. An occurrence inside a closure longer than a quarter
/// is skipped, with that reason.
pub(crate) const ROLL_REACH: Day = 92;

/// What happens to an occurrence on a day off. A moved occurrence keeps its time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Roll {
    /// The occurrence does not happen. The default for recurring rules.
    Skip,
    /// The occurrence moves to the next working day. The default for `at`.
    Next,
    /// The occurrence moves to the previous working day.
    Previous,
    /// The occurrence moves to the nearer working day, or to the next one if both are equally near.
    Nearest,
    /// Next, or previous if the next working day is in another month.
    ModifiedNext,
    /// Previous, or next if the previous working day is in another month.
    ModifiedPrevious,
}

impl TryFrom<String> for Roll {
    type Error = String;

    fn try_from(written: String) -> Result<Roll, String> {
        by_name(&written, &Roll::ALL, Roll::name)
    }
}

impl Roll {
    /// All ways to roll.
    pub const ALL: [Roll; 6] = [
        Roll::Skip,
        Roll::Next,
        Roll::Previous,
        Roll::Nearest,
        Roll::ModifiedNext,
        Roll::ModifiedPrevious,
    ];

    /// The name, as written in declarations.
    pub fn name(self) -> &'static str {
        match self {
            Roll::Skip => "skip",
            Roll::Next => "next",
            Roll::Previous => "previous",
            Roll::Nearest => "nearest",
            Roll::ModifiedNext => "modified_next",
            Roll::ModifiedPrevious => "modified_previous",
        }
    }

    /// The working day that an occurrence on `day` moves to; `None` if the occurrence is skipped.
    pub(crate) fn target(self, day: Day, calendar: &Calendar) -> Option<Day> {
        if calendar.is_working(day) {
            return Some(day);
        }
        let previous = calendar.last_working(day - ROLL_REACH..day);
        let next = calendar.first_working(day + 1..day + ROLL_REACH + 1);
        self.choose(day, previous, next)
    }

    /// The days whose occurrences move to the working day `target`, including `target`.
    pub(crate) fn sources(self, target: Day, calendar: &Calendar) -> RangeInclusive<Day> {
        if self == Roll::Skip {
            return target..=target;
        }
        // A day off moves to a working day next to its closure, so only the days between these two
        // can move here.
        let reach = 2 * ROLL_REACH;
        let previous = calendar.last_working(target - reach..target);
        let next = calendar.first_working(target + 1..target + reach + 1);
        let before = (1..=ROLL_REACH.min(target - previous.unwrap_or(Day::MIN / 2) - 1))
            .take_while(|back| self.choose(target - back, previous, Some(target)) == Some(target))
            .count() as Day;
        let after = (1..=ROLL_REACH.min(next.unwrap_or(Day::MAX / 2) - target - 1))
            .take_while(|on| self.choose(target + on, Some(target), next) == Some(target))
            .count() as Day;
        target - before..=target + after
    }

    /// The day that a day off moves to, given the working days around it.
    fn choose(self, day: Day, previous: Option<Day>, next: Option<Day>) -> Option<Day> {
        let previous = previous.filter(|to| day - to <= ROLL_REACH);
        let next = next.filter(|to| to - day <= ROLL_REACH);
        let same_month = |to: &Day| civil::ymd(*to).month == civil::ymd(day).month;
        match self {
            Roll::Skip => None,
            Roll::Next => next,
            Roll::Previous => previous,
            Roll::Nearest => match (previous, next) {
                (Some(before), Some(after)) if day - before < after - day => Some(before),
                (before, after) => after.or(before),
            },
            Roll::ModifiedNext => next.filter(same_month).or(previous),
            Roll::ModifiedPrevious => previous.filter(same_month).or(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holidays::Region;
    use crate::zone::Zone;

    #[test]
    fn each_way() {
        let calendar = Calendar::for_region(&Region::parse("US").unwrap(), Zone::utc());
        let day = |text: &str| civil::day_from_date(text.parse().unwrap());
        let cases = [
            // Sunday, Saturday, a lone Wednesday holiday, the last Saturday and the first Sunday of
            // a month
            ("2026-03-01", Roll::Next, Some("2026-03-02")),
            ("2026-03-01", Roll::Previous, Some("2026-02-27")),
            ("2026-03-01", Roll::Nearest, Some("2026-03-02")),
            ("2026-02-28", Roll::Nearest, Some("2026-02-27")),
            ("2026-11-11", Roll::Nearest, Some("2026-11-12")),
            ("2026-02-28", Roll::ModifiedNext, Some("2026-02-27")),
            ("2026-03-07", Roll::ModifiedNext, Some("2026-03-09")),
            ("2026-03-01", Roll::ModifiedPrevious, Some("2026-03-02")),
            ("2026-03-08", Roll::ModifiedPrevious, Some("2026-03-06")),
            ("2026-03-01", Roll::Skip, None),
            ("2026-03-02", Roll::Skip, Some("2026-03-02")),
        ];
        for (from, roll, to) in cases {
            assert_eq!(roll.target(day(from), &calendar), to.map(day), "{from} {roll:?}");
        }
    }

    #[test]
    fn sources_are_the_inverse_of_target() {
        let calendar = Calendar::for_region(&Region::parse("GB-ENG").unwrap(), Zone::utc());
        let first = civil::day_number(2025, 12, 1);
        for roll in Roll::ALL {
            for target in (first..first + 120).filter(|day| calendar.is_working(*day)) {
                let expected: Vec<Day> = (target - 20..target + 20)
                    .filter(|day| roll.target(*day, &calendar) == Some(target))
                    .collect();
                let sources: Vec<Day> = roll.sources(target, &calendar).collect();
                assert_eq!(sources, expected, "{roll:?} {:?}", civil::ymd(target));
            }
        }
    }
}
