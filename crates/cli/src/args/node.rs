//! Arguments of commands that open a store: `serve`, `demo`, `doctor`, `backup`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The store to open.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// The store: a file, or a PostgreSQL database that nodes share (postgres://USER@HOST/DATABASE)
    #[arg(
        long,
        value_name = "PATH|URL",
        default_value = "./punctual.db",
        env = "PUNCTUAL_DB",
        hide_env_values = true
    )]
    pub(crate) db: String,
    /// The PostgreSQL schema that holds the store
    #[arg(long, value_name = "NAME", default_value = "punctual")]
    pub(crate) schema: String,
}

/// `punctual serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes that share a PostgreSQL share the work. Each says every third of its lease that it lives; what a
node was doing whose lease has run out is taken over by the others. The database's clock decides.
PUNCTUAL_DB keeps a password out of the list of processes.
Environment: PUNCTUAL_TOKEN is the node's own token, whose holder may do everything; without it, and
without tokens that were made, the node listens on loopback addresses only, to anyone. PUNCTUAL_LOG sets what is logged (debug, or store=debug,info).
PUNCTUAL_SECRET_NAME=value is a secret, as in --secrets. PUNCTUAL_WEBHOOK_SECRET=whsec_… signs what is
told to webhooks; PUNCTUAL_SMTP=smtps://user:password@host?from=me@example.org takes mail.
OTEL_EXPORTER_OTLP_HEADERS=name=value,… go with what is sent to --otlp; OTEL_SERVICE_NAME is what the node
is called there (punctual).
SIGTERM or Ctrl-C stops the node within 30 seconds: what goes on may end, the rest is handed back and
taken over at the next start. A second signal stops it at once.")]
pub(crate) struct ServeArgs {
    /// A folder with definitions (*.yaml, *.yml, *.json, *.js), which may run commands; they are
    /// published before anything that is due runs. A file with mistakes is skipped and reported in
    /// the log
    pub(crate) dir: Option<PathBuf>,
    /// Watch the folder: check and publish definitions that change
    #[arg(long, requires = "dir")]
    pub(crate) watch: bool,
    /// Archive workflows that were published from the folder and whose file is gone
    #[arg(long, requires = "dir")]
    pub(crate) prune: bool,
    /// The store to open
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// How long a node that shares its store may be silent before it is considered dead
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(crate) lease: String,
    /// Offset of the node's clock, in seconds: for tests of nodes that share a store
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        hide = true,
        allow_negative_numbers = true
    )]
    pub(crate) clock_offset: i32,
    /// The address that the API and the web pages listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) listen: String,
    /// Allow definitions that come through the API to run commands
    #[arg(long)]
    pub(crate) allow_exec: bool,
    /// Internal addresses that HTTP steps may reach: billing.internal:8080, 10.1.0.0/16
    #[arg(long, value_name = "LIST", default_value = "")]
    pub(crate) egress: String,
    /// Post the tasks of an agent to a URL, instead of leaving them to workers; may be given
    /// several times
    #[arg(long = "agent", value_name = "NAME=URL")]
    pub(crate) agents: Vec<String>,
    /// Secrets for templates: a file with lines NAME=value, or a folder with a file for each secret
    #[arg(long, value_name = "PATH", env = "PUNCTUAL_SECRETS")]
    pub(crate) secrets: Option<PathBuf>,
    /// Send a trace of each run to an OpenTelemetry collector over HTTP: http://127.0.0.1:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub(crate) otlp: Option<String>,
    /// What to do when something fails, if neither its trigger nor its workflow says so:
    /// email:ADDRESS, webhook:URL, slack:URL or start:WORKFLOW; may be given several times, or as a
    /// list with commas
    #[arg(long, value_name = "ACTION", env = "PUNCTUAL_ON_FAILURE", value_delimiter = ',')]
    pub(crate) on_failure: Vec<String>,
    /// What to do when it succeeds again; same form as --on-failure
    #[arg(long, value_name = "ACTION", env = "PUNCTUAL_ON_RECOVERY", value_delimiter = ',')]
    pub(crate) on_recovery: Vec<String>,
    /// The URL under which people reach the web pages; links in messages begin with it
    #[arg(long, value_name = "URL", env = "PUNCTUAL_PUBLIC_URL")]
    pub(crate) public_url: Option<String>,
    /// The node's name [default: the host's name and the process id]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The most attempts that the node performs at the same time; of more than eight, one workflow
    /// leaves about a ninth to others
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) capacity: u32,
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// Text, for people
    Text,
    /// One JSON object per line
    Json,
}

/// `punctual demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// End after this many seconds; by default at Ctrl-C, or after 12 without a terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: Option<u64>,
}

/// `punctual doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The store to check; if it is a file, no node may be using it
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Repair what can be repaired
    #[arg(long)]
    pub(crate) repair: bool,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to create for the copy
    pub(crate) to: PathBuf,
    /// The store to copy; a node may be using it
    #[command(flatten)]
    pub(crate) db: DbArgs,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
