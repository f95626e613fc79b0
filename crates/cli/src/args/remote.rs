//! Commands that talk to a node.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) use super::schedule::{ScheduleArgs, ScheduleCommand};

/// `punctual run …`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
`punctual run NAME` starts the workflow NAME by hand. A workflow called list, show, get, cancel, retry
or resolve is started by its id, or with `punctual run -- NAME`: the names of subcommands win."
)]
pub(crate) struct RunArgs {
    /// What to do with runs
    #[command(subcommand)]
    pub(crate) command: Option<RunCommand>,
    /// The workflow to start, by name or id
    #[arg(required = true)]
    pub(crate) name: Option<String>,
    /// The producer or consumer to run, instead of the steps
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// What the run works on
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Start nothing if the run would have to wait because of a limit; exit code 1
    #[arg(long)]
    pub(crate) refuse_if_busy: bool,
    /// Show the steps until the run has ended; exit code 1 unless it succeeds
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual run list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Runs, latest first
    List {
        /// Of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Of this schedule
        #[arg(long, value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// With this status
        #[arg(long)]
        status: Option<String>,
        /// Created from this time on
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Started by this run
        #[arg(long, value_name = "RUN")]
        parent: Option<String>,
        /// Only those not done in the time promised
        #[arg(long)]
        overdue: bool,
        /// Also those that Punctual starts itself to tell people something
        #[arg(long)]
        system: bool,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// One run with its steps
    #[command(visible_alias = "get")]
    Show {
        /// The run's id
        id: String,
    },
    /// End a run
    Cancel {
        /// The run's id
        id: String,
    },
    /// Try a run that ended again, as a new run
    Retry {
        /// The run's id
        id: String,
        /// From the first step, instead of the one that failed
        #[arg(long)]
        from_start: bool,
        /// Show the steps until the new run has ended
        #[arg(long, short)]
        follow: bool,
    },
    /// Say what became of a step or mutation whose outcome nobody knows
    Resolve {
        /// The run's id
        id: String,
        /// What became of it
        #[arg(value_enum, required_unless_present = "as")]
        resolution: Option<ResolutionArg>,
        /// The same, said as an option
        #[arg(long, value_enum, value_name = "RESOLUTION", conflicts_with = "resolution")]
        r#as: Option<ResolutionArg>,
        /// Which step is meant, if there are several
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        /// Who says so; the user of this session ($USER) if left out
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ResolutionArg {
    /// It did its work: go on with the next step
    Applied,
    /// It did nothing: try it again
    #[value(alias = "did_not_happen")]
    DidNotHappen,
    /// Give up
    Failed,
    /// Go on without it
    Skip,
}

/// A page of a list.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// How many
    #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// From here on, as told by the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// `punctual workflow …`.
#[derive(Debug, Args)]
pub(crate) struct WorkflowArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: WorkflowCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual workflow list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Workflows, by name
    List {
        /// Also Punctual's own, which tells people something
        #[arg(long)]
        system: bool,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// One workflow
    Show {
        /// Name or id
        name: String,
        /// Its text as well
        #[arg(long)]
        source: bool,
    },
    /// Its versions, newest first
    Versions {
        /// Name or id
        name: String,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// What has changed from one version to another: from the live one to the newest, if nothing is said
    Diff {
        /// Name or id
        name: String,
        /// From this revision
        from: Option<u32>,
        /// To this revision
        to: Option<u32>,
    },
    /// Make the newest version live
    Publish {
        /// Name or id
        name: String,
        /// Only show what would become of its triggers
        #[arg(long)]
        plan: bool,
    },
    /// Take it out of use
    Archive {
        /// Name or id
        name: String,
    },
    /// Nothing starts but by hand
    Pause {
        /// Name or id
        name: String,
    },
    /// Everything starts again
    Resume {
        /// Name or id
        name: String,
    },
    /// Start it by hand, or one of its producers and consumers
    Start {
        /// Name or id
        name: String,
        /// The producer or consumer to run, instead of the steps
        #[arg(long, value_name = "NAME")]
        handler: Option<String>,
        /// What the run works on
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
        /// Start nothing if the run would have to wait because of a limit; exit code 1
        #[arg(long)]
        refuse_if_busy: bool,
        /// Show the steps until the run has ended; exit code 1 unless it succeeds
        #[arg(long, short)]
        follow: bool,
    },
    /// What its consumers have changed outside, latest first
    Mutations {
        /// Name or id
        name: String,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// Let the node check definitions, with the calendars it knows
    Validate {
        /// YAML, JSON or JavaScript files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `punctual node …`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual node list`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// The nodes that share a store, and what each is doing
    List,
}

/// `punctual explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A schedule (id or name) or a run (id)
    pub(crate) what: String,
    /// What was or will be with the schedule at this time
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// YAML, JSON or JavaScript files
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A file with calendars that the definitions name
    #[arg(long, value_name = "FILE")]
    pub(crate) calendars: Option<PathBuf>,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// YAML, JSON or JavaScript files
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) plan: bool,
    /// Save them as new versions, and leave live what is live: `workflow publish` makes them so
    #[arg(long, conflicts_with = "plan")]
    pub(crate) draft: bool,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
}
