//! Messages between the parent and a script child: JSON, each message with its length before it.

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

/// The number of bytes of a message's length prefix.
pub(super) const HEAD: usize = 4;

/// A message from parent to child. It contains secrets, so it does not implement `Debug`.
#[derive(Serialize, Deserialize)]
pub(super) enum ToChild {
    Limits(ScriptLimits),
    /// Sent after the child's `Ready`.
    Evaluate(Box<Request>),
    /// The answer to the child's `Call` with this id.
    Answer {
        id: u32,
        result: Result<Answered, WorldFailure>,
    },
}

/// A message from child to parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromChild {
    /// The first message: the confinement that is in force in the child.
    Confined(Confinement),
    /// Nothing is left of the previous phase; the child can take another.
    Ready,
    /// The child has received the phase and begins it. From now on the script is to blame if the
    /// child is lost.
    Taken,
    /// A log line, cut to a little more than the parent keeps, and the length in bytes of the whole
    /// line.
    Log { line: String, bytes: usize },
    /// The script calls its host.
    Call { id: u32, call: HostCall },
    /// The phase has ended.
    Done(Box<Done>),
}

/// [`Evaluation`](super::Evaluation), as it is sent to the child.
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

/// A script's text. The parent shares it with the caller instead of copying it.
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

/// A call of a script to its host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HostCall {
    Fetch(FetchRequest),
    Peek { topic: String, limit: u32 },
    GetByIds { topic: String, ids: Vec<String> },
}

impl HostCall {
    /// The total length of the call's texts.
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

/// [`Published`](super::Published), with its payload still as JSON text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PublishedText {
    pub(super) topic: String,
    pub(super) message_id: String,
    pub(super) title: Option<String>,
    pub(super) payload: Box<RawValue>,
    pub(super) causes: Vec<String>,
}

/// Serializes a message, with its length before it.
pub(super) fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - HEAD).map_err(io::Error::other)?;
    frame[..HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// The message length that a length prefix states.
pub(super) fn length(head: [u8; HEAD]) -> usize {
    u32::from_le_bytes(head) as usize
}

/// Writes a message with its length, and flushes.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&framed(message)?)?;
    to.flush()
}

/// Blocks until a message has arrived. The length is not checked, because the child trusts its
/// parent.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let mut body = vec![0; length(head)];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
