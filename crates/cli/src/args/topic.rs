//! Arguments of `punctual topic …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::remote::PageArgs;

/// `punctual topic …`.
#[derive(Debug, Args)]
pub(crate) struct TopicArgs {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) command: TopicCommand,
    /// Print the output as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Names a topic.
#[derive(Debug, Args)]
pub(crate) struct WhichTopic {
    /// The topic's name or id
    pub(crate) topic: String,
    /// The topic's workflow, if several workflows have a topic of that name
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
}

/// `punctual topic list`, ….
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// List topics by name, with the numbers of their events
    List {
        /// Only topics with this name
        #[arg(long)]
        name: Option<String>,
        /// Only topics of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one topic
    #[command(visible_alias = "get")]
    Show {
        /// The topic
        #[command(flatten)]
        which: WhichTopic,
    },
    /// Publish an event, or all events of a file: a JSON list, or one JSON object per line
    #[command(after_help = "\
Examples:
  punctual topic publish orders.new --id order-4711 --payload '{\"total\": 12.5}'
  punctual topic publish orders.new --file events.json
  jq -c '.orders[]' day.json | punctual topic publish orders.new --file -")]
    Publish {
        /// The topic
        #[command(flatten)]
        which: WhichTopic,
        /// The event's message id; publishing the same id again replaces the content
        #[arg(long, value_name = "MESSAGE_ID", required_unless_present = "file")]
        id: Option<String>,
        /// A title for people to read
        #[arg(long, value_name = "TEXT", requires = "id")]
        title: Option<String>,
        /// The event's payload
        #[arg(long, value_name = "JSON", requires = "id")]
        payload: Option<String>,
        /// The id of a cause of the event; may be given several times
        #[arg(long, value_name = "ID", requires = "id")]
        cause: Vec<String>,
        /// A file with events, each with a message_id; - for standard input
        #[arg(long, value_name = "FILE", conflicts_with = "id")]
        file: Option<PathBuf>,
    },
    /// List the events of a topic, latest first
    Events {
        /// The topic
        #[command(flatten)]
        which: WhichTopic,
        /// Only events in this state
        #[arg(long, value_enum)]
        state: Option<EventStateArg>,
        /// List the oldest first
        #[arg(long)]
        oldest: bool,
        /// Page size and cursor
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one event
    Event {
        /// The topic
        #[command(flatten)]
        which: WhichTopic,
        /// The event's message id
        id: String,
    },
    /// Skip a pending event: no consumer works on it
    Skip {
        /// The topic
        #[command(flatten)]
        which: WhichTopic,
        /// The event's message id
        id: String,
        /// Who skips it; the current user ($USER) if left out
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// The state of an event.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EventStateArg {
    /// No run has taken it yet
    Pending,
    /// A run works on it
    Reserved,
    /// It has been worked on
    Consumed,
    /// It will not be worked on
    Skipped,
}
