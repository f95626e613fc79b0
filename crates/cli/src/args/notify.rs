//! Arguments of `punctual notify …` and `punctual incident …`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual notify …`.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: NotifyCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual notify test`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyCommand {
    /// Send a test message and report the result
    Test {
        /// email:ADDRESS, webhook:URL or slack:URL
        channel: String,
    },
    /// Show how the node notifies people, without secrets
    Channels,
}

/// `punctual incident …`.
#[derive(Debug, Args)]
pub(crate) struct IncidentArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: IncidentCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual incident list`.
#[derive(Debug, Subcommand)]
pub(crate) enum IncidentCommand {
    /// List incidents and who was notified, latest first
    List {
        /// Only incidents that are still open
        #[arg(long)]
        open: bool,
        /// Only incidents of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Only incidents of this schedule, by id or name
        #[arg(long, value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
}
