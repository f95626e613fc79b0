//! Scales: round values along an axis, for time of day, durations and counts.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::text::{NOTE_SIZE, width};

/// How instants are shown: the offset of the wall clock, and the text of an instant.
#[derive(Clone, Copy)]
pub struct Wall<'a> {
    /// The zone's offset at an instant. Round times are round on that wall clock.
    pub offset: &'a dyn Fn(Timestamp) -> Offset,
    /// The full text of an instant, for sentences. The labels of an axis are shorter and made here.
    pub words: &'a dyn Fn(Timestamp) -> String,
}

impl Wall<'_> {
    /// The wall-clock time of an instant, in milliseconds.
    fn shown(&self, at: Timestamp) -> i64 {
        at.as_millisecond() + i64::from((self.offset)(at).seconds()) * 1000
    }

    /// The instant of a wall-clock time.
    fn instant(&self, shown: i64) -> Option<Timestamp> {
        let back = |near: Timestamp| {
            let offset = i64::from((self.offset)(near).seconds()) * 1000;
            Timestamp::from_millisecond(shown.checked_sub(offset)?).ok()
        };
        back(back(Timestamp::from_millisecond(shown).ok()?)?)
    }
}

/// The range of time that fills the width of a drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    start: i64,
    end: i64,
}

impl Span {
    /// The range from the first instant to the last; never empty.
    pub(crate) fn new(start: Timestamp, end: Timestamp) -> Span {
        let (start, end) = (start.as_millisecond(), end.as_millisecond());
        Span { start, end: end.max(start + 1) }
    }

    /// A range around all of these instants, with a little room at both ends.
    pub(crate) fn around(instants: impl Iterator<Item = Timestamp>) -> Span {
        let millis = instants.map(Timestamp::as_millisecond);
        let (start, end) =
            millis.fold((i64::MAX, i64::MIN), |(start, end), at| (start.min(at), end.max(at)));
        if start > end {
            return Span { start: 0, end: 1 };
        }
        let room = if start == end { 500 } else { ((end - start) / 40).max(1) };
        Span { start: start - room, end: end + room }
    }

    /// The range with a little room at both ends, for marks that have a width.
    pub(crate) fn widened(self) -> Span {
        let room = (self.end - self.start) / 60;
        Span { start: self.start - room, end: self.end + room }
    }

    /// The position of an instant, from 0 to 1. Instants outside are at the edge.
    pub(crate) fn position(&self, at: Timestamp) -> f64 {
        let far = (at.as_millisecond() - self.start) as f64 / (self.end - self.start) as f64;
        far.clamp(0.0, 1.0)
    }

    pub(crate) fn contains(&self, at: Timestamp) -> bool {
        (self.start..=self.end).contains(&at.as_millisecond())
    }
}

/// A labelled position on a time axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notch {
    pub(crate) position: f64,
    pub(crate) label: String,
    /// The day or year that the label leaves out, given the first time and whenever it changes.
    pub(crate) context: Option<String>,
    /// Which part of the label is at the position: `start`, `middle` or `end`.
    pub(crate) anchor: &'static str,
}

/// The distance between notches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Millis(i64),
    Months(i64),
}

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Weeks begin on Monday. This is the first one after the epoch, which was a Thursday.
const FIRST_MONDAY: i64 = 4 * DAY;

const ROUND_TIMES: [i64; 30] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
];
const ROUND_MONTHS: [i64; 11] = [1, 2, 3, 6, 12, 24, 60, 120, 600, 1200, 12_000];

impl Step {
    fn every() -> impl Iterator<Item = Step> {
        ROUND_TIMES.map(Step::Millis).into_iter().chain(ROUND_MONTHS.map(Step::Months))
    }

    fn millis(self) -> i64 {
        match self {
            Step::Millis(millis) => millis,
            Step::Months(months) => months * 30 * DAY,
        }
    }

    fn label(self, shown: DateTime) -> String {
        let format = match self {
            Step::Millis(step) if step < SECOND => "%H:%M:%S%.3f",
            Step::Millis(step) if step < MINUTE => "%H:%M:%S",
            Step::Millis(step) if step < DAY => "%H:%M",
            Step::Millis(_) => "%-d %b",
            Step::Months(months) if months < 12 => "%b",
            Step::Months(_) => "%Y",
        };
        shown.strftime(format).to_string()
    }

    fn context(self, shown: DateTime) -> Option<String> {
        let format = match self {
            Step::Millis(step) if step < DAY => "%a %-d %b",
            Step::Months(months) if months >= 12 => return None,
            _ => "%Y",
        };
        Some(shown.strftime(format).to_string())
    }

    /// The wall-clock time of the first notch at or after `shown`.
    fn first(self, shown: i64) -> Option<i64> {
        match self {
            Step::Millis(step) => {
                let base = if step > DAY { FIRST_MONDAY } else { 0 };
                Some((shown - base + step - 1).div_euclid(step) * step + base)
            }
            Step::Months(step) => {
                let date = date_time(shown - 1)?;
                let month = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
                month_start((month.div_euclid(step) + 1) * step)
            }
        }
    }
}

fn date_time(shown: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_millisecond(shown).ok()?))
}

fn month_start(months: i64) -> Option<i64> {
    let year = i16::try_from(months.div_euclid(12)).ok()?;
    let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
    let date = DateTime::new(year, month, 1, 0, 0, 0, 0).ok()?;
    Some(Offset::UTC.to_timestamp(date).ok()?.as_millisecond())
}

/// Round times along a range, as many as have room for their labels.
pub(crate) fn time_notches(span: Span, wall: Wall<'_>, room: f64) -> Vec<Notch> {
    let is_near = |step: &Step| (span.end - span.start) / step.millis() < MOST_NOTCHES;
    let laid = Step::every().filter(is_near).map(|step| notches_of(step, span, wall, room));
    laid.into_iter().find(|notches| have_room(notches, room)).unwrap_or_default()
}

/// The most notches that are tried: with more, not even the shortest labels would have room.
const MOST_NOTCHES: i64 = 40;
/// The space between two labels, in pixels.
const LABEL_GAP: f64 = 8.0;

fn notches_of(step: Step, span: Span, wall: Wall<'_>, room: f64) -> Vec<Notch> {
    let mut notches: Vec<Notch> = Vec::new();
    let mut context = None;
    let mut last = None;
    let start = Timestamp::from_millisecond(span.start).map_or(0, |start| wall.shown(start));
    let mut next = step.first(start);
    while let Some((shown, at)) = next.and_then(|shown| Some((shown, wall.instant(shown)?))) {
        if at.as_millisecond() > span.end {
            break;
        }
        next = step.first(shown + 1);
        // Where the wall clock is set back, it shows some times twice.
        let (true, Some(date)) = (span.contains(at) && last < Some(at), date_time(shown)) else {
            continue;
        };
        last = Some(at);
        let now = step.context(date);
        let is_new = now != context;
        context.clone_from(&now);
        let (label, context) = (step.label(date), now.filter(|_| is_new));
        notches.push(Notch::new(span.position(at), label, context, room));
    }
    notches
}

/// Whether no label overlaps the next one in a drawing `room` pixels wide.
fn have_room(notches: &[Notch], room: f64) -> bool {
    notches.windows(2).all(|pair| pair[0].reach(room).1 + LABEL_GAP <= pair[1].reach(room).0)
}

impl Notch {
    /// Centres the label at the position, unless it would leave a drawing of that width.
    fn new(position: f64, label: String, context: Option<String>, room: f64) -> Notch {
        let mut notch = Notch { position, label, context, anchor: "middle" };
        let (from, to) = notch.reach(room);
        if from < 0.0 {
            notch.anchor = "start";
        } else if to > room {
            notch.anchor = "end";
        }
        notch
    }

    /// The horizontal extent of the label.
    fn reach(&self, room: f64) -> (f64, f64) {
        let context = self.context.as_deref().unwrap_or_default();
        let wide = width(&self.label, NOTE_SIZE).max(width(context, NOTE_SIZE));
        let x = self.position * room;
        match self.anchor {
            "start" => (x, x + wide),
            "end" => (x - wide, x),
            _ => (x - wide / 2.0, x + wide / 2.0),
        }
    }
}

/// A scale for values from zero, or, if they differ by much, from the least of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    least: f64,
    most: f64,
    is_log: bool,
    /// The round values that the scale marks, ascending.
    pub(crate) marks: Vec<f64>,
}

/// A wider range of values than this is shown on a logarithmic scale.
const LINEAR_RANGE: f64 = 100.0;

impl Scale {
    /// A scale for counts, with whole numbers.
    pub(crate) fn counts(most: usize) -> Scale {
        let most = most.max(1) as f64;
        let steps = (0..18).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power)));
        Scale::linear(most, steps.into_iter())
    }

    /// A scale for durations in milliseconds.
    pub(crate) fn durations(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let most = values.clone().fold(1.0, f64::max);
        let least = values.filter(|&value| value > 0.0).fold(most, f64::min).max(1.0);
        if most / least > LINEAR_RANGE {
            return Scale::powers(least, most);
        }
        let days = (1..12).flat_map(|power| [2.0, 5.0, 10.0].map(|n| n * 10_f64.powi(power - 1)));
        let round = ROUND_TIMES.into_iter().filter(|&step| step <= DAY).map(|step| step as f64);
        Scale::linear(most, round.chain(days.map(|n| n * DAY as f64)))
    }

    fn linear(most: f64, mut steps: impl Iterator<Item = f64>) -> Scale {
        let step = steps.find(|step| most / step <= 5.0).unwrap_or(most);
        let count = (most / step).ceil().max(1.0);
        let marks = (0..=count as usize).map(|n| n as f64 * step).collect();
        Scale { least: 0.0, most: count * step, is_log: false, marks }
    }

    fn powers(least: f64, most: f64) -> Scale {
        const POWERS: [i64; 12] = [
            1,
            10,
            100,
            SECOND,
            10 * SECOND,
            MINUTE,
            10 * MINUTE,
            HOUR,
            10 * HOUR,
            4 * DAY,
            40 * DAY,
            400 * DAY,
        ];
        let powers = POWERS.map(|power| power as f64);
        let first = powers.iter().rposition(|&power| power <= least).unwrap_or(0);
        let last = powers.iter().position(|&power| power >= most);
        let marks = powers[first..=last.unwrap_or(powers.len() - 1)].to_vec();
        let most = marks.last().map_or(most, |&last| most.max(last));
        Scale { least: powers[first], most, is_log: true, marks }
    }

    /// The position of a value, from 0 to 1.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let far = if self.is_log {
            (value.max(self.least) / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        far.clamp(0.0, 1.0)
    }
}

/// A duration for sentences, in which zero has a unit too.
pub(crate) fn length_words(millis: f64) -> String {
    if millis == 0.0 { "0 ms".to_owned() } else { duration_words(millis) }
}

/// A duration in at most two units.
pub(crate) fn duration_words(millis: f64) -> String {
    let sign = if millis < 0.0 { "−" } else { "" };
    let millis = millis.abs().round() as i64;
    let two = |big: i64, big_name: &str, small: i64, small_name: &str| {
        let (whole, rest) = (millis / big, millis % big / small);
        match rest {
            0 => format!("{sign}{whole} {big_name}"),
            rest => format!("{sign}{whole} {big_name} {rest} {small_name}"),
        }
    };
    match millis {
        0 => "0".to_owned(),
        1..SECOND => format!("{sign}{millis} ms"),
        SECOND..MINUTE => {
            let decimals = if millis < 10 * SECOND { 2 } else { 1 };
            let text = format!("{:.decimals$}", millis as f64 / 1000.0);
            format!("{sign}{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        MINUTE..HOUR => two(MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn check(start: &str, end: &str, hours: i32, room: f64, expected: &str) {
        let (from, to) = (start.parse().unwrap(), end.parse().unwrap());
        let offset = move |_| Offset::from_seconds(hours * 3600).unwrap();
        let wall = Wall { offset: &offset, words: &|at| at.to_string() };
        let notches = time_notches(Span::new(from, to), wall, room);
        let told: Vec<String> = notches
            .iter()
            .map(|notch| match &notch.context {
                Some(context) => format!("{} ({context})", notch.label),
                None => notch.label.clone(),
            })
            .collect();
        assert_eq!(told.join(", "), expected, "{start} to {end}");
        assert!(notches.is_sorted_by(|a, b| a.position < b.position));
        assert!(have_room(&notches, room) && have_room(&notches, room * 3.0));
    }

    #[test]
    fn round_times() {
        let cases = [
            (
                "2026-03-12T10:00:00Z",
                "2026-03-12T10:00:00.010Z",
                "11:00:00.000 (Thu 12 Mar), 11:00:00.005, 11:00:00.010",
            ),
            (
                "2026-03-12T10:00:03Z",
                "2026-03-12T10:00:58Z",
                "11:00:10 (Thu 12 Mar), 11:00:20, 11:00:30, 11:00:40, 11:00:50",
            ),
            (
                "2026-03-12T10:07:00Z",
                "2026-03-12T12:20:00Z",
                "11:30 (Thu 12 Mar), 12:00, 12:30, 13:00",
            ),
            (
                "2026-03-12T10:07:00Z",
                "2026-03-13T12:20:00Z",
                "12:00 (Thu 12 Mar), 18:00, 00:00 (Fri 13 Mar), 06:00, 12:00",
            ),
            (
                "2026-03-12T10:07:00Z",
                "2026-03-16T12:20:00Z",
                "13 Mar (2026), 14 Mar, 15 Mar, 16 Mar",
            ),
            (
                "2026-03-12T10:07:00Z",
                "2026-04-09T12:20:00Z",
                "16 Mar (2026), 23 Mar, 30 Mar, 6 Apr",
            ),
            (
                "2026-11-12T00:00:00Z",
                "2027-03-09T00:00:00Z",
                "23 Nov (2026), 7 Dec, 21 Dec, 4 Jan (2027), 18 Jan, 1 Feb, 15 Feb, 1 Mar",
            ),
            (
                "2020-11-12T00:00:00Z",
                "2027-03-09T00:00:00Z",
                "2021, 2022, 2023, 2024, 2025, 2026, 2027",
            ),
            (
                "2026-03-12T10:00:00Z",
                "2026-03-12T10:00:00Z",
                "11:00:00.000 (Thu 12 Mar), 11:00:00.001",
            ),
        ];
        for (start, end, expected) in cases {
            check(start, end, 1, 420.0, expected);
        }
    }

    #[test]
    fn midnight_stays_midnight_when_clocks_change() {
        let change: Timestamp = "2026-03-29T01:00:00Z".parse().unwrap();
        let offset = move |at| Offset::constant(if at < change { 1 } else { 2 });
        let wall = Wall { offset: &offset, words: &|at| at.to_string() };
        let start: Timestamp = "2026-03-28T00:00:00Z".parse().unwrap();
        let span = Span::new(start, start + SignedDuration::from_hours(72));
        let labels: Vec<f64> =
            time_notches(span, wall, 300.0).iter().map(|notch| notch.position * 72.0).collect();
        let hours: Vec<i64> = labels.iter().map(|hour| hour.round() as i64).collect();
        assert_eq!(hours, [23, 46, 70]);
    }

    #[test]
    fn a_clock_that_is_set_back_shows_nothing_twice() {
        let change: Timestamp = "2026-10-25T01:00:00Z".parse().unwrap();
        let offset = move |at| Offset::constant(if at < change { 2 } else { 1 });
        let wall = Wall { offset: &offset, words: &|at| at.to_string() };
        let start: Timestamp = "2026-10-24T22:00:00Z".parse().unwrap();
        let notches =
            time_notches(Span::new(start, start + SignedDuration::from_hours(6)), wall, 600.0);
        assert!(notches.is_sorted_by(|a, b| a.position < b.position), "{notches:?}");
        assert!(notches.len() >= 6, "{notches:?}");
    }

    #[test]
    fn durations_in_words() {
        let cases = [
            (0.0, "0"),
            (250.0, "250 ms"),
            (1500.0, "1.5 s"),
            (59_960.0, "60 s"),
            (60_000.0, "1 min"),
            (90_000.0, "1 min 30 s"),
            (5_400_000.0, "1 h 30 min"),
            (90_000_000.0, "1 d 1 h"),
            (-1000.0, "−1 s"),
        ];
        for (millis, expected) in cases {
            assert_eq!(duration_words(millis), expected);
        }
    }

    #[test]
    fn scales() {
        let told = |scale: &Scale| {
            scale.marks.iter().map(|&mark| duration_words(mark)).collect::<Vec<_>>().join(", ")
        };
        let cases: [(&[f64], &str); 7] = [
            (&[], "0, 1 ms"),
            (&[0.0], "0, 1 ms"),
            (&[30.0, 240.0], "0, 50 ms, 100 ms, 150 ms, 200 ms, 250 ms"),
            (&[2000.0, 70_000.0], "0, 15 s, 30 s, 45 s, 1 min, 1 min 15 s"),
            (&[20.0, 70_000.0], "10 ms, 100 ms, 1 s, 10 s, 1 min, 10 min"),
            (&[3_600_000.0, 9.0e7], "0, 6 h, 12 h, 18 h, 1 d, 1 d 6 h"),
            (
                &[1.0, 9.0e10],
                "1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 min, 10 min, 1 h, 10 h, 4 d, 40 d, 400 d",
            ),
        ];
        for (values, expected) in cases {
            let scale = Scale::durations(values.iter().copied());
            assert_eq!(told(&scale), expected, "{values:?}");
            assert!(values.iter().all(|&value| (0.0..=1.0).contains(&scale.position(value))));
        }
        for (most, expected) in [(0, 2), (1, 2), (5, 6), (7, 5), (1234, 4)] {
            assert_eq!(Scale::counts(most).marks.len(), expected, "{most}");
        }
    }
}
