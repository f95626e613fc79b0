//! Runs the worker's command for an attempt, and turns its end into a report.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use language::definition::{Action, ExecAction};
use runners::{Ended, Policy, Runners, Work};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::protocol::{Attempt, Report};
use crate::failure::Failure;
use crate::supervisor::supervisor;

/// Larger than the default limit of a node, which reports itself when an output is too large.
const MOST_OUTPUT: u64 = 1 << 20;

/// The command that performs attempts.
pub(super) struct Program {
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    runners: Runners,
}

impl Program {
    /// The command inherits the environment of this process.
    pub(super) fn new(command: &[String]) -> Result<Program, Failure> {
        let mut environment = BTreeMap::new();
        for (name, value) in env::vars_os() {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => drop(environment.insert(name, value)),
                (name, _) => {
                    let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
                    tracing::warn!("the variable {name} is not UTF-8: the command does not get it");
                }
            }
        }
        let supervisor = Some(supervisor()?);
        let runners = Runners::new(Policy { allow_exec: true, supervisor, ..Policy::default() })
            .map_err(|error| Failure::Environment(error.to_string()))?;
        Ok(Program { command: command.to_vec(), environment, runners })
    }

    /// Runs the command once, until it ends, exceeds its timeout, or `cancel` is cancelled.
    pub(super) async fn run(&self, attempt: &Attempt, cancel: CancellationToken) -> Report {
        report(self.runners.perform(self.work(attempt), cancel).await)
    }

    fn work(&self, attempt: &Attempt) -> Work {
        let mut env = self.environment.clone();
        let number = attempt.attempt.to_string();
        for (name, value) in [
            ("PUNCTUAL_RUN", &attempt.run),
            ("PUNCTUAL_STEP", &attempt.step),
            ("PUNCTUAL_ATTEMPT", &number),
        ] {
            env.insert(name.to_owned(), value.clone());
        }
        let limit = attempt.timeout_seconds;
        let timeout = limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Work {
            action: Action::Exec(ExecAction {
                command: self.command.clone(),
                env,
                cwd: None,
                stdin: None,
                max_output: MOST_OUTPUT,
            }),
            run_id: attempt.run.clone(),
            step_id: attempt.step.clone(),
            idempotency_key: attempt.idempotency_key.clone(),
            input: attempt.input.get().into(),
            traceparent: attempt.traceparent.clone(),
            output_sink: None,
            earlier: None,
            timeout: timeout.unwrap_or(Duration::MAX),
        }
    }
}

fn report(ended: Ended) -> Report {
    let failed = |code: &str, message, retryable| {
        let code = code.to_owned();
        Report::Failed { code, message, retryable }
    };
    match ended {
        Ended::Succeeded { output } => completed(&output),
        Ended::Failed { code, message, retryable, .. } => failed(code.name(), message, retryable),
        Ended::TimedOut { message } => failed("timeout", message, true),
        Ended::Cancelled { message } => failed("cancelled", message, false),
    }
}

/// The report for a command that succeeded. Its output is JSON if it parses as such, and otherwise
/// text without trailing line breaks. Too long an output is no failure: its beginning is sent,
/// marked as truncated.
fn completed(output: &Value) -> Report {
    if output["stdout_truncated"] == true {
        let cut = json!({
            "stdout": output["stdout"], "stdout_truncated": true,
            "stdout_bytes": output["stdout_bytes"],
        });
        return written(to_raw_value(output.get("json").unwrap_or(&cut)));
    }
    let text = output["stdout"].as_str().unwrap_or_default();
    let read = serde_json::from_str::<&RawValue>(text).map(ToOwned::to_owned);
    written(read.or_else(|_| to_raw_value(text.trim_end_matches(['\r', '\n']))))
}

fn written(output: Result<Box<RawValue>, serde_json::Error>) -> Report {
    match output {
        Ok(output) => Report::Completed(output),
        Err(error) => Report::Failed {
            code: "output".to_owned(),
            message: format!("what the command wrote cannot be sent: {error}"),
            retryable: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_json_or_a_text() {
        for (stdout, sent) in [
            ("{\"a\": 1}\n", "{\"a\": 1}"),
            ("null", "null"),
            ("12345678901234567890123\n", "12345678901234567890123"),
            ("1e400", "1e400"),
            ("hello\n\n", "\"hello\""),
            ("7 8", "\"7 8\""),
            ("  a\n b\r\n", "\"  a\\n b\""),
            ("", "\"\""),
        ] {
            let output = json!({ "stdout": stdout, "stdout_truncated": false });
            let Report::Completed(found) = completed(&output) else { panic!("{stdout}") };
            assert_eq!(found.get(), sent, "{stdout}");
        }
    }

    #[test]
    fn of_too_much_the_beginning_is_sent_and_that_it_is_one() {
        let cut = json!({ "stdout": "1", "stdout_truncated": true, "stdout_bytes": 2_000_000 });
        let Report::Completed(sent) = completed(&cut) else { panic!("failed") };
        assert_eq!(serde_json::from_str::<Value>(sent.get()).unwrap(), cut);
        let mut whole = cut.clone();
        whole["json"] = json!([1, 2]);
        let Report::Completed(sent) = completed(&whole) else { panic!("failed") };
        assert_eq!(sent.get(), "[1,2]");
    }
}
