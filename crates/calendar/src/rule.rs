//! Rules: when something is due, without regard to calendars. All kinds share one interface.

use jiff::{SignedDuration, Timestamp};

use crate::cron::Cron;
use crate::dst::{self, Dst, DstOptions};
use crate::duration::format_duration;
use crate::english;
use crate::problem::Problem;
use crate::rrule::Recurrence;
use crate::working_day::WorkingDay;
use crate::zone::Zone;

/// A rule, bound to its zone. A rule keeps wall times, never offsets. With another zone database,
/// it is built again from its declaration.
///
/// ```
/// use calendar::{Cron, Rule, Zones};
/// let zone = Zones::bundled().get("America/New_York").unwrap();
/// let rule = Rule::cron(Cron::parse("30 2 * * *").unwrap(), zone);
/// // 02:30 does not exist on that day: it runs at the first instant after the gap.
/// let next = rule.next_after("2026-03-08T00:00:00Z".parse().unwrap()).unwrap();
/// assert_eq!(next.to_string(), "2026-03-08T07:00:00Z");
/// assert_eq!(rule.words(), "at 02:30 every day, New York time");
/// ```
#[derive(Clone, Debug)]
pub enum Rule {
    Once(Timestamp),
    /// Elapsed time from an anchor, without drift.
    Interval(Interval),
    /// This long after the last run has ended.
    AfterCompletion(SignedDuration),
    /// Wall times described by a cron expression.
    Cron(Box<CronRule>),
    /// An RFC 5545 recurrence.
    Recurrence(Box<Recurrence>),
    /// The nth working day of a period.
    WorkingDay(Box<WorkingDayRule>),
    /// The union of several rules, with one occurrence per instant.
    Any(Vec<Rule>),
}

/// `anchor + k · every` for k = 0, 1, 2 …, or from k = 1 on if the anchor itself is not an
/// occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    every_ms: i64,
    anchor: Timestamp,
    first: u8,
}

/// A cron expression in a zone.
#[derive(Clone, Debug)]
pub struct CronRule {
    pub(crate) cron: Cron,
    pub(crate) zone: Zone,
    pub(crate) dst: Dst,
}

/// A working-day rule, in the zone of its calendar.
#[derive(Clone, Debug)]
pub struct WorkingDayRule {
    pub(crate) day: WorkingDay,
    pub(crate) dst: Dst,
}

/// The shortest interval in milliseconds. A commit takes a few; a schedule that is due more often
/// would always be late.
const SHORTEST_MS: i64 = 100;

impl Interval {
    /// The shortest interval that is allowed.
    pub const SHORTEST: SignedDuration = SignedDuration::from_millis(SHORTEST_MS);

    /// An interval, or `None` if `every` is shorter than [`Interval::SHORTEST`].
    pub fn new(every: SignedDuration, anchor: Timestamp) -> Option<Interval> {
        let every_ms = i64::try_from(every.as_millis()).ok().filter(|ms| *ms >= SHORTEST_MS)?;
        Some(Interval { every_ms, anchor, first: 0 })
    }

    /// The problem to report for an interval that is too short.
    pub fn too_short(text: &str) -> Problem {
        Problem::whole("interval-short", text, "an interval that is too short")
            .allow(format!("at least {}", format_duration(Interval::SHORTEST)))
            .suggest("5m")
    }

    /// The same interval, with its first occurrence one interval after the anchor: for schedules
    /// that count from their creation.
    #[must_use]
    pub fn not_at_once(self) -> Interval {
        Interval { first: 1, ..self }
    }

    /// The time between two occurrences.
    pub fn every(self) -> SignedDuration {
        SignedDuration::from_millis(self.every_ms)
    }

    /// The smallest occurrence strictly greater than `after`.
    pub fn next_after(self, after: Timestamp) -> Option<Timestamp> {
        if after < self.anchor {
            return self.nth(i128::from(self.first));
        }
        self.nth((self.elapsed(after) / self.every_nanos()) + 1)
    }

    /// The greatest occurrence strictly less than `before`.
    pub fn previous_before(self, before: Timestamp) -> Option<Timestamp> {
        if before <= self.anchor {
            return None;
        }
        let k = (self.elapsed(before) - 1) / self.every_nanos();
        if k < i128::from(self.first) { None } else { self.nth(k) }
    }

    /// The number of occurrences with `after < t <= until`.
    pub fn count(self, after: Timestamp, until: Timestamp) -> u64 {
        let upto = |t: Timestamp| {
            if t < self.anchor {
                return 0;
            }
            (self.elapsed(t) / self.every_nanos() + 1 - i128::from(self.first)).max(0)
        };
        u64::try_from(upto(until) - upto(after)).unwrap_or(0)
    }

    fn elapsed(self, at: Timestamp) -> i128 {
        at.as_nanosecond() - self.anchor.as_nanosecond()
    }

    fn every_nanos(self) -> i128 {
        i128::from(self.every_ms) * 1_000_000
    }

    fn nth(self, k: i128) -> Option<Timestamp> {
        let nanos = self.anchor.as_nanosecond() + k * self.every_nanos();
        Timestamp::from_nanosecond(nanos).ok()
    }
}

impl Rule {
    /// A cron rule with the default handling of daylight saving.
    pub fn cron(cron: Cron, zone: Zone) -> Rule {
        let dst = if cron.is_wildcard() { Dst::WILDCARD } else { Dst::FIXED };
        Rule::cron_with(cron, zone, dst)
    }

    /// A cron rule with this handling of daylight saving.
    pub fn cron_with(cron: Cron, zone: Zone, dst: Dst) -> Rule {
        Rule::Cron(Box::new(CronRule { cron, zone, dst }))
    }

    /// The same rule with these options for daylight saving, if its kind has such handling.
    #[must_use]
    pub fn with_dst(mut self, options: DstOptions) -> Rule {
        match &mut self {
            Rule::Cron(rule) => rule.dst = rule.dst.with(options),
            Rule::WorkingDay(rule) => rule.dst = rule.dst.with(options),
            Rule::Any(rules) => {
                *rules = rules.drain(..).map(|rule| rule.with_dst(options)).collect();
            }
            Rule::Once(_) | Rule::Interval(_) | Rule::AfterCompletion(_) | Rule::Recurrence(_) => {}
        }
        self
    }

    /// The first occurrence strictly after the instant; `None` if there is none within the search
    /// range.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Rule::Once(at) => (*at > after).then_some(*at),
            Rule::Interval(interval) => interval.next_after(after),
            Rule::AfterCompletion(delay) => after.checked_add(*delay).ok(),
            Rule::Cron(rule) => dst::next_after(&rule.cron, &rule.zone, rule.dst, after),
            Rule::Recurrence(recurrence) => recurrence.next_after(after),
            Rule::WorkingDay(rule) => {
                dst::next_after(&rule.day, rule.day.calendar.zone(), rule.dst, after)
            }
            Rule::Any(rules) => rules.iter().filter_map(|rule| rule.next_after(after)).min(),
        }
    }

    /// The last occurrence strictly before the instant.
    pub fn previous_before(&self, before: Timestamp) -> Option<Timestamp> {
        match self {
            Rule::Once(at) => (*at < before).then_some(*at),
            Rule::Interval(interval) => interval.previous_before(before),
            // The occurrence depends on when runs ended, which is not known here.
            Rule::AfterCompletion(_) => None,
            Rule::Cron(rule) => dst::previous_before(&rule.cron, &rule.zone, rule.dst, before),
            Rule::Recurrence(recurrence) => recurrence.previous_before(before),
            Rule::WorkingDay(rule) => {
                dst::previous_before(&rule.day, rule.day.calendar.zone(), rule.dst, before)
            }
            Rule::Any(rules) => rules.iter().filter_map(|rule| rule.previous_before(before)).max(),
        }
    }

    /// Iterates over the occurrences after the instant.
    pub fn after(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at))
    }

    /// Whether there may be more than one occurrence. This decides the default of `roll`.
    pub fn is_recurring(&self) -> bool {
        match self {
            Rule::Once(_) => false,
            Rule::Any(rules) => rules.iter().any(Rule::is_recurring),
            _ => true,
        }
    }

    /// Describes the rule in English: `at 09:00 on weekdays, New York time`.
    pub fn words(&self) -> String {
        match self {
            Rule::Once(at) => format!("once, at {}", Zone::utc().rfc3339(*at)),
            Rule::Interval(interval) => {
                let every = format_duration(SignedDuration::from_millis(interval.every_ms));
                format!("every {every} from {}", Zone::utc().rfc3339(interval.anchor))
            }
            Rule::AfterCompletion(delay) => {
                format!("{} after the run before has ended", format_duration(*delay))
            }
            Rule::Cron(rule) => format!("{}, {}", rule.cron.words(), english::zone(&rule.zone)),
            Rule::Recurrence(recurrence) => recurrence.words(),
            Rule::WorkingDay(rule) => {
                format!("{}, {}", rule.day.words(), english::zone(rule.day.calendar.zone()))
            }
            Rule::Any(rules) => {
                let words: Vec<String> = rules.iter().map(Rule::words).collect();
                words.join("; and ")
            }
        }
    }

    /// The zone whose wall clock the rule follows; `None` if it follows none or several.
    pub fn zone(&self) -> Option<&Zone> {
        match self {
            Rule::Once(_) | Rule::Interval(_) | Rule::AfterCompletion(_) => None,
            Rule::Cron(rule) => Some(&rule.zone),
            Rule::Recurrence(recurrence) => Some(recurrence.zone()),
            Rule::WorkingDay(rule) => Some(rule.day.calendar.zone()),
            Rule::Any(rules) => {
                let first = rules.first()?.zone()?;
                rules.iter().all(|rule| rule.zone() == Some(first)).then_some(first)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn intervals_keep_their_anchor() {
        let every = |text: &str| crate::parse_duration(text).unwrap();
        let interval = Interval::new(every("90m"), at("2026-03-28T22:10:00Z")).unwrap();
        assert_eq!(
            interval.next_after(at("2026-01-01T00:00:00Z")),
            Some(at("2026-03-28T22:10:00Z"))
        );
        assert_eq!(
            interval.next_after(at("2026-03-28T22:10:00Z")),
            Some(at("2026-03-28T23:40:00Z"))
        );
        assert_eq!(
            interval.next_after(at("2026-03-28T23:39:59.999Z")),
            Some(at("2026-03-28T23:40:00Z"))
        );
        assert_eq!(
            interval.previous_before(at("2026-03-28T23:40:00Z")),
            Some(at("2026-03-28T22:10:00Z"))
        );
        assert_eq!(interval.previous_before(at("2026-03-28T22:10:00Z")), None);
        assert_eq!(interval.count(at("2026-03-28T22:10:00Z"), at("2026-03-29T22:10:00Z")), 16);
        assert_eq!(interval.next_after(Timestamp::MAX), None);
        for short in ["0s", "1ms", "99ms"] {
            assert_eq!(Interval::new(every(short), at("2026-03-28T22:10:00Z")), None, "{short}");
        }
        assert!(Interval::new(every("100ms"), at("2026-03-28T22:10:00Z")).is_some());
    }

    #[test]
    fn what_counts_from_its_creation_is_not_due_at_once() {
        let created = at("2026-03-28T22:10:00Z");
        let hour = SignedDuration::from_hours(1);
        let interval = Interval::new(hour, created).unwrap().not_at_once();
        let first = at("2026-03-28T23:10:00Z");
        for after in [Timestamp::MIN, at("2026-03-28T22:09:59Z"), created] {
            assert_eq!(interval.next_after(after), Some(first), "{after}");
        }
        assert_eq!(interval.previous_before(first), None);
        assert_eq!(interval.previous_before(at("2026-03-28T23:10:01Z")), Some(first));
        for (after, until, count) in [
            (Timestamp::MIN, created, 0),
            (Timestamp::MIN, first, 1),
            (created, at("2026-03-29T01:10:00Z"), 3),
            (first, at("2026-03-29T01:10:00Z"), 2),
        ] {
            assert_eq!(interval.count(after, until), count, "{after} to {until}");
        }
    }

    #[test]
    fn a_union_has_one_occurrence_per_instant() {
        let zone = Zone::utc();
        let cron = |text: &str| Rule::cron(Cron::parse(text).unwrap(), zone.clone());
        let rule = Rule::Any(vec![
            cron("0 9 * * *"),
            cron("0 9 * * MON"),
            Rule::Once(at("2026-03-02T10:00:00Z")),
        ]);
        let found: Vec<Timestamp> = rule.after(at("2026-03-02T00:00:00Z")).take(3).collect();
        assert_eq!(
            found,
            [at("2026-03-02T09:00:00Z"), at("2026-03-02T10:00:00Z"), at("2026-03-03T09:00:00Z")]
        );
        assert_eq!(rule.previous_before(found[2]), Some(found[1]));
    }
}
