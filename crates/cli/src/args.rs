//! The command line.

pub(crate) mod access;
pub(crate) mod approval;
pub(crate) mod node;
pub(crate) mod notify;
pub(crate) mod remote;
pub(crate) mod schedule;
pub(crate) mod topic;
pub(crate) mod worker;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// What a node starts itself with to evaluate scripts. Not for people, so it is no command of theirs.
pub(crate) const SCRIPT_CHILD: &str = "script-child";
/// What a node or a worker starts itself with to supervise a command. Not for people either.
pub(crate) const EXEC_SUPERVISOR: &str = "exec-supervisor";

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 what was given is wrong or was refused (the message says where and what to do);
2 the command line itself is wrong; 3 a file, folder or pipe failed, or no node could be reached.
Environment: PUNCTUAL_URL (http://127.0.0.1:7878) and PUNCTUAL_TOKEN say which node is asked;
PUNCTUAL_DB names the store of serve, doctor and backup;
PUNCTUAL_TZDIR names a folder with another zone database.";

/// A durable workflow scheduler in one binary.
#[derive(Debug, Parser)]
#[command(name = "punctual", after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A node with examples in a temporary store: see something happen at once
    Demo(node::DemoArgs),
    /// A node: drives what is due and answers the API
    Serve(node::ServeArgs),
    /// A short tour: what is due when, through clock changes, holidays and working hours
    Tour,
    /// Schedules of a node
    Schedule(remote::ScheduleArgs),
    /// Start a workflow by hand; list, show, cancel, retry and resolve runs
    Run(remote::RunArgs),
    /// What people are asked: list, approve, reject
    Approval(approval::ApprovalArgs),
    /// How the node reaches people, and a message to try it
    Notify(notify::NotifyArgs),
    /// What has finally failed, until it succeeds again
    Incident(notify::IncidentArgs),
    /// Workflows of a node
    Workflow(remote::WorkflowArgs),
    /// Topics and their events: list, publish, skip
    Topic(topic::TopicArgs),
    /// Who may ask: make, list and revoke tokens
    Token(access::TokenArgs),
    /// Who has changed what
    Audit(access::AuditArgs),
    /// Nodes that share a store
    Node(remote::NodeArgs),
    /// Turns a command into a worker: each attempt of a queue is one run of the command
    Worker(worker::WorkerArgs),
    /// Why a schedule or run did what it did, in sentences
    Explain(remote::ExplainArgs),
    /// Everything that is wrong with definitions, without a node
    Validate(remote::ValidateArgs),
    /// Publish definitions; with --plan, show what would change
    Apply(remote::ApplyArgs),
    /// Check a store, and repair it; a node may only go on meanwhile on PostgreSQL
    Doctor(node::DoctorArgs),
    /// An online copy of a node's store
    Backup(node::BackupArgs),
    /// Copy an embedded store into a PostgreSQL, and check the copy
    Migrate(MigrateArgs),
    /// The next times of any rule, in words and as a list
    Next(NextArgs),
    /// Calendar arithmetic for scripts: JSON lines in, JSON lines out
    Calc,
    /// Calendars: working days, working hours, holidays
    #[command(subcommand)]
    Calendar(CalendarCommand),
    /// Measures this machine: fires, creates, lateness, restart, lists, idleness, beside raw limits
    Bench(BenchArgs),
    /// TypeScript definitions of what scripts see, for editors
    Types,
    /// Shell completion
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `punctual migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything as of one instant is copied in one transaction, read back and held against the source: row counts
and a checksum over every value. The source may be in use; what happens there afterwards is not copied. To
move for good: stop the node, migrate, start nodes with the new --db.
Example:
  punctual migrate --from sqlite:./punctual.db --to postgres://punctual@db/punctual")]
pub(crate) struct MigrateArgs {
    /// The embedded store
    #[arg(long, value_name = "FILE")]
    pub(crate) from: String,
    /// The PostgreSQL
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// The schema that will hold the tables; it must not be in use
    #[arg(long, default_value = "punctual", value_name = "NAME")]
    pub(crate) schema: String,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything is measured on a store of its own with full sync. Each figure stands beside a limit that was
measured in the same run: syncs of the disk, rows into a bare SQLite table.
Examples:
  punctual bench
  punctual bench --only fires --pending 10000 --pending 1000000
  punctual bench --only lateness --rate 2000 --dir /var/lib/punctual")]
pub(crate) struct BenchArgs {
    /// Schedules that wait far in the future while others fire; may be given several times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub(crate) pending: Vec<u64>,
    /// Due per second when lateness is measured; may be given several times
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: Vec<u64>,
    /// Measure only this; may be given several times
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Measure>,
    /// Small numbers: only to see that everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the store is made, on the disk to be measured; a temporary folder if left out
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Measures a PostgreSQL instead: in a schema of its own, which is dropped afterwards
    #[arg(long, value_name = "URL", conflicts_with = "dir")]
    pub(crate) db: Option<String>,
    /// Opens this store and says when the first attempt began: how a restart is measured
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) restart_of: Option<PathBuf>,
}

/// What `punctual bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Syncs and bare rows per second
    Limits,
    /// Batch creates per second
    Creates,
    /// Runs per second, from due to succeeded
    Fires,
    /// From due to begun, at a steady rate
    Lateness,
    /// Steps of processes per second, and what a run costs that waits
    Steps,
    /// Attempts that outside workers claim and complete, over HTTP
    Workers,
    /// Events that are published, consumers that work on them, scripts
    Events,
    /// From opening a store to the first attempt
    Restart,
    /// Listing, filtering, searching
    Lists,
    /// What a node costs that has nothing to do
    Idle,
}

/// `punctual next`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual next '0 9 * * MON-FRI' --tz Europe/Berlin --calendar DE-BY
  punctual next 'every 90m' --from 2026-03-28T22:10:00Z
  punctual next 'FREQ=MONTHLY;BYDAY=-1FR' --tz America/New_York --from 2026-01-01T17:00
  punctual next '{monthly: {working_day: -1, at: \"17:00\"}}' --tz America/New_York --calendar US
  punctual next 2026-03-01T09:00 --tz Europe/London --calendar GB-ENG")]
pub(crate) struct NextArgs {
    /// A cron expression, preset, interval (90m), RRULE, wall time, or a rule in YAML or JSON
    pub(crate) rule: String,
    /// IANA time zone of the rule
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// A region such as DE-BY, or a file with a calendar, or FILE#ID
    #[arg(long, value_name = "CALENDAR")]
    pub(crate) calendar: Option<String>,
    /// Times after this one; now if left out
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// How many times
    #[arg(long, short = 'n', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,
    /// What happens on a day off
    #[arg(long, value_enum)]
    pub(crate) roll: Option<RollArg>,
    /// Move the time of day into working hours
    #[arg(long)]
    pub(crate) fit: bool,
    /// A time that the clock jumps over
    #[arg(long, value_enum)]
    pub(crate) gap: Option<GapArg>,
    /// A time that the clock shows twice
    #[arg(long, value_enum)]
    pub(crate) fold: Option<FoldArg>,
    /// The schedule's id, which decides its place inside a spread window
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// For programs
    #[arg(long, conflicts_with = "ics")]
    pub(crate) json: bool,
    /// The times as an iCalendar file
    #[arg(long)]
    pub(crate) ics: bool,
}

/// See [`calendar::Roll`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RollArg {
    /// It does not happen
    Skip,
    /// Next working day
    Next,
    /// Working day before
    Previous,
    /// The nearer one
    Nearest,
    /// Next, unless in another month
    #[value(alias = "modified_next")]
    ModifiedNext,
    /// Before, unless in another month
    #[value(alias = "modified_previous")]
    ModifiedPrevious,
}

/// See [`calendar::Gap`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GapArg {
    /// First instant after the gap
    Shift,
    /// Not on that day
    Skip,
}

/// See [`calendar::Fold`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FoldArg {
    /// First pass
    First,
    /// Second pass
    Last,
    /// Both passes
    Both,
}

/// `punctual calendar …`.
#[derive(Debug, Subcommand)]
pub(crate) enum CalendarCommand {
    /// What a calendar says: hours and holidays, or a whole year as a picture
    Show {
        /// Which calendar, in which zone
        #[command(flatten)]
        which: Which,
        /// Draw this year (the current one if no year is given)
        #[arg(long, num_args = 0..=1, default_missing_value = "0", value_name = "YEAR")]
        year: Option<i16>,
        /// Look at one date
        #[arg(long, value_name = "DATE", conflicts_with = "year")]
        date: Option<String>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Everything that is wrong with a calendar file
    Check {
        /// YAML or JSON files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// A time plus working time: 2d (working days), 16h, 90m; negative to go back
    Add {
        /// Which calendar, in which zone
        #[command(flatten)]
        which: Which,
        /// When it begins
        start: String,
        /// How much
        #[arg(allow_hyphen_values = true)]
        amount: String,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Working time, working days, weekends and holidays between two times
    Between {
        /// Which calendar, in which zone
        #[command(flatten)]
        which: Which,
        /// From
        from: String,
        /// To
        to: String,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// The public holidays of a country or subdivision; without one, where they are known
    Holidays {
        /// US, DE-BY, …
        region: Option<String>,
        /// The year; the current one if left out
        year: Option<i16>,
        /// Up to this year
        #[arg(long, value_name = "YEAR")]
        to: Option<i16>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// The days off of a calendar as an iCalendar file; or, of an .ics file, what is in it
    Ics {
        /// A region, a calendar file, or an .ics file
        calendar: String,
        /// The year; the current one if left out
        #[arg(long)]
        year: Option<i16>,
        /// Up to this year
        #[arg(long, value_name = "YEAR")]
        to: Option<i16>,
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

/// A calendar and the zone for it.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// A region such as DE-BY, or a file with a calendar, or FILE#ID
    pub(crate) calendar: String,
    /// IANA time zone, for a calendar that names none
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    pub(crate) tz: Option<String>,
}
