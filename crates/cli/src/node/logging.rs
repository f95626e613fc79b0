//! Sets up the log: structured lines on standard error.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use server::Secrets;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::node::LogForm;
use crate::failure::Failure;

const VARIABLE: &str = "PUNCTUAL_LOG";

/// A writer to standard error that masks secrets, whichever code or library logs, and at whatever
/// level.
struct Lines {
    secrets: Arc<Secrets>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.secrets)
    }
}

struct Line<'a>(&'a Secrets);

impl Write for Line<'_> {
    /// Each call receives one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        io::stderr().lock().write_all(self.0.mask(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Secrets of the environment that templates cannot name: the token that callers present to the
/// node, and the keys that sign webhooks.
pub(crate) fn own_secrets() -> impl Iterator<Item = String> {
    ["PUNCTUAL_TOKEN", "PUNCTUAL_WEBHOOK_SECRET"].into_iter().filter_map(|name| env::var(name).ok())
}

/// Starts logging, with secrets masked in every line. `level` applies if the environment sets none.
pub(crate) fn start(form: LogForm, level: &str, secrets: Arc<Secrets>) -> Result<(), Failure> {
    let wanted = env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::builder().parse(&wanted).map_err(|error| {
        Failure::Mistake(format!(
            "{VARIABLE}={wanted}: {error}\n  allowed: error, warn, info, debug, trace, \
             or parts with their own such as info,store=debug\n  try: {VARIABLE}=debug"
        ))
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines { secrets })
        .with_ansi(std::io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none());
    let started = match form {
        LogForm::Text => lines.with_target(false).try_init(),
        LogForm::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::Environment(error.to_string()))
}
