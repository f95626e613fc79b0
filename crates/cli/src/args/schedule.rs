//! Arguments of `punctual schedule …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual schedule …`.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: ScheduleCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual schedule list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules
    List {
        /// active, paused, done or dead
        #[arg(long)]
        status: Option<String>,
        /// Only schedules of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Only schedules whose name has words that begin with these
        #[arg(long, short)]
        query: Option<String>,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one schedule
    Show(Id),
    /// Create a schedule
    #[command(after_help = "\
Examples:
  punctual schedule create nightly --workflow report --cron '0 2 * * *' --tz Europe/Berlin
  punctual schedule create poll --workflow poll --every 5m --overlap skip --set max_retries=1
  punctual schedule create close --workflow close --set 'monthly={\"working_day\": -1, \"at\": \"17:00\"}' --tz America/New_York --calendar US")]
    Create {
        /// The schedule's name
        name: String,
        /// The workflow to start, by name or id
        #[arg(long, value_name = "NAME", required_unless_present = "file")]
        workflow: Option<String>,
        /// The schedule's fields
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Change a schedule: a given field is replaced, `--set FIELD=null` removes one
    Edit {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// A new name
        #[arg(long)]
        name: Option<String>,
        /// The fields to change
        #[command(flatten)]
        fields: Box<Fields>,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Pause a schedule: no further run starts; active runs continue
    Pause(Id),
    /// Resume a paused schedule
    Resume {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// Run missed occurrences, as the catch-up policy says
        #[arg(long)]
        catch_up: bool,
    },
    /// Switch on the schedule of a trigger
    Enable(Id),
    /// Switch off the schedule of a trigger
    Disable(Id),
    /// Reactivate a schedule that is done or dead
    Revive(Id),
    /// Start a run by hand; the next occurrence stays as it is
    Trigger {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// The run's input
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
        /// Start nothing if the schedule has an active run or its workflow is at its limit of runs;
        /// exit code 1
        #[arg(long)]
        refuse_if_busy: bool,
        /// Show the steps until the run has ended; exit code 1 unless it succeeds
        #[arg(long, short)]
        follow: bool,
    },
    /// Delete schedules
    Delete {
        /// The schedules' ids or names
        #[arg(required = true)]
        schedules: Vec<String>,
    },
    /// Show the next times of a schedule
    Next {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// How many times to show
        #[arg(
            long, short = 'n', default_value_t = 10,
            value_parser = clap::value_parser!(u32).range(1..=1000)
        )]
        count: u32,
    },
    /// Show the ledger: the outcome of each occurrence, and its reason
    Occurrences {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// Only occurrences with this outcome
        #[arg(long)]
        outcome: Option<String>,
        /// Only occurrences from this time on
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Only occurrences up to this time
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Skip or move one future occurrence, or give it another payload
    #[command(group = clap::ArgGroup::new("action").required(true))]
    Override {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// The occurrence, by its nominal time; without an offset, in the schedule's zone
        nominal: String,
        /// Skip the occurrence
        #[arg(long, group = "action")]
        skip: bool,
        /// Run the occurrence at this time
        #[arg(long, value_name = "TIME", group = "action")]
        move_to: Option<String>,
        /// Run the occurrence with this payload
        #[arg(long, value_name = "JSON", group = "action")]
        payload: Option<String>,
        /// Remove the override
        #[arg(long, group = "action")]
        clear: bool,
    },
    /// Run past occurrences after all
    Backfill {
        /// The schedule
        #[command(flatten)]
        which: Id,
        /// Begin of the range
        #[arg(long, value_name = "TIME")]
        from: String,
        /// End of the range
        #[arg(long, value_name = "TIME")]
        to: String,
        /// How many occurrences may run; a range with more is refused
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Time between two starts, such as 10s
        #[arg(long, value_name = "DURATION")]
        pace: Option<String>,
        /// Run occurrences again that have run already or wait to run
        #[arg(long)]
        again: bool,
        /// Show what would run, and run nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Names a schedule.
#[derive(Debug, Args)]
pub(crate) struct Id {
    /// The schedule: id, name, or workflow/name
    pub(crate) schedule: String,
}

/// The most common fields of a schedule; `--set` takes any other.
#[derive(Debug, Args)]
pub(crate) struct Fields {
    /// Cron expression or preset
    #[arg(long, value_name = "EXPRESSION", group = "rule")]
    pub(crate) cron: Option<String>,
    /// Interval: 90s, 5m, 1h30m; at least 100ms
    #[arg(long, visible_alias = "interval", value_name = "DURATION", group = "rule")]
    pub(crate) every: Option<String>,
    /// RFC 5545 rule
    #[arg(long, value_name = "RULE", group = "rule")]
    pub(crate) rrule: Option<String>,
    /// Run once, at this time
    #[arg(long, value_name = "TIME", group = "rule")]
    pub(crate) at: Option<String>,
    /// IANA time zone
    #[arg(long, visible_alias = "timezone", value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// A region such as DE-BY, or a calendar that the node knows
    #[arg(long, value_name = "CALENDAR")]
    pub(crate) calendar: Option<String>,
    /// On a day off: skip, next, previous, nearest, modified_next, modified_previous
    #[arg(long)]
    pub(crate) roll: Option<String>,
    /// While a run is active: skip, queue, queue_all, cancel, allow, error
    #[arg(long)]
    pub(crate) overlap: Option<String>,
    /// Missed occurrences to run: last, all (the latest 100, unless a limit says otherwise), none
    #[arg(long)]
    pub(crate) catch_up: Option<String>,
    /// The input of its runs
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    #[arg(long = "set", value_name = "FIELD=VALUE", help = set_help())]
    pub(crate) set: Vec<String>,
    /// A YAML or JSON file with fields; options override it
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

fn set_help() -> String {
    let fields: Vec<&str> = language::definition::schedule_keys().collect();
    format!("Any field; the value is JSON or a text. Fields: {}", fields.join(", "))
}
