//! Retry: how long a failed run waits before it is retried, and when it no longer is.

use calendar::{Mistake, Problem, parse_duration};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// The base of the delay for rules that are not an interval.
const DEFAULT_DELAY: SignedDuration = SignedDuration::from_secs(60);
/// The default longest delay, as a multiple of the base.
const CAP: i32 = 10;

/// `retry: {delay: 60s, max_delay: 10m, jitter: 0.1}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// The base of the delay; the interval, or 60 s, if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// The longest delay; ten times the base if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<String>,
    /// Up to this fraction of the delay is added, by a stable hash of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

/// What happens when an occurrence has failed and is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum OnExhausted {
    /// The schedule is dead: nothing more starts until a person revives it.
    Die,
    /// The occurrence has failed, and the next one comes as usual.
    Continue,
}

impl TryFrom<String> for OnExhausted {
    type Error = String;

    fn try_from(written: String) -> Result<OnExhausted, String> {
        calendar::by_name(&written, &OnExhausted::ALL, OnExhausted::name)
    }
}

impl OnExhausted {
    pub const ALL: [OnExhausted; 2] = [OnExhausted::Die, OnExhausted::Continue];

    /// The name in a declaration.
    pub fn name(self) -> &'static str {
        match self {
            OnExhausted::Die => "die",
            OnExhausted::Continue => "continue",
        }
    }
}

/// The checked delays of retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    base: SignedDuration,
    longest: SignedDuration,
    jitter: f64,
}

impl RetrySpec {
    /// Checks the declaration. `interval` is the schedule's own, if its rule is one.
    pub fn build(&self, interval: Option<SignedDuration>) -> Result<Retry, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let mut read = |key: &str, text: Option<&str>| match text.map(parse_duration) {
            Some(Err(problem)) => {
                mistakes.push(Mistake::new(key, problem));
                None
            }
            Some(Ok(delay)) => Some(delay),
            None => None,
        };
        let base = read("delay", self.delay.as_deref());
        let longest = read("max_delay", self.max_delay.as_deref());
        let base = base.or(interval).unwrap_or(DEFAULT_DELAY);
        if mistakes.is_empty() && longest.is_some_and(|longest| longest < base) {
            let text = self.max_delay.as_deref().unwrap_or_default();
            let message = "the longest delay is shorter than the first one";
            let allowed = format!("at least {}", calendar::format_duration(base));
            let problem = Problem::whole("retry", text, message).allow(allowed);
            mistakes.push(Mistake::new("max_delay", problem));
        }
        let jitter = self.jitter.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&jitter) {
            let problem = Problem::whole("range", &jitter.to_string(), "not a part of the delay");
            mistakes.push(Mistake::new("jitter", problem.allow("0 to 1")));
        }
        let longest = longest.unwrap_or_else(|| base.saturating_mul(CAP));
        if mistakes.is_empty() { Ok(Retry { base, longest, jitter }) } else { Err(mistakes) }
    }
}

impl Retry {
    /// The delay before retry number `retry` (1 is the first). `salt` determines the jitter.
    pub fn delay(&self, retry: u32, salt: u64) -> SignedDuration {
        // The largest factor. From a base of one second on, it exceeds any delay.
        let exponent = retry.saturating_sub(1).min(30);
        let delay = self.base.saturating_mul(1 << exponent).min(self.longest);
        let part = self.jitter * (mixed(salt ^ u64::from(retry)) as f64 / u64::MAX as f64);
        let jitter = SignedDuration::from_millis((delay.as_millis() as f64 * part) as i64);
        delay.saturating_add(jitter)
    }
}

/// Whether a failed run is not retried any more. Three retries mean four attempts.
pub fn is_exhausted(retry: u32, max_retries: u32) -> bool {
    retry.saturating_add(1) > max_retries
}

/// SplitMix64: neighbouring salts give unrelated values.
fn mixed(salt: u64) -> u64 {
    let mut z = salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(spec: &RetrySpec, interval: Option<SignedDuration>) -> Vec<i64> {
        let retry = spec.build(interval).unwrap();
        (1..=6).map(|n| retry.delay(n, 7).as_secs()).collect()
    }

    #[test]
    fn backoff_60_120_240_capped_at_ten_times() {
        let minute = SignedDuration::from_secs(60);
        let spec = RetrySpec::default();
        assert_eq!(delays(&spec, Some(minute)), [60, 120, 240, 480, 600, 600]);
        assert_eq!(delays(&spec, None), [60, 120, 240, 480, 600, 600]);
        let hour = SignedDuration::from_secs(3600);
        assert_eq!(delays(&spec, Some(hour))[..3], [3600, 7200, 14400]);
        let own = RetrySpec { delay: Some("5s".into()), ..RetrySpec::default() };
        assert_eq!(delays(&own, Some(hour)), [5, 10, 20, 40, 50, 50]);
    }

    #[test]
    fn the_longest_delay_is_as_long_as_is_said() {
        let spec = |delay: Option<&str>, most: &str| RetrySpec {
            delay: delay.map(str::to_owned),
            max_delay: Some(most.to_owned()),
            jitter: None,
        };
        let poll = spec(Some("10s"), "10m");
        assert_eq!(delays(&poll, None), [10, 20, 40, 80, 160, 320]);
        let last = poll.build(None).unwrap();
        assert_eq!([7, 8, 40, u32::MAX].map(|n| last.delay(n, 0).as_secs()), [600; 4]);
        assert_eq!(delays(&spec(Some("10s"), "10s"), None), [10; 6]);
        let hour = SignedDuration::from_secs(3600);
        for (spec, interval) in [(spec(Some("10s"), "9s"), None), (spec(None, "10m"), Some(hour))] {
            let [mistake] = &spec.build(interval).unwrap_err()[..] else { panic!("{spec:?}") };
            assert_eq!((&*mistake.path, mistake.problem.code), ("max_delay", "retry"));
        }
    }

    #[test]
    fn jitter_adds_a_part_and_is_always_the_same() {
        let spec = RetrySpec { delay: Some("100s".into()), max_delay: None, jitter: Some(0.5) };
        let retry = spec.build(None).unwrap();
        for salt in 0..100 {
            let delay = retry.delay(1, salt);
            assert!((100..=150).contains(&delay.as_secs()), "{delay}");
            assert_eq!(delay, retry.delay(1, salt));
        }
        assert!((0..100).any(|salt| retry.delay(1, salt).as_secs() > 120));
    }

    #[test]
    fn mistakes_are_told_all_at_once() {
        let soon = Some("soon".to_owned());
        let spec = RetrySpec { delay: soon.clone(), max_delay: soon, jitter: Some(2.0) };
        assert_eq!(spec.build(None).unwrap_err().len(), 3);
    }

    #[test]
    fn dead_on_the_fourth_failure_with_max_retries_3() {
        let exhausted: Vec<bool> = (0..4).map(|retry| is_exhausted(retry, 3)).collect();
        assert_eq!(exhausted, [false, false, false, true]);
        assert!(is_exhausted(0, 0));
    }
}
