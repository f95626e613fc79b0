//! `punctual schedule …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual schedule …`.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: ScheduleCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual schedule list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Schedules
    List {
        /// active, paused, done or dead
        #[arg(long)]
        status: Option<String>,
        /// Of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// With words in the name that begin so
        #[arg(long, short)]
        query: Option<String>,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// One schedule
    Show(Id),
    /// A new schedule
    #[command(after_help = "\
Examples:
  punctual schedule create nightly --workflow report --cron '0 2 * * *' --tz Europe/Berlin
  punctual schedule create poll --workflow poll --every 5m --overlap skip --set max_retries=1
  punctual schedule create close --workflow close --set 'monthly={\"working_day\": -1, \"at\": \"17:00\"}' --tz America/New_York --calendar US")]
    Create {
        /// What it is called
        name: String,
        /// What it starts: a workflow's name or id
        #[arg(long, value_name = "NAME", required_unless_present = "file")]
        workflow: Option<String>,
        /// Its fields
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Change a schedule: a given field replaces, `--set FIELD=null` takes away
    Edit {
        /// Which
        #[command(flatten)]
        which: Id,
        /// Another name
        #[arg(long)]
        name: Option<String>,
        /// Its fields
        #[command(flatten)]
        fields: Box<Fields>,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Nothing new starts; what goes on may end
    Pause(Id),
    /// Go on
    Resume {
        /// Which
        #[command(flatten)]
        which: Id,
        /// Make up for what was missed, as its catch-up policy says
        #[arg(long)]
        catch_up: bool,
    },
    /// Switch a trigger's schedule on
    Enable(Id),
    /// Switch a trigger's schedule off
    Disable(Id),
    /// A new life after done or dead
    Revive(Id),
    /// Start a run by hand; the next occurrence stays
    Trigger {
        /// Which
        #[command(flatten)]
        which: Id,
        /// What the run works on
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
        /// Start nothing if the schedule is active or its workflow has as many runs as it may; exit code 1
        #[arg(long)]
        refuse_if_busy: bool,
        /// Show the steps until the run has ended; exit code 1 unless it succeeds
        #[arg(long, short)]
        follow: bool,
    },
    /// Delete schedules
    Delete {
        /// Ids or names
        #[arg(required = true)]
        schedules: Vec<String>,
    },
    /// The next times
    Next {
        /// Which
        #[command(flatten)]
        which: Id,
        /// How many times
        #[arg(long, short = 'n', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// The ledger: what became of each occurrence, and why
    Occurrences {
        /// Which
        #[command(flatten)]
        which: Id,
        /// With this outcome
        #[arg(long)]
        outcome: Option<String>,
        /// From this time on
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Up to this time
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// Skip or move one coming occurrence, or give it another payload
    #[command(group = clap::ArgGroup::new("action").required(true))]
    Override {
        /// Which
        #[command(flatten)]
        which: Id,
        /// The occurrence, by the time its rule says
        nominal: String,
        /// It does not run
        #[arg(long, group = "action")]
        skip: bool,
        /// It runs at this time
        #[arg(long, value_name = "TIME", group = "action")]
        move_to: Option<String>,
        /// It runs with this payload
        #[arg(long, value_name = "JSON", group = "action")]
        payload: Option<String>,
        /// Nothing special any more
        #[arg(long, group = "action")]
        clear: bool,
    },
    /// Run occurrences of the past after all
    Backfill {
        /// Which
        #[command(flatten)]
        which: Id,
        /// From
        #[arg(long, value_name = "TIME")]
        from: String,
        /// To
        #[arg(long, value_name = "TIME")]
        to: String,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Time between two starts, such as 10s
        #[arg(long, value_name = "DURATION")]
        pace: Option<String>,
        /// Run those once more that have run already or wait to
        #[arg(long)]
        again: bool,
        /// Show what would run, and run nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// A schedule.
#[derive(Debug, Args)]
pub(crate) struct Id {
    /// Id, name, or workflow/name
    pub(crate) schedule: String,
}

/// What can be said of a schedule. The rest by `--set`.
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
    /// Once, at this time
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
    /// What was missed: last, all (the latest 100, unless a limit says otherwise), none
    #[arg(long)]
    pub(crate) catch_up: Option<String>,
    /// What runs work on
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Any other field; the value is JSON or a text
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fields from a YAML or JSON file; options replace what it says
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
