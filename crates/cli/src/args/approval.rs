//! `punctual approval …`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual approval …`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: ApprovalCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual approval list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    /// What people are asked, that of the oldest run first
    List {
        /// Only what this one may decide
        #[arg(long, value_name = "NAME")]
        assignee: Option<String>,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// The step is done, and the run goes on
    Approve(DecisionArgs),
    /// The step has failed
    Reject(DecisionArgs),
}

/// What is decided, and by whom.
#[derive(Debug, Args)]
pub(crate) struct DecisionArgs {
    /// The run's id
    pub(crate) run: String,
    /// The step's id
    pub(crate) step: String,
    /// Who decides; the user of this session ($USER) if left out
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// What they say about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
