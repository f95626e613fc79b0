//! The log: structured lines on standard error.

use std::env;
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::args::node::LogForm;
use crate::failure::Failure;

const VARIABLE: &str = "PUNCTUAL_LOG";

/// Starts logging; `level` is used where the environment says nothing.
pub(crate) fn start(form: LogForm, level: &str) -> Result<(), Failure> {
    let wanted = env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::builder().parse(&wanted).map_err(|error| {
        Failure::Mistake(format!(
            "{VARIABLE}={wanted}: {error}\n  allowed: error, warn, info, debug, trace, \
             or parts with their own such as info,store=debug\n  try: {VARIABLE}=debug"
        ))
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none());
    let started = match form {
        LogForm::Text => lines.with_target(false).try_init(),
        LogForm::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::Environment(error.to_string()))
}
