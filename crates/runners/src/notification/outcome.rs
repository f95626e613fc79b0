//! Which channels were notified, over all attempts. Each attempt reads this from the output of the
//! previous one.

use std::time::Duration;

use language::definition::Channel;
use serde_json::{Value, json};

use crate::{Code, Ended};

/// How many failures a message quotes: enough to see what is wrong.
const QUOTED: usize = 5;

/// The outcome of one channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The peer accepted the message, now or in an earlier attempt.
    Told,
    /// The peer refused the message, or did not confirm it.
    Failed { code: Code, message: String, retryable: bool },
    /// The channel has not answered yet.
    Open,
}

impl Outcome {
    pub(super) fn for_good(code: Code, message: impl Into<String>) -> Outcome {
        Outcome::Failed { code, message: message.into(), retryable: false }
    }
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Outcome {
        match ended {
            Ended::Succeeded { .. } => Outcome::Told,
            Ended::Failed { code, message, retryable, .. } => {
                Outcome::Failed { code, message, retryable }
            }
            Ended::TimedOut { message } | Ended::Cancelled { message } => {
                Outcome::Failed { code: Code::Timeout, message, retryable: true }
            }
        }
    }
}

/// The outcome of each channel, in the order of the definition.
///
/// Channels are identified by their index, because their addresses may be secrets, which no output
/// contains.
pub(super) struct Outcomes {
    channels: Vec<(&'static str, Outcome)>,
}

impl Outcomes {
    /// The outcomes at the beginning of an attempt, read from the output of the previous one. An
    /// output that lists other channels is ignored.
    pub(super) fn after(earlier: Option<&Value>, to: &[Channel]) -> Outcomes {
        let names = to.iter().map(name);
        let listed = earlier.and_then(|output| output["channels"].as_array());
        let listed = listed.filter(|listed| {
            listed.len() == to.len()
                && listed.iter().zip(names.clone()).all(|(known, name)| known["channel"] == name)
        });
        let was_told =
            |at: usize| listed.is_some_and(|listed| listed[at]["told"] == Value::Bool(true));
        let state = |at| if was_told(at) { Outcome::Told } else { Outcome::Open };
        Outcomes { channels: names.enumerate().map(|(at, name)| (name, state(at))).collect() }
    }

    /// The indexes of the channels that are still to be notified.
    pub(super) fn left(&self) -> Vec<usize> {
        let open = |at: &usize| self.channels[*at].1 == Outcome::Open;
        (0..self.channels.len()).filter(open).collect()
    }

    pub(super) fn set(&mut self, at: usize, outcome: Outcome) {
        self.channels[at].1 = outcome;
    }

    /// The result of the attempt, once all channels have answered.
    pub(super) fn ended(&self) -> Ended {
        let failures = self.channels.iter().filter_map(|(_, outcome)| match outcome {
            Outcome::Failed { code, retryable, .. } => Some((*code, *retryable)),
            _ => None,
        });
        // A retryable failure takes precedence, because it is the reason for another attempt.
        let worst = failures.clone().find(|(_, retryable)| *retryable).or(failures.clone().next());
        match worst {
            None => Ended::Succeeded { output: self.output() },
            Some((code, retryable)) => {
                let message = format!("{}{}", self.counted(), self.reasons());
                Ended::Failed { code, message, retryable, output: Some(self.output()) }
            }
        }
    }

    /// The result if the timeout passed before all channels answered. It is a failure and not
    /// `TimedOut`, which has no output: the next attempt must know which channels were notified.
    pub(super) fn timed_out(&self, timeout: Duration) -> Ended {
        let message = format!(
            "{} within {timeout:?}; those without an answer may have been told{}",
            self.counted(),
            self.reasons()
        );
        let output = Some(self.output());
        Ended::Failed { code: Code::Timeout, message, retryable: true, output }
    }

    pub(super) fn cancelled(&self) -> Ended {
        let message = format!("{}; the rest was abandoned and may have been told", self.counted());
        Ended::Cancelled { message }
    }

    fn counted(&self) -> String {
        let told = self.channels.iter().filter(|(_, outcome)| *outcome == Outcome::Told).count();
        format!("{told} of {} channels were told", self.channels.len())
    }

    fn reasons(&self) -> String {
        let reasons = self.channels.iter().filter_map(|(name, outcome)| match outcome {
            Outcome::Failed { message, .. } => Some(format!("; {name}: {message}")),
            _ => None,
        });
        let left_out = reasons.clone().count().saturating_sub(QUOTED);
        let mut text: String = reasons.take(QUOTED).collect();
        if left_out > 0 {
            text.push_str(&format!("; and {left_out} more"));
        }
        text
    }

    fn output(&self) -> Value {
        let shown = |(name, outcome): &(&'static str, Outcome)| match outcome {
            Outcome::Told => json!({ "channel": name, "told": true }),
            Outcome::Open => json!({ "channel": name, "told": false }),
            Outcome::Failed { code, message, .. } => {
                json!({ "channel": name, "told": false, "code": code.name(), "message": message })
            }
        };
        json!({ "channels": self.channels.iter().map(shown).collect::<Vec<_>>() })
    }
}

fn name(channel: &Channel) -> &'static str {
    match channel {
        Channel::Webhook(_) => "webhook",
        Channel::Email(_) => "email",
        Channel::Slack(_) => "slack",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels() -> Vec<Channel> {
        let url = "https://example.org/".to_owned();
        vec![Channel::Webhook(url.clone()), Channel::Slack(url), Channel::Email("a@b.c".into())]
    }

    fn listed(told: [(&str, Value); 3]) -> Value {
        let channels = told.map(|(channel, told)| json!({ "channel": channel, "told": told }));
        json!({ "channels": channels })
    }

    #[test]
    fn who_was_told_is_left_out() {
        let [yes, no] = [Value::Bool(true), Value::Bool(false)];
        let same = ["webhook", "slack", "email"];
        let told = |flags: [&Value; 3]| listed([0, 1, 2].map(|at| (same[at], flags[at].clone())));
        for (earlier, left) in [
            (None, vec![0, 1, 2]),
            (Some(told([&yes, &no, &yes])), vec![1]),
            (Some(told([&yes, &yes, &yes])), vec![]),
            (Some(told([&Value::Null, &json!("true"), &json!(1)])), vec![0, 1, 2]),
            (Some(listed([("slack", yes.clone()), ("slack", no), ("email", yes.clone())])), {
                vec![0, 1, 2]
            }),
            (Some(json!({ "channels": [{ "channel": "webhook", "told": true }] })), vec![0, 1, 2]),
            (Some(json!({ "channels": 3 })), vec![0, 1, 2]),
            (Some(json!("text")), vec![0, 1, 2]),
        ] {
            assert_eq!(Outcomes::after(earlier.as_ref(), &channels()).left(), left, "{earlier:?}");
        }
    }

    #[test]
    fn the_output_of_one_attempt_is_the_memory_of_the_next() {
        let mut first = Outcomes::after(None, &channels());
        first.set(0, Outcome::Told);
        first.set(1, Outcome::for_good(Code::Mail, "no"));
        let Ended::Failed { output: Some(output), .. } = first.timed_out(Duration::from_secs(1))
        else {
            panic!("an output");
        };
        let mut second = Outcomes::after(Some(&output), &channels());
        assert_eq!(second.left(), [1, 2]);
        second.set(1, Outcome::Told);
        second.set(2, Outcome::Told);
        assert!(matches!(second.ended(), Ended::Succeeded { .. }));
    }

    #[test]
    fn one_failure_that_may_heal_is_reason_to_try_again() {
        let heals =
            Outcome::Failed { code: Code::Connect, message: String::new(), retryable: true };
        for (third, expected) in [
            (heals, (Code::Connect, true)),
            (Outcome::Told, (Code::Mail, false)),
            (Outcome::Open, (Code::Mail, false)),
        ] {
            let mut outcomes = Outcomes::after(None, &channels());
            outcomes.set(0, Outcome::Told);
            outcomes.set(1, Outcome::for_good(Code::Mail, "gone"));
            outcomes.set(2, third);
            let Ended::Failed { code, retryable, message, .. } = outcomes.ended() else {
                panic!("a failure");
            };
            assert_eq!((code, retryable), expected);
            assert!(message.contains("slack: gone"), "{message}");
        }
    }

    #[test]
    fn many_failures_are_told_shortly() {
        let to = vec![Channel::Email("a@b.c".to_owned()); 100];
        let mut outcomes = Outcomes::after(None, &to);
        (0..100).for_each(|at| outcomes.set(at, Outcome::for_good(Code::Mail, "no")));
        let Ended::Failed { message, .. } = outcomes.ended() else { panic!("a failure") };
        assert!(message.ends_with("; email: no; and 95 more"), "{message}");
        assert_eq!(message.matches("email: no").count(), QUOTED);
    }
}
