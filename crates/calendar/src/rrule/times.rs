//! Sets of times of day: the product of hours, minutes and seconds, or a list of picked times.

use super::days::nth_bit;
use super::{Direction, Frequency, Rrule};

/// A non-empty set of seconds after the start of a day, hour or minute.
#[derive(Clone, Debug)]
pub(super) enum Times {
    /// Every combination of an hour, a minute and a second: at most 86,400 times in three words.
    Product { hours: u64, minutes: u64, seconds: u64 },
    /// The times that BYSETPOS picked from a product, in order.
    Picked(Box<[u32]>),
}

/// The set with only the start, for a part that the unit does not have.
const START: u64 = 1;

impl Times {
    pub(super) fn of_day(rrule: &Rrule) -> Times {
        let (hours, minutes, seconds) = clock(rrule);
        Times::Product { hours, minutes, seconds }
    }

    /// The times of day at which the hours, minutes or seconds of a rule in such units start.
    pub(super) fn of_unit_starts(rrule: &Rrule) -> Times {
        let (hours, minutes, seconds) = clock(rrule);
        match rrule.frequency {
            Frequency::Secondly => Times::Product { hours, minutes, seconds },
            Frequency::Minutely => Times::Product { hours, minutes, seconds: START },
            _ => Times::Product { hours, minutes: START, seconds: START },
        }
    }

    /// The occurrences in such a unit, in seconds after its start.
    pub(super) fn of_unit(rrule: &Rrule) -> Times {
        let (_, minutes, seconds) = clock(rrule);
        match rrule.frequency {
            Frequency::Secondly => Times::Product { hours: START, minutes: START, seconds: START },
            Frequency::Minutely => Times::Product { hours: START, minutes: START, seconds },
            _ => Times::Product { hours: START, minutes, seconds },
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Times::Product { hours, minutes, seconds } => {
                hours.count_ones() * minutes.count_ones() * seconds.count_ones()
            }
            Times::Picked(list) => list.len() as u32,
        }
    }

    /// The number of times that are earlier than `second`.
    pub(super) fn rank(&self, second: u32) -> u32 {
        let (hours, minutes, seconds) = match self {
            Times::Picked(list) => return list.partition_point(|&time| time < second) as u32,
            Times::Product { hours, minutes, seconds } => (*hours, *minutes, *seconds),
        };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (per_minute, per_hour) =
            (seconds.count_ones(), seconds.count_ones() * minutes.count_ones());
        let mut rank = below(hours, hour) * per_hour;
        if has(hours, hour) {
            rank += below(minutes, minute) * per_minute;
            if has(minutes, minute) {
                rank += below(seconds, second);
            }
        }
        rank
    }

    /// The time that has `rank` others before it. `rank` must be less than the count.
    pub(super) fn select(&self, rank: u32) -> u32 {
        match self {
            Times::Picked(list) => list.get(rank as usize).copied().unwrap_or_default(),
            Times::Product { hours, minutes, seconds } => {
                let (per_minute, per_hour) =
                    (seconds.count_ones(), seconds.count_ones() * minutes.count_ones());
                nth_bit(*hours, rank / per_hour) * 3600
                    + nth_bit(*minutes, rank % per_hour / per_minute) * 60
                    + nth_bit(*seconds, rank % per_minute)
            }
        }
    }

    /// The nearest time, including `second`.
    pub(super) fn seek(&self, second: u32, direction: Direction) -> Option<u32> {
        let (hours, minutes, seconds) = match self {
            Times::Picked(list) => return seek_in_list(list, second, direction),
            Times::Product { hours, minutes, seconds } => (*hours, *minutes, *seconds),
        };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if has(hours, hour) {
            if has(minutes, minute)
                && let Some(found) = seek_in_set(seconds, second, direction)
            {
                return Some(hour * 3600 + minute * 60 + found);
            }
            if let Some(found) = seek_beyond(minutes, minute, direction) {
                return Some(hour * 3600 + found * 60 + edge(seconds, direction));
            }
        }
        let found = seek_beyond(hours, hour, direction)?;
        Some(found * 3600 + edge(minutes, direction) * 60 + edge(seconds, direction))
    }

    /// The first time in search direction.
    pub(super) fn edge(&self, direction: Direction) -> u32 {
        match self {
            Times::Product { hours, minutes, seconds } => {
                edge(*hours, direction) * 3600
                    + edge(*minutes, direction) * 60
                    + edge(*seconds, direction)
            }
            Times::Picked(list) => match direction {
                Direction::Forward => list.first().copied().unwrap_or_default(),
                Direction::Backward => list.last().copied().unwrap_or_default(),
            },
        }
    }
}

fn seek_in_list(list: &[u32], second: u32, direction: Direction) -> Option<u32> {
    let index = match direction {
        Direction::Forward => list.partition_point(|&time| time < second),
        Direction::Backward => list.partition_point(|&time| time <= second).checked_sub(1)?,
    };
    list.get(index).copied()
}

fn seek_in_set(set: u64, index: u32, direction: Direction) -> Option<u32> {
    let bits = match direction {
        Direction::Forward => set & (u64::MAX << index),
        Direction::Backward => set & (u64::MAX >> (63 - index)),
    };
    (bits != 0).then(|| edge(bits, direction))
}

/// The nearest other element. Indexes stay below 60, so adding or subtracting one never leaves the
/// word.
fn seek_beyond(set: u64, index: u32, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Forward => seek_in_set(set, index + 1, direction),
        Direction::Backward => seek_in_set(set, index.checked_sub(1)?, direction),
    }
}

fn edge(set: u64, direction: Direction) -> u32 {
    match direction {
        Direction::Forward => set.trailing_zeros(),
        Direction::Backward => 63 - set.leading_zeros(),
    }
}

/// BYHOUR, BYMINUTE and BYSECOND as sets. A missing part allows every value.
fn clock(rrule: &Rrule) -> (u64, u64, u64) {
    let set = |numbers: &[i16], size: u32| match numbers {
        [] => (1 << size) - 1,
        // Second 60 is a leap second, which clocks without leap seconds show as second 59.
        _ => numbers.iter().fold(0, |set, &n| set | 1 << (n as u32).min(size - 1)),
    };
    (set(&rrule.hours, 24), set(&rrule.minutes, 60), set(&rrule.seconds, 60))
}

fn has(set: u64, index: u32) -> bool {
    set >> index & 1 == 1
}

fn below(set: u64, index: u32) -> u32 {
    (set & ((1 << index) - 1)).count_ones()
}

/// BYSETPOS: positions in the set of a period, counted from its start and from its end.
#[derive(Clone, Debug)]
pub(super) struct Positions {
    /// Indexes from the start, ascending.
    from_start: Box<[u32]>,
    /// Distances from one past the end, descending, so that the indexes ascend.
    from_end: Box<[u32]>,
}

impl Positions {
    pub(super) fn of(numbers: &[i16]) -> Positions {
        // The numbers are sorted, so the negative ones come first and ascend.
        let split = numbers.partition_point(|&number| number < 0);
        Positions {
            from_start: numbers[split..].iter().map(|&n| n as u32 - 1).collect(),
            from_end: numbers[..split].iter().map(|&n| u32::from(n.unsigned_abs())).collect(),
        }
    }

    /// The smallest picked index that is at least `rank`, in a set of `count`.
    pub(super) fn at_or_after(&self, rank: u32, count: u32) -> Option<u32> {
        let start = self.from_start.partition_point(|&index| index < rank);
        let start = self.from_start.get(start).copied().filter(|&index| index < count);
        let end = self.from_end.partition_point(|&back| count < rank.saturating_add(back));
        let end = self.from_end.get(end).map(|&back| count - back);
        start.into_iter().chain(end).min()
    }

    /// The largest picked index that is less than `rank`, in a set of `count >= rank`.
    pub(super) fn before(&self, rank: u32, count: u32) -> Option<u32> {
        let start = self.from_start.partition_point(|&index| index < rank);
        let start = start.checked_sub(1).map(|last| self.from_start[last]);
        let end = self.from_end.partition_point(|&back| count < rank.saturating_add(back));
        let end = end.checked_sub(1).and_then(|last| count.checked_sub(self.from_end[last]));
        // `count < rank + back` means `count - back < rank`, so `end` is below `rank` already.
        start.into_iter().chain(end).max()
    }

    /// The picked times of a set that is the same in every period; `None` if none is picked.
    pub(super) fn pick(&self, times: &Times) -> Option<Times> {
        let count = times.count();
        let mut picked = Vec::new();
        let mut rank = 0;
        while let Some(index) = self.at_or_after(rank, count) {
            picked.push(times.select(index));
            rank = index + 1;
        }
        (!picked.is_empty()).then(|| Times::Picked(picked.into()))
    }
}
