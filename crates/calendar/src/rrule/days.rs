//! The days that pass the day filters of a rule, as one bit mask per kind of year.
//!
//! The filters (BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY, BYDAY) depend only on the weekday a year
//! starts on and on the leap days around it. There are 28 such kinds of years, so 28 masks cover
//! all years, and finding the next day means finding the next bit.

use super::{Direction, Frequency, Rrule};
use crate::civil::{self, Day, FIRST_YEAR, LAST_YEAR};

/// Bit `i` is day `i` of the year, counted from 0.
type Mask = [u64; 6];

const WEEKDAYS: i32 = 7;
/// One bit at the start of each week of a month.
const WEEKLY: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
/// The number of weeks in a year, counted from its first day; the last one is incomplete.
const WEEKS: usize = 53;

/// The days that pass all day filters.
#[derive(Debug)]
pub(super) struct Days {
    /// The days that match, for each [`kind`] of year.
    masks: [Mask; 28],
}

impl Days {
    /// `rrule` must already have the parts that are taken from its start.
    pub(super) fn of(rrule: &Rrule) -> Days {
        let filter = Filter::of(rrule);
        let mut masks = [[0; 6]; 28];
        for kind in 0..masks.len() {
            // Only week numbers depend on the neighbouring years.
            let like = if filter.week_numbers.is_none() && kind < 21 { kind % 7 } else { kind };
            masks[kind] = if like < kind { masks[like] } else { filter.mask(&Shape::of(kind)) };
        }
        Days { masks }
    }

    /// The nearest day that passes the filters, including `day`.
    pub(super) fn seek(&self, day: Day, direction: Direction) -> Option<Day> {
        let mut year = civil::ymd(day).year;
        let mut new_year = civil::day_number(year, 1, 1);
        let mut index = day - new_year;
        loop {
            if !(FIRST_YEAR..=LAST_YEAR).contains(&year) {
                return None;
            }
            if let Some(found) = seek_bit(self.mask(year, new_year), index, direction) {
                return Some(new_year + found);
            }
            match direction {
                Direction::Forward => (year, index) = (year + 1, 0),
                Direction::Backward => (year, index) = (year - 1, 365),
            }
            new_year = civil::day_number(year, 1, 1);
        }
    }

    /// The number of days that pass in `from <= day < to`, a range of at most a year.
    pub(super) fn count(&self, from: Day, to: Day) -> u32 {
        let mut count = 0;
        self.pieces(from, to, |mask, _, start, end| {
            count += (0..6).map(|word| word_bits(mask, word, start, end).count_ones()).sum::<u32>();
        });
        count
    }

    /// The passing day that has `rank` others before it in `from <= day < to`.
    pub(super) fn select(&self, from: Day, to: Day, mut rank: u32) -> Option<Day> {
        let mut found = None;
        self.pieces(from, to, |mask, new_year, start, end| {
            for word in 0..6 {
                let bits = word_bits(mask, word, start, end);
                if found.is_none() && rank < bits.count_ones() {
                    let bit = nth_bit(bits, rank);
                    found = Some(new_year + word as i32 * 64 + bit as i32);
                }
                rank = rank.saturating_sub(bits.count_ones());
            }
        });
        found
    }

    /// Visits the parts of a range, split by year: mask, first of January, start and end bit.
    fn pieces(&self, from: Day, to: Day, mut visit: impl FnMut(&Mask, Day, i32, i32)) {
        let mut year = civil::ymd(from).year;
        let mut new_year = civil::day_number(year, 1, 1);
        while new_year < to {
            let next = civil::day_number(year + 1, 1, 1);
            let (start, end) = (from.max(new_year) - new_year, to.min(next) - new_year);
            visit(self.mask(year, new_year), new_year, start, end);
            (year, new_year) = (year + 1, next);
        }
    }

    fn mask(&self, year: i32, new_year: Day) -> &Mask {
        &self.masks[kind(year, new_year)]
    }
}

/// The index of a year's kind, of 28.
fn kind(year: i32, new_year: Day) -> usize {
    let neighbours = match year & 3 {
        0 if civil::is_leap(year) => 3,
        1 if civil::is_leap(year - 1) => 1,
        3 if civil::is_leap(year + 1) => 2,
        _ => 0,
    };
    neighbours * 7 + civil::weekday(new_year) as usize
}

fn seek_bit(mask: &Mask, index: i32, direction: Direction) -> Option<i32> {
    let (mut word, bit) = (index as usize / 64, index as u32 % 64);
    match direction {
        Direction::Forward => {
            let mut bits = *mask.get(word)? & (u64::MAX << bit);
            while bits == 0 {
                word += 1;
                bits = *mask.get(word)?;
            }
            Some(word as i32 * 64 + bits.trailing_zeros() as i32)
        }
        Direction::Backward => {
            let mut bits = *mask.get(word)? & (u64::MAX >> (63 - bit));
            while bits == 0 {
                word = word.checked_sub(1)?;
                bits = mask[word];
            }
            Some(word as i32 * 64 + 63 - bits.leading_zeros() as i32)
        }
    }
}

/// The bits of one word that lie in `start <= index < end`.
fn word_bits(mask: &Mask, word: usize, start: i32, end: i32) -> u64 {
    let base = word as i32 * 64;
    let (low, high) = ((start - base).clamp(0, 64), (end - base).clamp(0, 64));
    if low >= high { 0 } else { mask[word] & (u64::MAX << low) & (u64::MAX >> (64 - high)) }
}

pub(super) fn nth_bit(mut bits: u64, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}

/// The properties of a year that the filters depend on.
struct Shape {
    first_weekday: i32,
    length: i32,
    length_before: i32,
    length_after: i32,
}

impl Shape {
    fn of(kind: usize) -> Shape {
        let leap_at = |index: usize| if kind / 7 == index { 366 } else { 365 };
        Shape {
            first_weekday: (kind % 7) as i32,
            length: leap_at(3),
            length_before: leap_at(1),
            length_after: leap_at(2),
        }
    }
}

/// A set of positions: bit `n - 1` of `from_start` is `n`, of `from_end` is `-n`.
#[derive(Clone, Copy, Default)]
struct Ordinals<T> {
    from_start: T,
    from_end: T,
}

/// The day filters, in a form that computes the days of a month with a few bit operations.
struct Filter {
    months: u32,
    week_start: i32,
    week_numbers: Option<Ordinals<u64>>,
    year_days: Option<Ordinals<Mask>>,
    month_days: Option<Ordinals<u32>>,
    /// Bit 0 is Sunday.
    weekdays: u32,
    /// For each n, the weekdays whose nth matches.
    nth_weekdays: Ordinals<[u32; WEEKS]>,
    /// Whether BYDAY numbers count from the start of the year and not of the month.
    nth_of_year: bool,
}

impl Filter {
    fn of(rrule: &Rrule) -> Filter {
        let mut filter = Filter {
            months: if rrule.months.is_empty() { !0 } else { 0 },
            week_start: rrule.week_start as i32,
            week_numbers: ordinals(&rrule.week_numbers, |set: &mut u64, i| *set |= 1 << i),
            year_days: ordinals(&rrule.year_days, |set: &mut Mask, i| set[i / 64] |= 1 << (i % 64)),
            month_days: ordinals(&rrule.month_days, |set: &mut u32, i| *set |= 1 << i),
            weekdays: if rrule.weekdays.is_empty() { 0b111_1111 } else { 0 },
            nth_weekdays: Ordinals { from_start: [0; WEEKS], from_end: [0; WEEKS] },
            nth_of_year: rrule.frequency == Frequency::Yearly && rrule.months.is_empty(),
        };
        for &month in &rrule.months {
            filter.months |= 1 << month;
        }
        for day in &rrule.weekdays {
            let bit = 1 << day.weekday;
            // Only months and years have an nth Monday; with other frequencies the number is
            // ignored.
            match day.nth {
                n if n == 0 || rrule.frequency < Frequency::Monthly => filter.weekdays |= bit,
                n if n > 0 => filter.nth_weekdays.from_start[n as usize - 1] |= bit,
                n => filter.nth_weekdays.from_end[-n as usize - 1] |= bit,
            }
        }
        filter
    }

    fn mask(&self, shape: &Shape) -> Mask {
        let mut mask = [0; 6];
        let year = if shape.length == 366 { 2000 } else { 2001 };
        let mut start = 0;
        for month in 1..=12 {
            let length = civil::month_length(year, month) as i32;
            if self.months >> month & 1 == 1 {
                put(&mut mask, start, self.month(shape, start, length));
            }
            start += length;
        }
        if let Some(ordinals) = &self.year_days {
            let mut wanted = ordinals.from_start;
            for index in 0..shape.length as usize {
                let from_end = shape.length as usize - 1 - index;
                wanted[index / 64] |=
                    (ordinals.from_end[from_end / 64] >> (from_end % 64) & 1) << (index % 64);
            }
            intersect(&mut mask, &wanted);
        }
        if let Some(ordinals) = self.week_numbers {
            intersect(&mut mask, &weeks_of_year(ordinals, self.week_start, shape));
        }
        mask
    }

    /// The passing days of a month that starts at bit `start` of the year.
    fn month(&self, shape: &Shape, start: i32, length: i32) -> u64 {
        let first_weekday = (shape.first_weekday + start) % WEEKDAYS;
        let mut days = weekday_days(self.weekdays, first_weekday);
        let (before, total) = if self.nth_of_year { (start, shape.length) } else { (0, length) };
        // Seven consecutive days contain each weekday once, so the nth seven days contain the nth
        // of each.
        for nth in before / 7..=((before + length - 1) / 7).min(WEEKS as i32 - 1) {
            let wanted = self.nth_weekdays.from_start[nth as usize];
            days |= weekday_days(wanted, first_weekday) & stretch(nth * 7 - before);
        }
        let after = total - before - length;
        for nth in after / 7..=((after + length - 1) / 7).min(WEEKS as i32 - 1) {
            let wanted = self.nth_weekdays.from_end[nth as usize];
            days |= weekday_days(wanted, first_weekday) & stretch(length + after - 7 - nth * 7);
        }
        if let Some(ordinals) = self.month_days {
            let from_end = ordinals.from_end.reverse_bits() >> (32 - length);
            days &= u64::from(ordinals.from_start | from_end);
        }
        days & ((1 << length) - 1)
    }
}

fn ordinals<T: Default>(numbers: &[i16], add: impl Fn(&mut T, usize)) -> Option<Ordinals<T>> {
    let mut ordinals = Ordinals { from_start: T::default(), from_end: T::default() };
    for &number in numbers {
        let set = if number > 0 { &mut ordinals.from_start } else { &mut ordinals.from_end };
        add(set, number.unsigned_abs() as usize - 1);
    }
    (!numbers.is_empty()).then_some(ordinals)
}

/// The days of a month that fall on one of `weekdays`, if it starts on `first_weekday`.
fn weekday_days(weekdays: u32, first_weekday: i32) -> u64 {
    let doubled = weekdays | weekdays << WEEKDAYS;
    u64::from(doubled >> first_weekday & 0b111_1111) * WEEKLY
}

/// Seven bits from `start`, as far as they lie in the month.
fn stretch(start: i32) -> u64 {
    if start < 0 { 0b111_1111 >> -start.max(-7) } else { 0b111_1111 << start }
}

fn put(mask: &mut Mask, start: i32, bits: u64) {
    let (word, shift) = (start as usize / 64, start % 64);
    mask[word] |= bits << shift;
    if shift > 0 && word < 5 {
        mask[word + 1] |= bits >> (64 - shift);
    }
}

fn intersect(mask: &mut Mask, other: &Mask) {
    for (word, other) in mask.iter_mut().zip(other) {
        *word &= other;
    }
}

/// The days whose week has one of the numbers. As in ISO 8601, week 1 is the first with four days
/// in the year. Days of a year that lie in a week of a neighbouring year have the number of that
/// week.
fn weeks_of_year(numbers: Ordinals<u64>, week_start: i32, shape: &Shape) -> Mask {
    let into_week = (shape.first_weekday - week_start).rem_euclid(7);
    let first_week_of = |new_year: i32| {
        let into_week = (into_week + new_year).rem_euclid(7);
        new_year - into_week + if into_week > 3 { 7 } else { 0 }
    };
    let first_weeks = [
        first_week_of(-shape.length_before),
        first_week_of(0),
        first_week_of(shape.length),
        first_week_of(shape.length + shape.length_after),
    ];
    let mut mask = [0; 6];
    let mut week = -into_week;
    while week < shape.length {
        let year = first_weeks.iter().rposition(|&first| first <= week).unwrap_or(0);
        let number = (week - first_weeks[year]) / 7;
        let from_end = (first_weeks[(year + 1).min(3)] - week) / 7 - 1;
        if numbers.from_start >> number & 1 == 1 || numbers.from_end >> from_end & 1 == 1 {
            for day in week.max(0)..(week + 7).min(shape.length) {
                mask[day as usize / 64] |= 1 << (day % 64);
            }
        }
        week += 7;
    }
    mask
}
