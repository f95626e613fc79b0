//! Builds the command to start from an `exec` action: program, arguments, environment.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;

use language::definition::ExecAction;
use tokio::process::Command;

use crate::{Code, Ended, Work};

/// Variables of the node's own environment that a command inherits: none that could hold a secret.
const INHERITED: &[&str] = &["PATH", "HOME", "LANG", "TZ", "USER"];

/// `PATH` for commands if the node has none itself.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Builds a command from an action. An action that can never be started fails without a retry.
pub(super) fn read(action: &ExecAction, work: &Work) -> Result<Command, Ended> {
    let Some((program, arguments)) = action.command.split_first().filter(|(p, _)| !p.is_empty())
    else {
        let message = "the command is empty; write the program first in `command`";
        return Err(Ended::for_good(Code::InvalidCommand, message));
    };
    if let Some(name) = action.env.keys().find(|name| !is_variable(name)) {
        let name = name.escape_debug();
        let message = format!("`{name}` cannot be the name of a variable; correct `env`");
        return Err(Ended::for_good(Code::InvalidCommand, message));
    }
    if has_nul(action) {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data");
        return Err(not_started(action, &error));
    }
    if let Some(cwd) = action.cwd.as_ref().filter(|cwd| !Path::new(cwd).is_dir()) {
        let message = format!("`{cwd}` is not a folder; correct `cwd` or make it");
        return Err(Ended::for_good(Code::ExecStart, message));
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", DEFAULT_PATH)
        .envs(inherited())
        .envs(work.traceparent.as_ref().map(|span| ("TRACEPARENT", span)))
        .envs(&action.env)
        .env("PUNCTUAL_RUN_ID", &work.run_id)
        .env("PUNCTUAL_STEP_ID", &work.step_id)
        .env("PUNCTUAL_IDEMPOTENCY_KEY", &work.idempotency_key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &action.cwd {
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Whether a word or variable contains NUL, which the operating system takes for the end of the
/// text. [`Command`] replaces such words silently, so they are found here first.
fn has_nul(action: &ExecAction) -> bool {
    action.command.iter().chain(action.env.values()).any(|word| word.contains('\0'))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn inherited() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)))
}

/// Reports why a command did not start. The attempt may be retried if the host was short of
/// processes or memory, but not if the program is missing or not executable.
pub(super) fn not_started(action: &ExecAction, error: &io::Error) -> Ended {
    use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied};
    let program = action.command.first().map(String::as_str).unwrap_or_default().escape_debug();
    let remedy = match error.kind() {
        NotFound | NotADirectory => "; give its full path, or install it where PATH finds it",
        PermissionDenied => "; make it executable for the node's user",
        InvalidInput => "; remove the NUL characters",
        _ => "",
    };
    let for_good =
        matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | InvalidInput);
    let message = format!("`{program}` could not be started: {error}{remedy}");
    Ended::Failed { code: Code::ExecStart, message, retryable: !for_good, output: None }
}
