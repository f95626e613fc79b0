//! The request to evaluate one phase of a script, and its result: value, published events, log or
//! failure.

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
    /// The text of the script's file, or of the step's inline script.
    pub source: Arc<str>,
    /// The file or step name that error messages use for the text.
    pub name: String,
    /// The name that error messages use for the phase: `prepare`, `the producer pollEmail`.
    pub phase: String,
    pub entry: Entry,
    /// The arguments that follow `ctx`.
    pub arguments: Vec<Value>,
    pub permits: Permits,
    /// The declared secrets, by name; `ctx` gives the script access to no others.
    pub secrets: BTreeMap<String, String>,
    /// The time that `ctx.now()` returns.
    pub now: Timestamp,
    /// The phase's own time limit. It applies only if it is shorter than
    /// [`ScriptLimits::wall`](super::ScriptLimits::wall).
    pub timeout: Option<Duration>,
}

/// Omits argument values and secret values, which must not appear in logs.
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

/// The parameters of a step's script after `ctx`, in this order: the run's payload, the results of
/// other steps, the run, and inside a `for_each` the item and its index.
pub const STEP_ARGUMENTS: [&str; 5] = ["input", "steps", "run", "item", "index"];

/// Which part of a script is called, and how its text is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The text is the body of an async function of `ctx` and [`STEP_ARGUMENTS`].
    Body,
    /// The text is the body of an async function of `ctx` and the parameters named here.
    Phase(Vec<String>),
    /// The text is a module. The list is the path through its default export to the function to
    /// call, such as `["producers", "pollEmail", "handler"]`.
    Handler(Vec<String>),
    /// The text is the body of an async function of `ctx` and the parameters named here. The text
    /// is parsed but not called: the value is null, or the failure reports the syntax error.
    Syntax(Vec<String>),
    /// The text is a module. The value is its default export as JSON, in which each function is
    /// replaced by `{"function": true, "line": 3, "column": 7}`.
    Describe,
}

/// The `ctx` calls that a phase may make. Logging, the time and declared secrets are always
/// allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permits {
    pub fetch: bool,
    pub peek: bool,
    pub get_by_ids: bool,
    pub publish: bool,
    pub register_input: bool,
    /// `ctx.mutate`, which a phase may call once.
    pub mutate: bool,
}

impl Permits {
    /// A step of a process may read from outside.
    pub const STEP: Permits = Permits { fetch: true, ..Permits::NONE };
    /// A producer may read from outside, publish events and register inputs.
    pub const PRODUCER: Permits =
        Permits { fetch: true, publish: true, register_input: true, ..Permits::NONE };
    /// A consumer's `prepare` phase may read from outside and read events.
    pub const PREPARE: Permits =
        Permits { fetch: true, peek: true, get_by_ids: true, ..Permits::NONE };
    /// A consumer's `mutate` phase may ask for one mutation, and nothing else.
    pub const MUTATE: Permits = Permits { mutate: true, ..Permits::NONE };
    /// A consumer's `next` phase may publish events.
    pub const NEXT: Permits = Permits { publish: true, ..Permits::NONE };
    /// A phase without permissions.
    pub const NONE: Permits = Permits {
        fetch: false,
        peek: false,
        get_by_ids: false,
        publish: false,
        register_input: false,
        mutate: false,
    };
}

/// The result of a phase that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The result; null if the phase ended with a mutation.
    pub value: Value,
    /// Events that the script published, in order. The caller has yet to store them.
    pub published: Vec<Published>,
    /// Inputs that the script registered, in order. The caller has yet to store them.
    pub inputs: Vec<RegisteredInput>,
    /// The mutation that the script asked for, which ended the phase. The caller has yet to perform
    /// it.
    pub mutation: Option<Mutation>,
    pub log: Log,
}

/// An event that a script published.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub topic: String,
    /// Unique within the topic.
    pub message_id: String,
    /// A title for people to read.
    pub title: Option<String>,
    pub payload: Value,
    /// Ids of the events or registered inputs that led to this event.
    pub causes: Vec<String>,
}

/// An outside object, such as an email, that a script registered as the origin of its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredInput {
    /// The id that was returned to the script. The same source, type and id always give the same
    /// one.
    pub input_id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The id of the object in its source.
    pub id: String,
    /// A title for people to read.
    pub title: Option<String>,
}

/// A change of the outside world that a script asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    pub kind: MutationKind,
    /// The JSON object that the script passed. Beyond being an object, it has not been validated.
    pub request: Value,
}

/// Who performs a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MutationKind {
    /// `ctx.mutate.http`: a node sends the request.
    Http,
    /// `ctx.mutate.worker`: a worker performs the mutation.
    Worker,
}

/// The lines that a script logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The lines that were kept, in order. Long lines are cut.
    pub lines: Vec<String>,
    /// The number of lines that were discarded.
    pub dropped: u64,
}

/// A phase that failed. The events it published and the inputs it registered are discarded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{failure}")]
pub struct Failed {
    pub failure: ScriptFailure,
    /// Lines that the script logged before it failed.
    pub log: Log,
}

/// Why a phase did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ScriptFailure {
    /// The script contains a mistake; a retry would fail again.
    #[error("{}", located(message, *line, *column))]
    Logic {
        message: String,
        /// Position in the script's own text. Lines and columns are counted from 1.
        line: Option<u32>,
        column: Option<u32>,
        /// The call stack, one call per line, the innermost first.
        stack: String,
    },
    /// The script broke a limit.
    #[error("{message}")]
    Limit {
        what: Limit,
        /// States what the limit allows.
        message: String,
    },
    /// A call to the host failed for a temporary reason, such as the network, and the script did
    /// not catch the error.
    #[error("{message}")]
    Transient { message: String },
    /// The phase took longer than [`Evaluation::timeout`].
    #[error("the script was not done within {within:?}")]
    TimedOut { within: Duration },
    /// The caller cancelled the evaluation.
    #[error("the script was cancelled")]
    Cancelled,
    /// Other evaluations kept the machine so busy that this one did not begin, or did not end, in
    /// time.
    #[error("the machine was too busy to evaluate the script within {within:?}: try again")]
    Busy { within: Duration },
    /// No child process could be started to evaluate the script.
    #[error("scripts cannot be evaluated here: {message}")]
    Unavailable { message: String },
}

impl ScriptFailure {
    /// A logic failure without a position in the text.
    pub(super) fn logic(message: impl Into<String>) -> ScriptFailure {
        let stack = String::new();
        ScriptFailure::Logic { message: message.into(), line: None, column: None, stack }
    }

    pub(super) fn limit(what: Limit, message: impl Into<String>) -> ScriptFailure {
        ScriptFailure::Limit { what, message: message.into() }
    }
}

impl ScriptFailure {
    /// Cuts the message to [`MESSAGE_CHARS`]. Secrets are masked before the cut, so that no part of
    /// one remains.
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
