//! Arguments of `punctual worker`.

use clap::Args;

use super::node::LogForm;

/// `punctual worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each attempt starts the command once. It reads the attempt's input, JSON, from standard input. What
it writes to standard output is the attempt's output: JSON, or else a text. Exit code 0 completes
the attempt; any other fails it, and what it wrote last to standard error says why. PUNCTUAL_RUN,
PUNCTUAL_STEP, PUNCTUAL_ATTEMPT and PUNCTUAL_IDEMPOTENCY_KEY say what it works on. A run that is
cancelled ends the command and all it started: SIGTERM first, SIGKILL ten seconds later.
Ctrl-C finishes what is going on; again ends it at once, and its attempts are retried.
Examples:
  punctual worker --queue invoices -- ./make-invoice
  punctual worker --queue small --queue large --concurrency 4 -- python3 work.py")]
pub(crate) struct WorkerArgs {
    /// The queue to take attempts from; may be given several times
    #[arg(long, value_name = "QUEUE", required = true)]
    pub(crate) queue: Vec<String>,
    /// The most attempts to work on at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) concurrency: u32,
    /// The worker's name; host and process id if left out
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// After this many seconds without a heartbeat, an attempt is given to another worker
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) lease: u64,
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}
