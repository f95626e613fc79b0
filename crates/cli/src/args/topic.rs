//! `punctual topic …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::remote::PageArgs;

/// `punctual topic …`.
#[derive(Debug, Args)]
pub(crate) struct TopicArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: TopicCommand,
    /// For programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Which topic.
#[derive(Debug, Args)]
pub(crate) struct WhichTopic {
    /// Name or id
    pub(crate) topic: String,
    /// Whose, if several workflows have one of that name
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
}

/// `punctual topic list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Topics, by name, with what is in them
    List {
        /// With this name
        #[arg(long)]
        name: Option<String>,
        /// Of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// One topic
    #[command(visible_alias = "get")]
    Show {
        /// Which
        #[command(flatten)]
        which: WhichTopic,
    },
    /// Publish an event, or all of a file: JSON, a list or an object a line
    #[command(after_help = "\
Examples:
  punctual topic publish orders.new --id order-4711 --payload '{\"total\": 12.5}'
  punctual topic publish orders.new --file events.json
  jq -c '.orders[]' day.json | punctual topic publish orders.new --file -")]
    Publish {
        /// Which
        #[command(flatten)]
        which: WhichTopic,
        /// What tells the event from others; the same again replaces what it says
        #[arg(long, value_name = "MESSAGE_ID", required_unless_present = "file")]
        id: Option<String>,
        /// A line for people
        #[arg(long, value_name = "TEXT", requires = "id")]
        title: Option<String>,
        /// What it says
        #[arg(long, value_name = "JSON", requires = "id")]
        payload: Option<String>,
        /// What brought it about; may be given several times
        #[arg(long, value_name = "ID", requires = "id")]
        cause: Vec<String>,
        /// A file with events that have a message_id each; - for standard input
        #[arg(long, value_name = "FILE", conflicts_with = "id")]
        file: Option<PathBuf>,
    },
    /// The events of a topic, latest first
    Events {
        /// Which
        #[command(flatten)]
        which: WhichTopic,
        /// In this state
        #[arg(long, value_enum)]
        state: Option<EventStateArg>,
        /// Oldest first
        #[arg(long)]
        oldest: bool,
        /// How many, and from where
        #[command(flatten)]
        page: PageArgs,
    },
    /// One event
    Event {
        /// Which
        #[command(flatten)]
        which: WhichTopic,
        /// Its message id
        id: String,
    },
    /// Nobody is to work on an event that is pending
    Skip {
        /// Which
        #[command(flatten)]
        which: WhichTopic,
        /// Its message id
        id: String,
        /// Who says so; the user of this session ($USER) if left out
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EventStateArg {
    /// Nobody works on it
    Pending,
    /// A run works on it
    Reserved,
    /// It is done with
    Consumed,
    /// Nobody will work on it
    Skipped,
}
