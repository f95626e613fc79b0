//! What parent and child say to each other: JSON, each piece with its length before it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::confinement::Confinement;
use super::evaluation::{Entry, MutationKind, Permits, RegisteredInput, ScriptFailure};
use super::limits::ScriptLimits;
use super::world::{FetchAnswer, FetchRequest, WorldFailure};

/// The bytes of a length.
pub(super) const HEAD: usize = 4;

/// From parent to child. It holds secrets, so it is not to be shown.
#[derive(Serialize, Deserialize)]
pub(super) enum ToChild {
    /// First of all.
    Limits(ScriptLimits),
    /// After `Ready`.
    Evaluate(Box<Request>),
    /// To a `Call`.
    Answer { id: u32, result: Result<Answered, WorldFailure> },
}

/// From child to parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromChild {
    /// First of all: what it has given up.
    Confined(Confinement),
    /// Nothing is left of the phase before, and another one may come.
    Ready,
    /// The phase has come, and begins: from now on the script answers for what happens.
    Taken,
    /// A line of the log, or a little more than what is kept of it; and how many bytes all of it has.
    Log { line: String, bytes: usize },
    /// The script asks something.
    Call { id: u32, call: HostCall },
    /// The phase has ended.
    Done(Box<Done>),
}

/// [`Evaluation`](super::Evaluation), as it is sent.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) source: SourceText,
    pub(super) name: String,
    pub(super) phase: String,
    pub(super) entry: Entry,
    pub(super) arguments: Vec<Box<RawValue>>,
    pub(super) permits: Permits,
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) now: String,
}

/// A script's text, shared with whoever asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "String")]
pub(super) struct SourceText(#[serde(serialize_with = "as_text")] pub(super) Arc<str>);

impl From<String> for SourceText {
    fn from(text: String) -> SourceText {
        SourceText(text.into())
    }
}

fn as_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// What a script asks of its host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HostCall {
    Fetch(FetchRequest),
    Peek { topic: String, limit: u32 },
    GetByIds { topic: String, ids: Vec<String> },
}

impl HostCall {
    /// How long its texts are.
    pub(super) fn bytes(&self) -> usize {
        match self {
            HostCall::Fetch(FetchRequest { url, method, headers }) => {
                let headers = headers.iter().map(|(name, value)| name.len() + value.len());
                url.len() + method.len() + headers.sum::<usize>()
            }
            HostCall::Peek { topic, .. } => topic.len(),
            HostCall::GetByIds { topic, ids } => {
                topic.len() + ids.iter().map(String::len).sum::<usize>()
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answered {
    Fetch(FetchAnswer),
    Json(Box<RawValue>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) log_dropped: u64,
}

/// How a phase ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    Value { value: Box<RawValue>, published: Vec<PublishedText>, inputs: Vec<RegisteredInput> },
    Mutation { kind: MutationKind, request: Box<RawValue> },
    Failed(ScriptFailure),
}

/// [`Published`](super::Published), its payload still text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PublishedText {
    pub(super) topic: String,
    pub(super) message_id: String,
    pub(super) title: Option<String>,
    pub(super) payload: Box<RawValue>,
    pub(super) causes: Vec<String>,
}

/// A message with its length before it.
pub(super) fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - HEAD).map_err(io::Error::other)?;
    frame[..HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// How long the message is that a head announces.
pub(super) fn length(head: [u8; HEAD]) -> usize {
    u32::from_le_bytes(head) as usize
}

/// Sends a message.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&framed(message)?)?;
    to.flush()
}

/// Waits for a message. The parent is trusted with its length.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let mut body = vec![0; length(head)];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
