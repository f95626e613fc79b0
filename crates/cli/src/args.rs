//! The command line: commands, options and their help texts.

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

/// The first argument with which a node starts this program to evaluate scripts. It is not a
/// command for people.
pub(crate) const SCRIPT_CHILD: &str = "script-child";
/// The first argument with which a node or worker starts this program to supervise a command. It is
/// not for people either.
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
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node with examples in a temporary store, to see Punctual at work
    Demo(node::DemoArgs),
    /// Run a node: drive schedules and workflows, and serve the API
    Serve(node::ServeArgs),
    /// Take a short tour: what is due when, through clock changes, holidays and working hours
    Tour,
    /// Manage the schedules of a node
    Schedule(remote::ScheduleArgs),
    /// Start a workflow by hand; list, show, cancel, retry and resolve runs
    Run(remote::RunArgs),
    /// List, approve and reject what waits for a person's decision
    Approval(approval::ApprovalArgs),
    /// Show how the node notifies people, and send a test message
    Notify(notify::NotifyArgs),
    /// List incidents: what has failed for good and not succeeded again
    Incident(notify::IncidentArgs),
    /// Manage the workflows of a node
    Workflow(remote::WorkflowArgs),
    /// Manage topics and their events: list, publish, skip
    Topic(topic::TopicArgs),
    /// Create, list and revoke access tokens
    Token(access::TokenArgs),
    /// Show the audit log: who has changed what
    Audit(access::AuditArgs),
    /// List the nodes that share a store
    Node(remote::NodeArgs),
    /// Run a command as a worker: once for each attempt of a queue
    Worker(worker::WorkerArgs),
    /// Explain in sentences why a schedule or run did what it did
    Explain(remote::ExplainArgs),
    /// Check definitions and report every mistake, without a node
    Validate(remote::ValidateArgs),
    /// Publish definitions; with --plan, show what would change
    Apply(remote::ApplyArgs),
    /// Check a store, and repair it; only on PostgreSQL may nodes run meanwhile
    Doctor(node::DoctorArgs),
    /// Copy a node's embedded store while the node runs
    Backup(node::BackupArgs),
    /// Copy an embedded store to PostgreSQL, and verify the copy
    Migrate(MigrateArgs),
    /// Show the next times of any rule, in words and as a list
    Next(NextArgs),
    /// Calendar arithmetic for scripts: JSON lines in, JSON lines out
    Calc,
    /// Show calendars: working days, working hours, holidays
    #[command(subcommand)]
    Calendar(CalendarCommand),
    /// Measure this machine: fires, creates, lateness, restart, lists, idle cost, beside raw limits
    Bench(BenchArgs),
    /// Print TypeScript definitions of the API for scripts, for editors
    Types,
    /// Print a shell completion script
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
    /// The embedded store to copy from
    #[arg(long, value_name = "FILE")]
    pub(crate) from: String,
    /// The PostgreSQL database to copy to
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// The schema that will hold the tables; it must not be in use
    #[arg(long, default_value = "punctual", value_name = "NAME")]
    pub(crate) schema: String,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything is measured on a store of its own with full sync. Each figure stands beside a limit that was
measured in the same run: syncs of the disk, the rows of a fire written without deciding anything.
Examples:
  punctual bench
  punctual bench --only fires --pending 10000 --pending 1000000
  punctual bench --repeat 3 --json > before.json; punctual bench --repeat 3 --compare before.json
  punctual bench --only lateness --rate 2000 --dir /var/lib/punctual")]
pub(crate) struct BenchArgs {
    /// Number of schedules that wait far in the future while others fire; may be given several
    /// times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub(crate) pending: Vec<u64>,
    /// Occurrences due per second when lateness is measured; may be given several times
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: Vec<u64>,
    /// Measure only this; may be given several times
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Measure>,
    /// Ended runs and pending schedules in the store of `growth`; 10000000 takes about half an hour
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) grown: u64,
    /// Use small numbers, only to see that everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure everything this many times; prints the median and the range of each figure
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// Say which figures moved since an earlier run, by more than the ranges of both; a file that
    /// --json wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Folder for the store, on the disk to measure; a temporary folder if left out
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Measure PostgreSQL instead, in a new schema that is dropped afterwards
    #[arg(long, value_name = "URL", conflicts_with = "dir")]
    pub(crate) db: Option<String>,
    /// Open this store and print when the first attempt began; used to measure a restart
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) restart_of: Option<PathBuf>,
}

/// What `punctual bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Disk syncs and plain rows per second
    Limits,
    /// Schedules created per second, in batches
    Creates,
    /// Runs per second, from due to succeeded
    Fires,
    /// Time from due to begun, at a steady rate
    Lateness,
    /// Steps of processes per second, and the cost of a waiting run
    Steps,
    /// Attempts that outside workers claim and complete over HTTP, per second
    Workers,
    /// Events published, events consumed, and scripts evaluated per second
    Events,
    /// Time from opening a store to the first attempt
    Restart,
    /// Lateness beside runs that start each other without end
    Feed,
    /// Time to list, filter and search
    Lists,
    /// The cost of a node that has nothing to do
    Idle,
    /// A store full of history beside a new one, while as much is removed as comes in
    Growth,
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
    /// Show times after this one; now if left out
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// How many times to show
    #[arg(
        long, short = 'n', default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) count: u32,
    /// What to do with an occurrence on a day off
    #[arg(long, value_enum)]
    pub(crate) roll: Option<RollArg>,
    /// Move the time of day into working hours
    #[arg(long)]
    pub(crate) fit: bool,
    /// What to do with a time that the clock skips
    #[arg(long, value_enum)]
    pub(crate) gap: Option<GapArg>,
    /// What to do with a time that the clock shows twice
    #[arg(long, value_enum)]
    pub(crate) fold: Option<FoldArg>,
    /// The schedule's id, which determines its offset inside a spread window
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Print the output as JSON
    #[arg(long, conflicts_with = "ics")]
    pub(crate) json: bool,
    /// Print the times as an iCalendar file
    #[arg(long)]
    pub(crate) ics: bool,
}

/// Command-line form of [`calendar::Roll`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RollArg {
    /// The occurrence does not happen
    Skip,
    /// Move to the next working day
    Next,
    /// Move to the previous working day
    Previous,
    /// Move to the nearer working day
    Nearest,
    /// Next working day, or the previous one if the next is in another month
    #[value(alias = "modified_next")]
    ModifiedNext,
    /// Previous working day, or the next one if the previous is in another month
    #[value(alias = "modified_previous")]
    ModifiedPrevious,
}

/// Command-line form of [`calendar::Gap`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GapArg {
    /// Run at the first instant after the gap
    Shift,
    /// Do not run on that day
    Skip,
}

/// Command-line form of [`calendar::Fold`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FoldArg {
    /// Run at the first pass
    First,
    /// Run at the second pass
    Last,
    /// Run at both passes
    Both,
}

/// `punctual calendar …`.
#[derive(Debug, Subcommand)]
pub(crate) enum CalendarCommand {
    /// Show the hours and holidays of a calendar, or a whole year as a picture
    Show {
        /// The calendar and its zone
        #[command(flatten)]
        which: Which,
        /// Draw this year (the current one if no year is given)
        #[arg(long, num_args = 0..=1, default_missing_value = "0", value_name = "YEAR")]
        year: Option<i16>,
        /// Show one date
        #[arg(long, value_name = "DATE", conflicts_with = "year")]
        date: Option<String>,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// Report every mistake in calendar files
    Check {
        /// YAML or JSON files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// Declare a calendar on the node, or replace it; schedules that use it are recomputed
    Put {
        /// A YAML or JSON file with one calendar
        file: PathBuf,
        /// The id of the calendar, if the file has none
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// Add working time to a time: 2d (working days), 16h, 90m; negative to go back
    Add {
        /// The calendar and its zone
        #[command(flatten)]
        which: Which,
        /// The time to begin with
        start: String,
        /// The working time to add
        #[arg(allow_hyphen_values = true)]
        amount: String,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// Count working time, working days, weekends and holidays between two times
    Between {
        /// The calendar and its zone
        #[command(flatten)]
        which: Which,
        /// Begin of the range
        from: String,
        /// End of the range
        to: String,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the public holidays of a region; without a region, list the known regions
    Holidays {
        /// A country or subdivision: US, DE-BY, …
        region: Option<String>,
        /// The year; the current one if left out
        year: Option<i16>,
        /// The last year; only the first year if left out
        #[arg(long, value_name = "YEAR")]
        to: Option<i16>,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the days off of a calendar as an iCalendar file, or show the contents of an .ics file
    Ics {
        /// A region, a calendar file, or an .ics file
        calendar: String,
        /// The year; the current one if left out
        #[arg(long)]
        year: Option<i16>,
        /// The last year; only the first year if left out
        #[arg(long, value_name = "YEAR")]
        to: Option<i16>,
        /// Print the output as JSON
        #[arg(long)]
        json: bool,
    },
}

/// A calendar and the zone to use it in.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// A region such as DE-BY, or a file with a calendar, or FILE#ID
    pub(crate) calendar: String,
    /// IANA time zone, for a calendar that names none
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    pub(crate) tz: Option<String>,
}
