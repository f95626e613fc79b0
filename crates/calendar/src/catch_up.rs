//! Catch-up: which missed occurrences still run.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::duration::parse_duration;
use crate::problem::{Mistake, Problem};
use crate::rule::Rule;
use crate::timing::{Occurrence, Timing};

/// How many missed occurrences are counted one by one. A larger number is reported as "more than"
/// this.
const COUNT_LIMIT: u64 = 100_000;
/// How many runs `all` starts without a `limit`: those of the latest occurrences.
const DEFAULT_LIMIT: u32 = 100;
/// The largest `limit` of `all`.
pub const MOST_CAUGHT_UP: u32 = 10_000;

/// Which missed occurrences run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Policy {
    /// No missed occurrence runs.
    None,
    /// Only the latest missed occurrence runs, in place of all.
    #[default]
    Last,
    /// All missed occurrences run, oldest first: the latest 100, or as many as `limit` says.
    All,
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(written: String) -> Result<Policy, String> {
        let name = |policy: Policy| match policy {
            Policy::None => "none",
            Policy::Last => "last",
            Policy::All => "all",
        };
        crate::choice::by_name(&written, &[Policy::None, Policy::Last, Policy::All], name)
    }
}

/// The catch-up policy as declared: `catch_up: last`, or `catch_up: {policy: all, window: 1d,
/// limit: 20, pace: 1/10s}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected none, last or all, or an entry with policy, window, limit and pace"
)]
pub enum CatchUpSpec {
    /// The policy alone, with its other settings at their defaults.
    Policy(Policy),
    /// The policy with its limits.
    Detailed(DetailedCatchUp),
}

/// The detailed form of [`CatchUpSpec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DetailedCatchUp {
    pub policy: Policy,
    /// Occurrences older than this never run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The most runs; the latest occurrences take precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Runs per time: `1/10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
}

/// A valid catch-up policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    pub policy: Policy,
    /// Occurrences older than this never run.
    pub window: Option<SignedDuration>,
    pub limit: u32,
    /// The time between two runs.
    pub pace: Option<SignedDuration>,
}

impl Default for CatchUp {
    fn default() -> CatchUp {
        CatchUp { policy: Policy::Last, window: None, limit: DEFAULT_LIMIT, pace: None }
    }
}

impl CatchUpSpec {
    /// Builds the policy, or reports every mistake in it.
    pub fn build(&self) -> Result<CatchUp, Vec<Mistake>> {
        let detailed = match self {
            CatchUpSpec::Policy(policy) => {
                return Ok(CatchUp { policy: *policy, ..CatchUp::default() });
            }
            CatchUpSpec::Detailed(detailed) => detailed,
        };
        let mut mistakes = Vec::new();
        let mut keep = |path: &str, result: Result<SignedDuration, Problem>| {
            result.map_err(|problem| mistakes.push(Mistake::new(path, problem))).ok()
        };
        let window = detailed.window.as_deref().and_then(|w| keep("window", parse_duration(w)));
        let pace = detailed.pace.as_deref().and_then(|pace| keep("pace", parse_pace(pace)));
        let limit = detailed.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MOST_CAUGHT_UP).contains(&limit) {
            let problem = Problem::whole("catch-up", &limit.to_string(), "not a limit of runs")
                .allow(format!("1 to {MOST_CAUGHT_UP}"));
            mistakes.push(Mistake::new("limit", problem));
        }
        let catch_up = CatchUp { policy: detailed.policy, window, limit, pace };
        if mistakes.is_empty() { Ok(catch_up) } else { Err(mistakes) }
    }
}

/// Parses a pace such as `1/10s` into the time between two runs.
fn parse_pace(text: &str) -> Result<SignedDuration, Problem> {
    let bad =
        || Problem::whole("pace", text, "not a pace").allow("runs/time, such as 1/10s or 60/1h");
    let (runs, time) = text.split_once('/').ok_or_else(bad)?;
    let runs = runs.trim().parse::<i32>().ok().filter(|n| (1..=1_000_000).contains(n));
    let time = parse_duration(time)?;
    Ok(time / runs.ok_or_else(bad)?)
}

/// The decision over the occurrences in `(mark, now]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Occurrences that run, oldest first. From the second on, they wait for the pace.
    pub run: Vec<Occurrence>,
    /// Occurrences inside the window that do not run themselves; those in `run` stand for them.
    pub coalesced: Count,
    /// Occurrences that do not run: the policy is `none`, or they are older than the window.
    pub missed: Count,
}

/// A number of occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of occurrences that were counted.
    pub counted: u64,
    /// Whether there were more than could be counted.
    pub more: bool,
}

impl CatchUp {
    /// Decides which occurrences that were due after `mark` and until `now` run.
    ///
    /// ```
    /// use calendar::{CatchUp, TimingContext, TimingSpec, Zones};
    /// let zones = Zones::bundled();
    /// let at = |text: &str| text.parse().unwrap();
    /// let context = TimingContext::new(&zones, at("2026-01-01T00:00:00Z"));
    /// let hourly = TimingSpec::from_cron("@hourly").build(&context).unwrap();
    /// let caught_up =
    ///     CatchUp::default().decide(&hourly, at("2026-01-01T00:00:00Z"), at("2026-01-01T05:30:00Z"));
    /// assert_eq!(caught_up.run[0].nominal, at("2026-01-01T05:00:00Z"));
    /// assert_eq!(caught_up.coalesced.counted, 4);
    /// ```
    pub fn decide(&self, timing: &Timing, mark: Timestamp, now: Timestamp) -> CaughtUp {
        let oldest = self.window.and_then(|window| now.checked_sub(window).ok());
        if matches!(timing.rule(), Rule::AfterCompletion(_)) {
            return self.decide_one(timing.next_after(mark), oldest, now);
        }
        // An occurrence exactly as old as the window is still inside it.
        let edge = oldest.and_then(|at| at.checked_sub(SignedDuration::from_nanos(1)).ok());
        let edge = edge.map_or(mark, |edge| edge.max(mark).min(now.max(mark)));
        let missed = count(timing, mark, edge);
        let inside = count(timing, edge, now);
        let wanted = match self.policy {
            Policy::None => 0,
            Policy::Last => 1,
            Policy::All => u64::from(self.limit),
        };
        let run = latest(timing, edge, now, wanted);
        let rest =
            Count { counted: inside.counted.saturating_sub(run.len() as u64), more: inside.more };
        match self.policy {
            Policy::None => {
                CaughtUp { run, coalesced: Count::default(), missed: missed.plus(rest) }
            }
            _ => CaughtUp { run, coalesced: rest, missed },
        }
    }
}

impl CatchUp {
    /// Decides for a rule that counts from the end of the last run. It has one occurrence at most,
    /// however old: the next one only comes after another run.
    fn decide_one(
        &self,
        due: Option<Occurrence>,
        oldest: Option<Timestamp>,
        now: Timestamp,
    ) -> CaughtUp {
        let Some(due) = due.filter(|due| due.effective <= now) else { return CaughtUp::default() };
        let too_old = oldest.is_some_and(|oldest| due.effective < oldest);
        if self.policy == Policy::None || too_old {
            let missed = Count { counted: 1, more: false };
            return CaughtUp { missed, ..CaughtUp::default() };
        }
        CaughtUp { run: vec![due], ..CaughtUp::default() }
    }
}

impl Count {
    fn plus(self, other: Count) -> Count {
        Count { counted: self.counted + other.counted, more: self.more || other.more }
    }
}

/// Counts the occurrences due in `(after, until]`.
fn count(timing: &Timing, after: Timestamp, until: Timestamp) -> Count {
    if let Some(interval) = timing.plain_interval() {
        return Count { counted: interval.count(after, until), more: false };
    }
    let due = timing.after(after).take_while(|occurrence| occurrence.effective <= until);
    let counted = due.take(COUNT_LIMIT as usize + 1).count() as u64;
    Count { counted: counted.min(COUNT_LIMIT), more: counted > COUNT_LIMIT }
}

/// The latest occurrences due in `(after, until]`, oldest first.
fn latest(timing: &Timing, after: Timestamp, until: Timestamp, wanted: u64) -> Vec<Occurrence> {
    let mut found = Vec::new();
    let mut before = until.checked_add(SignedDuration::from_nanos(1)).unwrap_or(until);
    while (found.len() as u64) < wanted {
        let previous = timing.previous_before(before);
        let Some(previous) = previous.filter(|p| p.effective > after) else { break };
        before = previous.effective;
        found.push(previous);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TimingContext, TimingSpec, Zones};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn check(policy: &str, expected_runs: &[&str], coalesced: u64, missed: u64) {
        let zones = Zones::bundled();
        let context = TimingContext::new(&zones, at("2026-01-01T00:00:00Z"));
        let timing = TimingSpec::from_cron("0 */6 * * *").build(&context).unwrap();
        let spec: CatchUpSpec = serde_json::from_str(policy).unwrap();
        let (mark, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-03T00:00:00Z"));
        let decided = spec.build().unwrap().decide(&timing, mark, now);
        let runs: Vec<Timestamp> = decided.run.iter().map(|o| o.effective).collect();
        let expected: Vec<Timestamp> = expected_runs.iter().map(|text| at(text)).collect();
        assert_eq!(runs, expected, "{policy}");
        assert_eq!(
            (decided.coalesced.counted, decided.missed.counted),
            (coalesced, missed),
            "{policy}"
        );
        assert_eq!(
            runs.len() as u64 + coalesced + missed,
            8,
            "{policy}: every one is accounted for"
        );
    }

    #[test]
    fn each_policy() {
        check(r#""none""#, &[], 0, 8);
        check(r#""last""#, &["2026-01-03T00:00:00Z"], 7, 0);
        check(
            r#"{"policy": "all", "limit": 2}"#,
            &["2026-01-02T18:00:00Z", "2026-01-03T00:00:00Z"],
            6,
            0,
        );
        check(r#"{"policy": "last", "window": "12h"}"#, &["2026-01-03T00:00:00Z"], 2, 5);
        check(
            r#"{"policy": "all", "window": "7h"}"#,
            &["2026-01-02T18:00:00Z", "2026-01-03T00:00:00Z"],
            0,
            6,
        );
    }

    #[test]
    fn a_clock_stepped_back_makes_nothing_run_again() {
        let zones = Zones::bundled();
        let context = TimingContext::new(&zones, at("2026-01-01T00:00:00Z"));
        let timing = TimingSpec::from_cron("@hourly").build(&context).unwrap();
        let (mark, earlier) = (at("2026-01-01T10:00:00Z"), at("2026-01-01T07:00:00Z"));
        assert_eq!(CatchUp::default().decide(&timing, mark, earlier), CaughtUp::default());
    }

    #[test]
    fn what_follows_a_completion_is_due_once() {
        let zones = Zones::bundled();
        let ended = at("2026-01-01T00:00:00Z");
        let spec = r#"{"interval": "5m", "from": "completion"}"#;
        let spec: TimingSpec = serde_json::from_str(spec).unwrap();
        let timing = spec.build(&TimingContext::new(&zones, ended)).unwrap();
        let decided = |policy: Policy, window: Option<SignedDuration>, now: &str| {
            let catch_up = CatchUp { policy, window, ..CatchUp::default() };
            let caught_up = catch_up.decide(&timing, ended, at(now));
            assert_eq!(caught_up.coalesced, Count::default());
            (caught_up.run.len(), caught_up.missed.counted)
        };
        let hour = Some(SignedDuration::from_hours(1));
        assert_eq!(decided(Policy::Last, None, "2026-01-01T00:04:59Z"), (0, 0));
        assert_eq!(decided(Policy::Last, None, "2026-02-01T00:00:00Z"), (1, 0));
        assert_eq!(decided(Policy::All, None, "2026-02-01T00:00:00Z"), (1, 0));
        assert_eq!(decided(Policy::None, None, "2026-02-01T00:00:00Z"), (0, 1));
        assert_eq!(decided(Policy::Last, hour, "2026-02-01T00:00:00Z"), (0, 1));
    }

    #[test]
    fn paces() {
        assert_eq!(parse_pace("1/10s"), Ok(SignedDuration::from_secs(10)));
        assert_eq!(parse_pace("60/1h"), Ok(SignedDuration::from_mins(1)));
        for text in ["", "1", "0/10s", "x/10s", "1/", "-1/5s"] {
            assert!(parse_pace(text).is_err(), "{text}");
        }
    }
}
