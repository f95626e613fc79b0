//! `punctual notify …` and `punctual incident …`.

use clap::{Args, Subcommand};

use super::remote::PageArgs;

/// `punctual notify …`.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: NotifyCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual notify test`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyCommand {
    /// Send a test message, and say what happened
    Test {
        /// email:ADDRESS, webhook:URL or slack:URL
        channel: String,
    },
    /// How the node reaches people, without secrets
    Channels,
}

/// `punctual incident …`.
#[derive(Debug, Args)]
pub(crate) struct IncidentArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: IncidentCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// `punctual incident list`.
#[derive(Debug, Subcommand)]
pub(crate) enum IncidentCommand {
    /// What has finally failed, until it succeeds again, and who was told, latest first
    List {
        /// Only those that are not over
        #[arg(long)]
        open: bool,
        /// Of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Of this schedule, by id or name
        #[arg(long, value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
}
