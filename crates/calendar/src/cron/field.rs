//! The fields of a cron expression: their names, ranges and value names.

/// One of the seven fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

pub(super) const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    pub(super) fn name(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day of month",
            Field::Month => "month",
            Field::DayOfWeek => "day of week",
            Field::Year => "year",
        }
    }

    pub(super) fn min(self) -> u32 {
        match self {
            Field::DayOfMonth | Field::Month => 1,
            Field::Year => 1970,
            _ => 0,
        }
    }

    pub(super) fn max(self) -> u32 {
        match self {
            Field::Second | Field::Minute => 59,
            Field::Hour => 23,
            Field::DayOfMonth => 31,
            Field::Month => 12,
            Field::DayOfWeek => 7,
            Field::Year => 9999,
        }
    }

    /// The value at which `*` and an open `n/step` end. 7 is only another name for Sunday.
    pub(super) fn last(self) -> u32 {
        if self == Field::DayOfWeek { 6 } else { self.max() }
    }

    /// Whether the field allows `?` for "any".
    pub(super) fn is_day(self) -> bool {
        matches!(self, Field::DayOfMonth | Field::DayOfWeek)
    }

    /// The value of a three-letter name, in any case.
    pub(super) fn named(self, word: &[u8]) -> Option<u32> {
        let (names, first): (&[&str], u32) = match self {
            Field::Month => (&MONTHS, 1),
            Field::DayOfWeek => (&WEEKDAYS, 0),
            _ => return None,
        };
        let at = names.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(word))?;
        Some(first + at as u32)
    }

    /// What the field allows, in one line.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Field::Second => "0-59, with * , - /",
            Field::Minute => "0-59, with * , - /",
            Field::Hour => "0-23, with * , - /",
            Field::DayOfMonth => "1-31, with * ? , - / and L, L-3, LW, 15W",
            Field::Month => "1-12 or JAN-DEC, with * , - /",
            Field::DayOfWeek => {
                "0-7 or SUN-SAT (0 and 7 are Sunday), with * ? , - / and 5L, 5#3, FRI#L, +MON"
            }
            Field::Year => "1970-9999, with * , - /",
        }
    }
}
