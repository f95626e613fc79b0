//! Arguments of commands that call a node's API.

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
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: Option<RunCommand>,
    /// The workflow to start, by name or id
    #[arg(required = true)]
    pub(crate) name: Option<String>,
    /// The producer or consumer to run, instead of the steps
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// The run's input
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Start nothing if the run would have to wait because of a limit; exit code 1
    #[arg(long)]
    pub(crate) refuse_if_busy: bool,
    /// Show the steps until the run has ended; exit code 1 unless it succeeds
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual run list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List runs, latest first
    List {
        /// Only runs of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Only runs of this schedule
        #[arg(long, value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// Only runs with this status
        #[arg(long)]
        status: Option<String>,
        /// Only runs created from this time on
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only runs started by this run
        #[arg(long, value_name = "RUN")]
        parent: Option<String>,
        /// Only runs that have missed a deadline
        #[arg(long)]
        overdue: bool,
        /// Include runs that Punctual itself starts to notify people
        #[arg(long)]
        system: bool,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one run with its steps
    #[command(visible_alias = "get")]
    Show {
        /// The run's id
        id: String,
    },
    /// Cancel a run
    Cancel {
        /// The run's id
        id: String,
    },
    /// Retry a run that has ended, as a new run
    Retry {
        /// The run's id
        id: String,
        /// Retry from the first step, instead of the one that failed
        #[arg(long)]
        from_start: bool,
        /// Show the steps until the new run has ended
        #[arg(long, short)]
        follow: bool,
    },
    /// Resolve a step or mutation whose outcome is unknown
    Resolve {
        /// The run's id
        id: String,
        /// The resolution
        #[arg(value_enum, required_unless_present = "as")]
        resolution: Option<ResolutionArg>,
        /// The resolution, given as an option
        #[arg(long, value_enum, value_name = "RESOLUTION", conflicts_with = "resolution")]
        r#as: Option<ResolutionArg>,
        /// The step, if several have an unknown outcome
        #[arg(long, value_name = "STEP")]
        step: Option<String>,
        /// Who resolves it; the current user ($USER) if left out
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// How a person resolves a step or mutation whose outcome is unknown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ResolutionArg {
    /// It did its work: continue with the next step
    Applied,
    /// It did nothing: try it again
    #[value(alias = "did_not_happen")]
    DidNotHappen,
    /// It failed: give up
    Failed,
    /// Continue without it
    Skip,
}

/// A page of a list.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The most entries to list
    #[arg(
        long, short = 'n', default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(crate) limit: u32,
    /// The cursor that the previous page printed
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// `punctual workflow …`.
#[derive(Debug, Args)]
pub(crate) struct WorkflowArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: WorkflowCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual workflow list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List workflows by name
    List {
        /// Include Punctual's own workflow, which notifies people
        #[arg(long)]
        system: bool,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one workflow
    Show {
        /// The workflow's name or id
        name: String,
        /// Show the definition's text as well
        #[arg(long)]
        source: bool,
    },
    /// List the versions of a workflow, newest first
    Versions {
        /// The workflow's name or id
        name: String,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show the changes between two versions: by default from the live one to the newest
    Diff {
        /// The workflow's name or id
        name: String,
        /// The revision to compare from
        from: Option<u32>,
        /// The revision to compare to
        to: Option<u32>,
    },
    /// Make the newest version live
    Publish {
        /// The workflow's name or id
        name: String,
        /// Only show what would happen to its triggers
        #[arg(long)]
        plan: bool,
    },
    /// Archive a workflow: take it out of use
    Archive {
        /// The workflow's name or id
        name: String,
    },
    /// Pause a workflow: it starts only by hand
    Pause {
        /// The workflow's name or id
        name: String,
    },
    /// Resume a paused workflow
    Resume {
        /// The workflow's name or id
        name: String,
    },
    /// Start a workflow by hand, or one of its producers or consumers
    Start {
        /// The workflow's name or id
        name: String,
        /// The producer or consumer to run, instead of the steps
        #[arg(long, value_name = "NAME")]
        handler: Option<String>,
        /// The run's input
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
        /// Start nothing if the run would have to wait because of a limit; exit code 1
        #[arg(long)]
        refuse_if_busy: bool,
        /// Show the steps until the run has ended; exit code 1 unless it succeeds
        #[arg(long, short)]
        follow: bool,
    },
    /// List the changes that its consumers have made outside, latest first
    Mutations {
        /// The workflow's name or id
        name: String,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Check definitions on the node, with the calendars it knows
    Validate {
        /// YAML, JSON or JavaScript files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// `punctual node …`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual node list`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes that share a store, and what each is doing
    List,
}

/// `punctual explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A schedule (id or name) or a run (id)
    pub(crate) what: String,
    /// Explain the schedule at this time, past or future
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// YAML, JSON or JavaScript files
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A file with the calendars that the definitions refer to
    #[arg(long, value_name = "FILE")]
    pub(crate) calendars: Option<PathBuf>,
    /// Print the output as JSON
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
    /// Save the definitions as new versions without making them live; `workflow publish` does that
    #[arg(long, conflicts_with = "plan")]
    pub(crate) draft: bool,
    /// Print the output as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
