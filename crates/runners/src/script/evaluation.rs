//! One evaluation: what is asked, what comes of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits::{Limit, MESSAGE_CHARS};
use crate::mask;

/// One phase of a script to evaluate.
#[derive(Clone)]
pub struct Evaluation {
    /// The text of the file, or of the step.
    pub source: Arc<str>,
    /// What errors call the text: the name of a file or step.
    pub name: String,
    /// What refusals call the phase: `prepare`, `the producer pollEmail`.
    pub phase: String,
    /// What is called.
    pub entry: Entry,
    /// What it is given after `ctx`.
    pub arguments: Vec<Value>,
    /// Which calls of `ctx` it may make.
    pub permits: Permits,
    /// The secrets that it may read: declared ones only.
    pub secrets: BTreeMap<String, String>,
    /// What `ctx.now()` says.
    pub now: Timestamp,
    /// How long it may take, if that is less than every script may.
    pub timeout: Option<Duration>,
}

/// Without what may be secret: arguments and secrets.
impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluation")
            .field("name", &self.name)
            .field("phase", &self.phase)
            .field("entry", &self.entry)
            .field("permits", &self.permits)
            .field("secrets", &self.secrets.keys())
            .finish_non_exhaustive()
    }
}

/// What a step is given after `ctx`, in this order: the payload of its run, other steps, the run, and in a `for_each` the
/// item with its number.
pub const STEP_ARGUMENTS: [&str; 5] = ["input", "steps", "run", "item", "index"];

/// What of a script is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The text is the body of an async function of `ctx` and [`STEP_ARGUMENTS`].
    Body,
    /// The text is the body of an async function of `ctx` and what is named here.
    Phase(Vec<String>),
    /// The text is a module; this is the way through its default export to a function, such as
    /// `["producers", "pollEmail", "handler"]`.
    Handler(Vec<String>),
    /// The text is the body of an async function of `ctx` and what is named here. It is read, and not called: the value
    /// is null, or it is told what is wrong with the text.
    Syntax(Vec<String>),
    /// The text is a module; its default export is given as JSON, with
    /// `{"function": true, "line": 3, "column": 7}` for each function in it.
    Describe,
}

/// Which calls of `ctx` a phase may make. Logging, the time and declared secrets are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permits {
    /// `ctx.fetch`.
    pub fetch: bool,
    /// `ctx.peek`.
    pub peek: bool,
    /// `ctx.getByIds`.
    pub get_by_ids: bool,
    /// `ctx.publish`.
    pub publish: bool,
    /// `ctx.registerInput`.
    pub register_input: bool,
    /// `ctx.mutate`, once.
    pub mutate: bool,
}

impl Permits {
    /// A step of a process: it may read from outside.
    pub const STEP: Permits = Permits { fetch: true, ..Permits::NONE };
    /// A producer.
    pub const PRODUCER: Permits =
        Permits { fetch: true, publish: true, register_input: true, ..Permits::NONE };
    /// A consumer that prepares.
    pub const PREPARE: Permits =
        Permits { fetch: true, peek: true, get_by_ids: true, ..Permits::NONE };
    /// A consumer that mutates.
    pub const MUTATE: Permits = Permits { mutate: true, ..Permits::NONE };
    /// A consumer that goes on.
    pub const NEXT: Permits = Permits { publish: true, ..Permits::NONE };
    /// Nothing.
    pub const NONE: Permits = Permits {
        fetch: false,
        peek: false,
        get_by_ids: false,
        publish: false,
        register_input: false,
        mutate: false,
    };
}

/// What a script gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The result; null if the phase ended with a mutation.
    pub value: Value,
    /// Events that it published, in order. They are not stored yet.
    pub published: Vec<Published>,
    /// Inputs that it registered, in order. They are not stored yet.
    pub inputs: Vec<RegisteredInput>,
    /// The mutation that it asked for, which ended the phase. It is not performed yet.
    pub mutation: Option<Mutation>,
    /// What it logged.
    pub log: Log,
}

/// An event that a script published.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The topic.
    pub topic: String,
    /// Unique in its topic.
    pub message_id: String,
    /// For people.
    pub title: Option<String>,
    /// What it says.
    pub payload: Value,
    /// Ids of what it came from.
    pub causes: Vec<String>,
}

/// Something from outside that a script says its events come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredInput {
    /// The id that the script was given: the same for the same source, type and id.
    pub input_id: String,
    /// Where it comes from.
    pub source: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id there.
    pub id: String,
    /// For people.
    pub title: Option<String>,
}

/// A change outside that a script asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// Who performs it.
    pub kind: MutationKind,
    /// What the script gave: a JSON object, not checked any further.
    pub request: Value,
}

/// Who performs a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MutationKind {
    /// `ctx.mutate.http`: a node.
    Http,
    /// `ctx.mutate.worker`: a worker.
    Worker,
}

/// What a script logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The lines that were kept, in order, long ones cut.
    pub lines: Vec<String>,
    /// How many lines were not kept.
    pub dropped: u64,
}

/// A phase that did not succeed. What it published and registered is gone.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{failure}")]
pub struct Failed {
    /// Why.
    pub failure: ScriptFailure,
    /// What it had logged.
    pub log: Log,
}

/// Why a phase did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ScriptFailure {
    /// The script is wrong: it will fail again.
    #[error("{}", located(message, *line, *column))]
    Logic {
        /// What is wrong.
        message: String,
        /// Where in the script's own text, counted from 1.
        line: Option<u32>,
        /// See `line`.
        column: Option<u32>,
        /// Calls that led there, one on each line, the innermost first.
        stack: String,
    },
    /// The script broke a limit.
    #[error("{message}")]
    Limit {
        /// Which one.
        what: Limit,
        /// What is allowed.
        message: String,
    },
    /// A call to the host failed for the network, and the script did not handle it.
    #[error("{message}")]
    Transient {
        /// What happened.
        message: String,
    },
    /// It took longer than its step may.
    #[error("the script was not done within {within:?}")]
    TimedOut {
        /// How long that is.
        within: Duration,
    },
    /// Somebody asked for the end.
    #[error("the script was cancelled")]
    Cancelled,
    /// Others were evaluated for so long that it was not, or not to its end.
    #[error("the machine was too busy to evaluate the script within {within:?}: try again")]
    Busy {
        /// How long that is.
        within: Duration,
    },
    /// No process could be started to evaluate it.
    #[error("scripts cannot be evaluated here: {message}")]
    Unavailable {
        /// Why.
        message: String,
    },
}

impl ScriptFailure {
    /// A mistake without a place.
    pub(super) fn logic(message: impl Into<String>) -> ScriptFailure {
        let stack = String::new();
        ScriptFailure::Logic { message: message.into(), line: None, column: None, stack }
    }

    pub(super) fn limit(what: Limit, message: impl Into<String>) -> ScriptFailure {
        ScriptFailure::Limit { what, message: message.into() }
    }
}

impl ScriptFailure {
    /// With a message of a length that a person reads, without secrets where it is cut.
    pub(super) fn shortened(mut self, mask: impl Fn(&str) -> String) -> ScriptFailure {
        if let ScriptFailure::Logic { message, .. }
        | ScriptFailure::Limit { message, .. }
        | ScriptFailure::Transient { message } = &mut self
            && let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS)
        {
            *message = format!("{}…", mask::head(mask, message, &message[..end]));
        }
        self
    }
}

fn located(message: &str, line: Option<u32>, column: Option<u32>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: {message}"),
        (Some(line), None) => format!("line {line}: {message}"),
        _ => message.to_owned(),
    }
}
