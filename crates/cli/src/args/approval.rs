//! Arguments of `punctual approval …`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual approval …`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: ApprovalCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual approval list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    /// List the steps that wait for a decision, those of the oldest run first
    List {
        /// Only steps that this person may decide
        #[arg(long, value_name = "NAME")]
        assignee: Option<String>,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Approve: the step succeeds and the run continues
    Approve(DecisionArgs),
    /// Reject: the step fails
    Reject(DecisionArgs),
}

/// A decision, and who makes it.
#[derive(Debug, Args)]
pub(crate) struct DecisionArgs {
    /// The run's id
    pub(crate) run: String,
    /// The step's id
    pub(crate) step: String,
    /// Who decides; the current user ($USER) if left out
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// A comment on the decision
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
