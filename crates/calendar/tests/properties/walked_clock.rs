//! The clock of the reference: every minute (or second) of some weeks, as another zone
//! implementation shows it.

use std::fmt;
use std::sync::OnceLock;

use calendar::{BundledZones, ZoneSource};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::at;

const DAY: i64 = 86_400;

/// An instant and its wall-clock time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) unix: i64,
    pub(super) date: Date,
    pub(super) second_of_day: u32,
    offset: i32,
}

/// A change of the clock that skips wall times.
pub(super) struct Jump {
    pub(super) end: i64,
    pub(super) seconds: i64,
    /// The skipped wall times, in steps of the walk.
    pub(super) skipped: Vec<(Date, u32)>,
}

/// A range of time, step by step.
pub(super) struct Walk {
    pub(super) zone: &'static str,
    pub(super) moments: Vec<Moment>,
    pub(super) jumps: Vec<Jump>,
    step: i64,
}

pub(super) fn reference_zone(name: &str) -> TimeZone {
    let tzif = BundledZones.tzif(name).unwrap_or_else(|| panic!("no zone {name}"));
    TimeZone::tzif(name, &tzif).unwrap()
}

/// The instant of a fixed time: the first pass of a fold, or the end of a gap of at most three
/// hours.
pub(super) fn fixed_instant(zone: &TimeZone, wall: DateTime) -> Option<Timestamp> {
    let with = |offset: jiff::tz::Offset| offset.to_timestamp(wall).unwrap();
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => Some(with(offset)),
        AmbiguousOffset::Fold { before, .. } => Some(with(before)),
        AmbiguousOffset::Gap { before, after } => {
            let end = zone.following(with(after)).next().unwrap().timestamp();
            (after.seconds() - before.seconds() <= 3 * 3600).then_some(end)
        }
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.zone, instant(self.start()))
    }
}

impl Walk {
    pub(super) fn new(zone: &'static str, from: i64, to: i64, step: i64) -> Walk {
        let tz = reference_zone(zone);
        let mut moments: Vec<Moment> = Vec::new();
        let mut jumps = Vec::new();
        for unix in (from..to).step_by(step as usize) {
            let offset = tz.to_offset(Timestamp::from_second(unix).unwrap()).seconds();
            if let Some(last) = moments.last().filter(|last| last.offset < offset) {
                let wall = last.unix + step + i64::from(last.offset);
                let seconds = i64::from(offset - last.offset);
                let skipped = (wall..wall + seconds).step_by(step as usize).map(date_and_second);
                jumps.push(Jump { end: unix, seconds, skipped: skipped.collect() });
            }
            let (date, second_of_day) = date_and_second(unix + i64::from(offset));
            moments.push(Moment { unix, date, second_of_day, offset });
        }
        Walk { zone, moments, jumps, step }
    }

    pub(super) fn start(&self) -> i64 {
        self.moments[0].unix
    }

    pub(super) fn end(&self) -> i64 {
        self.moments[self.moments.len() - 1].unix
    }

    /// The part between two instants.
    pub(super) fn part(&self, from: i64, to: i64) -> &[Moment] {
        &self.moments[self.index_of(from)..self.index_of(to)]
    }

    pub(super) fn index_of(&self, unix: i64) -> usize {
        ((unix - self.start()) / self.step) as usize
    }
}

fn date_and_second(wall: i64) -> (Date, u32) {
    let midnight = Timestamp::from_second(wall.div_euclid(DAY) * DAY).unwrap();
    (jiff::tz::Offset::UTC.to_datetime(midnight).date(), wall.rem_euclid(DAY) as u32)
}

/// Zones whose clocks do unusual things, with a time close to that. Dates that are shown twice come
/// last but for the years outside of the planned ones.
const CENTRES: [(&str, &str); 30] = [
    ("UTC", "2026-02-28T00:00:00Z"),
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Pacific/Chatham", "2027-04-03T14:00:00Z"),
    ("Pacific/Chatham", "2026-09-26T14:00:00Z"),
    ("America/Santiago", "2026-04-05T03:00:00Z"),
    ("America/Santiago", "2026-09-06T04:00:00Z"),
    ("Africa/Cairo", "2026-04-23T22:00:00Z"),
    ("Africa/Cairo", "2026-10-29T21:00:00Z"),
    ("Europe/Dublin", "2026-03-29T01:00:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00:00Z"),
    ("Africa/Casablanca", "2025-03-01T02:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("America/Havana", "2026-03-08T05:00:00Z"),
    ("America/Havana", "2025-11-02T05:00:00Z"),
    ("America/St_Johns", "2026-11-01T04:30:00Z"),
    ("Asia/Gaza", "2026-10-24T00:00:00Z"),
    ("Asia/Kathmandu", "1986-01-01T00:00:00Z"),
    ("Europe/Lisbon", "1992-09-27T01:00:00Z"),
    ("America/Nuuk", "2024-03-31T01:00:00Z"),
    ("Asia/Pyongyang", "2018-05-04T15:00:00Z"),
    ("America/St_Johns", "2010-03-14T03:31:00Z"),
    ("America/St_Johns", "2010-11-07T02:31:00Z"),
    ("Antarctica/Casey", "2010-03-04T15:00:00Z"),
    ("America/New_York", "2900-03-14T07:00:00Z"),
    ("Europe/Berlin", "2499-12-31T12:00:00Z"),
];

/// Changes by odd numbers of seconds, for rules with seconds.
const ODD_CENTRES: [(&str, &str); 4] = [
    ("Africa/Monrovia", "1972-01-07T00:44:30Z"),
    ("America/New_York", "1883-11-18T17:00:00Z"),
    ("Europe/Amsterdam", "1937-07-01T00:00:00Z"),
    ("Asia/Kolkata", "1941-10-01T00:00:00Z"),
];

/// 25 days around each centre, minute by minute.
pub(super) fn minutes() -> &'static [Walk] {
    static WALKS: OnceLock<Vec<Walk>> = OnceLock::new();
    WALKS.get_or_init(|| around(&CENTRES, 25 * DAY, 60))
}

/// Like [`minutes`], only for the planned years of calendars.
pub(super) fn planned_minutes() -> &'static [Walk] {
    &minutes()[..CENTRES.len() - 2]
}

/// Like [`minutes`], without clocks that go back over midnight.
pub(super) fn minutes_of_ordinary_dates() -> &'static [Walk] {
    &minutes()[..CENTRES.len() - 5]
}

/// Six hours around each centre, second by second.
pub(super) fn seconds() -> &'static [Walk] {
    static WALKS: OnceLock<Vec<Walk>> = OnceLock::new();
    WALKS.get_or_init(|| {
        let usual = CENTRES.iter().filter(|(zone, _)| *zone != "Pacific/Apia");
        let all: Vec<(&str, &str)> = usual.chain(&ODD_CENTRES).copied().collect();
        around(&all, 6 * 3600, 1)
    })
}

fn around(centres: &[(&'static str, &str)], reach: i64, step: i64) -> Vec<Walk> {
    let walk = |&(zone, centre): &(&'static str, &str)| {
        let centre = at(centre).as_second();
        Walk::new(zone, centre - reach, centre + reach, step)
    };
    centres.iter().map(walk).collect()
}

pub(super) fn instant(unix: i64) -> Timestamp {
    Timestamp::from_second(unix).unwrap()
}

pub(super) fn nanosecond_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}
