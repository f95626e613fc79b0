//! Turns the end of a command into the attempt's result.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use language::definition::ExecAction;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::output::Captured;
use crate::fitting::{TEXT_BYTES, cut_encoded, encoded_len};
use crate::{Code, Ended, Mask};

/// Why a command ended.
pub(super) enum Why {
    OfItself,
    /// The command exceeded its timeout. `in_grace`: it ended within the grace period; if false, it
    /// was killed.
    TimedOut {
        in_grace: bool,
    },
    /// The attempt was cancelled. `in_grace`: the command ended within the grace period; if false,
    /// it was killed.
    Cancelled {
        in_grace: bool,
    },
}

/// The end of a command: why, its exit status and its output.
pub(super) struct Outcome {
    pub(super) why: Why,
    pub(super) status: ExitStatus,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

impl Outcome {
    pub(super) fn told(self, action: &ExecAction, timeout: Duration, mask: &Mask) -> Ended {
        let program = action.command.first().map(String::as_str).unwrap_or_default();
        match self.why {
            Why::TimedOut { in_grace } => {
                let what = format!("`{program}` did not end within {timeout:?}");
                Ended::TimedOut { message: self.message(&format!("{what}{}", how(in_grace)), mask) }
            }
            Why::Cancelled { in_grace } => {
                let what = format!("`{program}` was cancelled{}", how(in_grace));
                Ended::Cancelled { message: self.message(&what, mask) }
            }
            Why::OfItself if self.status.success() => {
                Ended::Succeeded { output: self.output(mask) }
            }
            Why::OfItself => self.failed(program, mask),
        }
    }

    fn failed(self, program: &str, mask: &Mask) -> Ended {
        let (code, what) = match (self.status.code(), self.status.signal()) {
            (Some(exit_code), _) => {
                (Code::ExitCode, format!("`{program}` ended with code {exit_code}"))
            }
            (None, signal) => {
                let signal = signal_name(signal.unwrap_or_default());
                (Code::Signal, format!("`{program}` was ended by {signal}"))
            }
        };
        let message = self.message(&what, mask);
        Ended::Failed { code, message, retryable: true, output: Some(self.output(mask)) }
    }

    fn message(&self, what: &str, mask: &Mask) -> String {
        match self.stderr.last_lines(mask) {
            lines if lines.is_empty() => what.to_owned(),
            lines => format!("{what}: {lines}"),
        }
    }

    /// The stored output of a command. Output that is too long is cut: parsed JSON is kept whole in
    /// preference to the text it was parsed from, and of two long texts stderr gets a quarter.
    fn output(&self, mask: &Mask) -> Value {
        let (mut stdout, mut stderr) = (self.stdout.text(mask), self.stderr.text(mask));
        let json = if self.stdout.is_truncated() {
            None
        } else {
            serde_json::from_str::<Value>(&stdout).ok()
        };
        let json = json.map(|json| (json.to_string().len(), json));
        let json = json.filter(|(bytes, _)| *bytes <= TEXT_BYTES);
        let room = TEXT_BYTES - json.as_ref().map_or(0, |(bytes, _)| *bytes);
        // Secrets are masked before the cut, because masking would not recognize half of a secret.
        if encoded_len(&stdout) + encoded_len(&stderr) > room {
            (stdout, stderr) = (mask.apply(&stdout), mask.apply(&stderr));
        }
        let unused = room.saturating_sub(encoded_len(&stdout));
        let is_stderr_cut = cut_encoded(&mut stderr, unused.max(room / 4));
        let is_stdout_cut = cut_encoded(&mut stdout, room - encoded_len(&stderr));
        let mut output = json!({
            "exit_code": self.status.code(),
            "stderr": stderr,
            "stderr_bytes": self.stderr.total(),
            "stderr_truncated": self.stderr.is_truncated() || is_stderr_cut,
            "stdout": stdout,
            "stdout_bytes": self.stdout.total(),
            "stdout_truncated": self.stdout.is_truncated() || is_stdout_cut,
        });
        if let Some((_, json)) = json {
            output["json"] = json;
        }
        if let Some(signal) = self.status.signal() {
            output["signal"] = signal_name(signal).into();
        }
        output
    }
}

fn how(in_grace: bool) -> &'static str {
    if in_grace { "; it ended after SIGTERM" } else { "; it was killed after its grace period" }
}

fn signal_name(number: i32) -> String {
    const NAMES: &[(Signal, &str)] = &[
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let known = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}
