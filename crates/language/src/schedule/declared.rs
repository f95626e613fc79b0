//! The declaration of a schedule as it is stored, and its checked form.

use calendar::{CatchUp, CatchUpSpec, Mistake, Problem, Rule, Timing, TimingSpec, parse_duration};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::keys;
use crate::definition::IncidentAction;
use crate::policy::overlap::Overlap;
use crate::policy::retry::{OnExhausted, Retry, RetrySpec};
use crate::rules::Rules;

/// The default number of retries of a failed run.
pub const DEFAULT_MAX_RETRIES: u32 = 3;
/// The default timeout of a run, for schedules that were created through the API.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 600;
/// The default queue limit of `queue_all`.
pub const DEFAULT_QUEUE_LIMIT: u32 = 100;
/// Ten years. A longer timeout is a mistake in the unit.
pub(crate) const LONGEST_TIMEOUT_SECONDS: u64 = 10 * 366 * 86_400;
/// The largest queue. Each queued occurrence is part of the schedule's own row.
pub const LARGEST_QUEUE: u32 = 1_000;
/// More retries than this are a loop.
pub(crate) const LARGEST_MAX_RETRIES: u32 = 1_000;
/// The longest name, in characters. Names are shown in tables and searched.
pub(crate) const LONGEST_NAME: usize = 200;
/// The largest payload, in bytes. It is copied into each run.
pub const LARGEST_PAYLOAD: usize = 256 * 1024;

/// The declaration of a schedule, in its stored form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Declared {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The trigger of the workflow that the schedule stands for, if its creator named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_node_id: Option<String>,
    /// When it is due.
    pub timing: TimingSpec,
    /// What happens when it is due while it is still active.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// How many occurrences `queue_all` keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_limit: Option<u32>,
    /// What happens to missed occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUpSpec>,
    /// The number of successful occurrences after which the schedule is done; 0 for no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub total_repeats: u64,
    /// How often a failed run is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// How long a retry waits.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: RetrySpec,
    /// For how many seconds a run may be performed; 0 for no limit. If omitted, the workflow's own
    /// limit applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// The payload of each run, exactly as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// What happens when retries are exhausted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
    /// Whether the schedule is paused when retries are exhausted, regardless of `on_exhausted`.
    #[serde(skip_serializing_if = "is_default")]
    pub pause_on_failure: bool,
    /// How long its history is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    /// What happens when an occurrence finally fails; what the workflow says, if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Vec<IncidentAction>>,
    /// What happens when it succeeds again; what the workflow says, if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_recovery: Option<Vec<IncidentAction>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl PartialEq for Declared {
    fn eq(&self, other: &Declared) -> bool {
        let text = |declared: &Declared| serde_json::to_string(declared).ok();
        text(self) == text(other)
    }
}

/// A checked declaration, ready for decisions.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When the schedule is due, including its position in a spread window.
    pub timing: Timing,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
    /// How long a retry waits.
    pub retry: Retry,
}

impl Declared {
    /// How many occurrences `queue_all` keeps.
    pub fn queue_limit(&self) -> u32 {
        self.queue_limit.unwrap_or(DEFAULT_QUEUE_LIMIT)
    }

    /// How often a failed run is retried.
    pub fn max_retries(&self) -> u32 {
        self.max_retries.unwrap_or(DEFAULT_MAX_RETRIES)
    }

    /// What happens when retries are exhausted.
    pub fn on_exhausted(&self) -> OnExhausted {
        self.on_exhausted.unwrap_or(OnExhausted::Die)
    }

    /// The timeout of a run, if there is one.
    pub fn timeout(&self) -> Option<SignedDuration> {
        let seconds = self.timeout_seconds.filter(|seconds| *seconds > 0)?;
        Some(SignedDuration::from_secs(seconds.min(LONGEST_TIMEOUT_SECONDS) as i64))
    }

    /// Fills in the defaults of a schedule that is created through the API: four attempts, then it
    /// dies, and a timeout of ten minutes unless its workflow has one. `timeout` is the workflow's.
    pub fn fill_for_api(&mut self, timeout: Option<SignedDuration>) {
        let whole = timeout.map(|timeout| timeout.as_secs().max(1).unsigned_abs());
        self.timeout_seconds.get_or_insert(whole.unwrap_or(DEFAULT_TIMEOUT_SECONDS));
    }

    /// Fills in the defaults of a trigger or producer of a definition: no retries, since steps have
    /// their own, and after a failed occurrence the next one comes. `timeout` is the definition's.
    pub fn fill_for_definition(&mut self, timeout: Option<SignedDuration>) {
        self.max_retries.get_or_insert(0);
        self.on_exhausted.get_or_insert(OnExhausted::Continue);
        // Fractions of a second cannot be stored here; the definition's own timeout then applies.
        let whole = timeout.filter(|timeout| timeout.subsec_nanos() == 0);
        if let Some(timeout) = whole {
            self.timeout_seconds.get_or_insert(timeout.as_secs().unsigned_abs());
        }
    }

    /// Builds the plan, or returns all mistakes. Intervals begin at `anchor`; `key` determines the
    /// position inside a spread window.
    pub fn plan(&self, rules: &Rules, anchor: Timestamp, key: &str) -> Result<Plan, Vec<Mistake>> {
        let timing = rules.timing(&self.timing, anchor)?;
        let timing = if self.timing.spread.is_some() { timing.for_schedule(key) } else { timing };
        let catch_up = match &self.catch_up {
            None => CatchUp::default(),
            Some(spec) => spec.build().map_err(|all| under("catch_up", all))?,
        };
        let retry = self.retry.build(interval(&timing)).map_err(|all| under("retry", all))?;
        Ok(Plan { timing, catch_up, retry })
    }

    /// Checks the declaration: returns its plan or all mistakes.
    pub fn check(&self, rules: &Rules, anchor: Timestamp) -> Result<Plan, Vec<Mistake>> {
        let mut mistakes = self.limits();
        match self.plan(rules, anchor, "") {
            Ok(plan) if mistakes.is_empty() => Ok(plan),
            Ok(_) => Err(mistakes),
            Err(more) => {
                mistakes.extend(more);
                Err(mistakes)
            }
        }
    }

    fn limits(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut bound = |path: &str, value: u64, allowed: std::ops::RangeInclusive<u64>| {
            if !allowed.contains(&value) {
                let problem = Problem::whole("range", &value.to_string(), "out of range")
                    .allow(format!("{} to {}", allowed.start(), allowed.end()));
                mistakes.push(Mistake::new(path, problem));
            }
        };
        bound("max_retries", self.max_retries().into(), keys::RETRIES);
        bound("queue_limit", self.queue_limit().into(), keys::QUEUE);
        bound("timeout_seconds", self.timeout_seconds.unwrap_or(0), keys::TIMEOUT);
        bound("total_repeats", self.total_repeats, keys::REPEATS);
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > LONGEST_NAME || name.contains(char::is_control)
        {
            let problem = Problem::whole("name", &self.name, "not a name")
                .allow(format!("1 to {LONGEST_NAME} characters on one line"));
            mistakes.push(Mistake::new("name", problem));
        }
        if self.payload.as_ref().is_some_and(|payload| payload.get().len() > LARGEST_PAYLOAD) {
            let problem = Problem::whole("size", "", "the payload is too large")
                .allow(format!("up to {} KiB", LARGEST_PAYLOAD / 1024));
            mistakes.push(Mistake::new("payload", problem));
        }
        if let Some(problem) = self.retention.as_deref().and_then(|text| parse_duration(text).err())
        {
            mistakes.push(Mistake::new("retention", problem));
        }
        mistakes
    }

    /// How long its history is kept, if it says so itself.
    pub fn retention(&self) -> Option<SignedDuration> {
        self.retention.as_deref().and_then(|text| parse_duration(text).ok())
    }
}

/// The time from one occurrence to the next, if the rule is an interval.
pub fn interval(timing: &Timing) -> Option<SignedDuration> {
    match timing.rule() {
        Rule::Interval(interval) => Some(interval.every()),
        Rule::AfterCompletion(every) => Some(*every),
        _ => None,
    }
}

fn under(parent: &str, mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.into_iter().map(|mistake| mistake.under(parent)).collect()
}
