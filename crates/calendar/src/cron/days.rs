//! The days of a month that match the day-of-month and day-of-week fields together.

use std::ops::Range;

use crate::civil;

/// The n that stands for "last" in `5L` and `FRI#L`.
pub(super) const LAST: u32 = 6;

/// Both day fields, as bits. The days of a month are bits 1 to 31.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    of_month: OfMonth,
    of_week: OfWeek,
    join: Join,
    shape: Shape,
}

/// What the matching days of a month depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    /// On nothing: every day matches.
    Every,
    /// Only on the length of the month.
    Numbers,
    /// Also on the weekdays.
    #[default]
    Weekdays,
}

/// How the two fields combine when both are restricted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Join {
    /// Either may match: the traditional rule of cron.
    #[default]
    Either,
    /// Both must match: `+MON`.
    Both,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfMonth {
    any: bool,
    days: u32,
    /// Bit k: the day k days before the last one (`L` is bit 0).
    from_last: u32,
    /// Bit d: the Monday-to-Friday day nearest to the dth (`15W`).
    near: u32,
    /// `LW`: the last Monday-to-Friday day.
    last_workday: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfWeek {
    any: bool,
    /// Bit 0 is Sunday.
    weekdays: u8,
    /// For n = 1 to 5 and [`LAST`]: the weekdays whose nth of the month matches.
    nth: [u8; 7],
}

impl Days {
    pub(super) fn any_day_of_month(&mut self) {
        self.of_month.any = true;
    }

    pub(super) fn days_of_month(&mut self, days: u32) {
        self.of_month.days |= days;
    }

    pub(super) fn before_last(&mut self, back: u32) {
        self.of_month.from_last |= 1 << back;
    }

    pub(super) fn nearest_workday(&mut self, day: u32) {
        self.of_month.near |= 1 << day;
    }

    pub(super) fn last_workday(&mut self) {
        self.of_month.last_workday = true;
    }

    pub(super) fn any_day_of_week(&mut self) {
        self.of_week.any = true;
    }

    pub(super) fn weekdays(&mut self, weekdays: u8) {
        self.of_week.weekdays |= weekdays;
    }

    pub(super) fn nth_weekday(&mut self, weekday: u32, n: u32) {
        self.of_week.nth[n as usize] |= 1 << weekday;
    }

    pub(super) fn require_both(&mut self) {
        self.join = Join::Both;
    }

    /// Called when both fields have been parsed.
    pub(super) fn complete(mut self) -> Days {
        let OfMonth { any, from_last, near, last_workday, .. } = self.of_month;
        let numbers = !any && from_last == 0 && near == 0 && !last_workday;
        self.shape = match self.of_week.any {
            true if any => Shape::Every,
            true if numbers => Shape::Numbers,
            _ => Shape::Weekdays,
        };
        self
    }

    /// Whether every day of every month matches.
    pub(super) fn is_every(&self) -> bool {
        self.shape == Shape::Every
    }

    /// Whether the fields contain only numbered days, so that a month's days depend only on its
    /// length.
    pub(super) fn are_numbers(&self) -> bool {
        self.shape == Shape::Numbers
    }

    /// The matching days of a month, as bits 1 to 31.
    pub(super) fn in_month(&self, year: i32, month: u32) -> u32 {
        let length = civil::month_length(year, month);
        let whole = u32::MAX >> (31 - length) & !1;
        match self.shape {
            Shape::Every => return whole,
            Shape::Numbers => return self.of_month.days & whole,
            Shape::Weekdays => {}
        }
        let first = civil::weekday(civil::day_number(year, month, 1));
        let matching = match (self.of_month.any, self.of_week.any) {
            (false, true) => self.of_month.matching(length, first),
            (true, _) => self.of_week.matching(length, first),
            (false, false) => {
                let of_month = self.of_month.matching(length, first);
                let of_week = self.of_week.matching(length, first);
                match self.join {
                    Join::Either => of_month | of_week,
                    Join::Both => of_month & of_week,
                }
            }
        };
        matching & whole
    }

    /// The months that have a matching day in some year. The others need not be searched, and a
    /// rule without any can never match.
    pub(super) fn reachable(&self, months: u16) -> u16 {
        if self.is_every() {
            return months;
        }
        // These years begin on every weekday, both as leap years and as common ones.
        const EVERY_KIND: Range<i32> = 2000..2028;
        let has_day = |month: &u32| {
            months >> month & 1 == 1
                && EVERY_KIND.into_iter().any(|year| self.in_month(year, *month) != 0)
        };
        (1..=12).filter(has_day).fold(0, |bits, month| bits | 1 << month)
    }

    /// The day, if the rule matches one numbered day of the month and nothing else.
    pub(super) fn single_day_of_month(&self) -> Option<u32> {
        let days = self.of_month.days;
        (self.shape == Shape::Numbers && days.count_ones() == 1).then(|| days.trailing_zeros())
    }

    /// The parts of the fields, for describing the rule in words.
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            days_of_month: (!self.of_month.any).then_some(DayOfMonthParts {
                days: self.of_month.days,
                from_last: self.of_month.from_last,
                near: self.of_month.near,
                last_workday: self.of_month.last_workday,
            }),
            days_of_week: (!self.of_week.any).then_some((self.of_week.weekdays, &self.of_week.nth)),
            both: self.join == Join::Both,
        }
    }
}

/// The parts of [`Days`].
pub(super) struct Parts<'a> {
    pub(super) days_of_month: Option<DayOfMonthParts>,
    pub(super) days_of_week: Option<(u8, &'a [u8; 7])>,
    pub(super) both: bool,
}

pub(super) struct DayOfMonthParts {
    pub(super) days: u32,
    pub(super) from_last: u32,
    pub(super) near: u32,
    pub(super) last_workday: bool,
}

impl OfMonth {
    fn matching(&self, length: u32, first: u32) -> u32 {
        let mut days = self.days;
        if self.from_last != 0 {
            // Bit k of `from_last` is day `length - k`: the bits are mirrored and shifted into
            // position.
            days |= self.from_last.reverse_bits() >> (31 - length);
        }
        let mut near = self.near & (u32::MAX >> (31 - length));
        while near != 0 {
            let day = near.trailing_zeros();
            near &= near - 1;
            days |= 1 << nearest_workday(day, length, first);
        }
        if self.last_workday {
            days |= 1 << nearest_workday(length, length, first);
        }
        days
    }
}

/// The Monday-to-Friday day nearest to `day` in the same month.
fn nearest_workday(day: u32, length: u32, first: u32) -> u32 {
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

impl OfWeek {
    fn matching(&self, length: u32, first: u32) -> u32 {
        let mut days = repeat_weekly(self.weekdays, first);
        for n in 1..=5 {
            if self.nth[n] != 0 {
                let week = 0b1111_1110 << (7 * (n - 1));
                days |= repeat_weekly(self.nth[n], first) & week as u32;
            }
        }
        if self.nth[LAST as usize] != 0 {
            let last_week = 0b1111_1110 << (length - 7);
            days |= repeat_weekly(self.nth[LAST as usize], first) & last_week;
        }
        days
    }
}

/// The days of a month, as bits from 1, that fall on the weekdays, if the 1st is on `first`.
fn repeat_weekly(weekdays: u8, first: u32) -> u32 {
    const EVERY_SEVENTH: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35;
    ((u64::from(weekdays) * EVERY_SEVENTH) >> first << 1) as u32
}
