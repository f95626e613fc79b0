//! One phase from the parent's side: sends the request, answers the script's calls, reads the
//! result.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex, Semaphore};

use super::evaluation::{Evaluated, Evaluation, Log, Mutation, Permits, Published, ScriptFailure};
use super::limits::{LINE_BYTES, ScriptLimits};
use super::process::{Lost, Outbox, Process};
use super::wire::{
    Answered, Done, FromChild, HostCall, Outcome, PublishedText, Request, SourceText, ToChild,
};
use super::world::{ScriptWorld, WorldFailure};
use crate::mask::{self, BEYOND};

/// The most calls of one phase that are answered at the same time.
const AT_ONCE: usize = 8;

/// The message that asks a child to evaluate this.
pub(super) fn request(evaluation: &Evaluation) -> Result<ToChild, serde_json::Error> {
    Ok(ToChild::Evaluate(Box::new(Request {
        source: SourceText(evaluation.source.clone()),
        name: evaluation.name.clone(),
        phase: evaluation.phase.clone(),
        entry: evaluation.entry.clone(),
        arguments: evaluation.arguments.iter().map(to_raw_value).collect::<Result<_, _>>()?,
        permits: evaluation.permits,
        secrets: evaluation.secrets.clone(),
        now: evaluation.now.to_string(),
    })))
}

/// Reads messages of a child that has accepted a phase until the phase ends. Returns the result and
/// whether the child can be reused. `log` receives the logged lines even if the child is lost.
/// `asks` is called at each call the script makes.
pub(super) async fn exchange(
    process: &mut Process,
    permits: Permits,
    limits: &ScriptLimits,
    world: &dyn ScriptWorld,
    log: &mut Log,
    mut asks: impl FnMut(),
) -> Result<(Done, bool), Lost> {
    let outbox = Mutex::new(&mut process.to);
    let room = Semaphore::new(AT_ONCE);
    let (mut asked, mut asked_bytes) = (0, 0);
    let mut logged = 0;
    let mut answers = FuturesUnordered::new();
    loop {
        let message = tokio::select! {
            message = process.from.next() => message?,
            Some(()) = answers.next() => continue,
        };
        match message {
            FromChild::Log { line, bytes } => {
                if line.len() > LINE_BYTES + BEYOND {
                    return Err(Lost::Nonsense("a longer line than it may log".to_owned()));
                }
                logged += line.len().min(LINE_BYTES) + 1;
                if logged > limits.log_bytes {
                    return Err(Lost::Nonsense("a longer log than it may have".to_owned()));
                }
                let bytes = bytes.max(line.len());
                let line = kept(line, bytes, world);
                world.says(&line);
                log.lines.push(line);
            }
            FromChild::Call { id, call } => {
                asked += 1;
                asked_bytes += call.bytes();
                let too_much = asked > limits.calls || asked_bytes > limits.calls_bytes;
                if too_much || !is_permitted(&call, permits) {
                    return Err(Lost::Nonsense("a call that it may not make".to_owned()));
                }
                asks();
                answers.push(answered(id, call, world, &room, &outbox));
            }
            FromChild::Done(done) => {
                log.dropped = done.log_dropped;
                // An answer may be written only in part, and the child could not read the messages
                // after it.
                let is_reusable = answers.is_empty();
                return Ok((*done, is_reusable));
            }
            FromChild::Confined(_) | FromChild::Ready | FromChild::Taken => {
                return Err(Lost::Nonsense("ready in between".to_owned()));
            }
        }
    }
}

/// Cuts a log line to the length that is kept, with its secrets masked.
fn kept(line: String, bytes: usize, world: &dyn ScriptWorld) -> String {
    if bytes <= LINE_BYTES {
        return line;
    }
    let kept = &line[..line.floor_char_boundary(LINE_BYTES)];
    let head = mask::head(|text| world.masked(text), &line, kept);
    format!("{head}… ({} bytes more)", bytes.saturating_sub(kept.len()))
}

/// Checks a call against the permits. The child has checked it too, but the child is not trusted.
fn is_permitted(call: &HostCall, permits: Permits) -> bool {
    match call {
        HostCall::Fetch(_) => permits.fetch,
        HostCall::Peek { .. } => permits.peek,
        HostCall::GetByIds { .. } => permits.get_by_ids,
    }
}

/// Answers one call. If the child has exited by then, the loop that reads its messages notices.
async fn answered(
    id: u32,
    call: HostCall,
    world: &dyn ScriptWorld,
    room: &Semaphore,
    outbox: &Mutex<&mut Outbox>,
) {
    // The permit is held until the answer is written, so that few answers are in memory at once.
    // The semaphore is never closed.
    let _room = room.acquire().await;
    let result = match call {
        HostCall::Fetch(request) => world.fetch(request).await.map(Answered::Fetch),
        HostCall::Peek { topic, limit } => world.peek(topic, limit).await.and_then(json),
        HostCall::GetByIds { topic, ids } => world.get_by_ids(topic, ids).await.and_then(json),
    };
    let _ = outbox.lock().await.send(&ToChild::Answer { id, result }).await;
}

fn json(value: Value) -> Result<Answered, WorldFailure> {
    to_raw_value(&value).map(Answered::Json).map_err(|error| WorldFailure::Logic(error.to_string()))
}

/// Reads the outcome of a phase and checks it against the permits and limits again, because the
/// child is not trusted.
pub(super) fn read(
    outcome: Outcome,
    permits: Permits,
    limits: &ScriptLimits,
    world: &dyn ScriptWorld,
) -> Result<Result<Evaluated, ScriptFailure>, Lost> {
    let mut evaluated = Evaluated {
        value: Value::Null,
        published: Vec::new(),
        inputs: Vec::new(),
        mutation: None,
        log: Log::default(),
    };
    match outcome {
        Outcome::Failed(failure) => return Ok(Err(failure.shortened(|text| world.masked(text)))),
        Outcome::Value { value, published, inputs } => {
            let too_many = published.len().max(inputs.len()) > limits.events as usize;
            let unasked = !permits.publish && !published.is_empty()
                || !permits.register_input && !inputs.is_empty();
            if too_many || unasked {
                return Err(Lost::Nonsense("more than it may give".to_owned()));
            }
            evaluated.value = value_of(&value, limits.result_bytes)?;
            evaluated.inputs = inputs;
            for event in published {
                evaluated.published.push(event_of(event, limits)?);
            }
        }
        Outcome::Mutation { kind, request } => {
            if !permits.mutate {
                return Err(Lost::Nonsense("a mutation that it may not ask for".to_owned()));
            }
            let request = value_of(&request, limits.result_bytes)?;
            evaluated.mutation = Some(Mutation { kind, request });
        }
    }
    Ok(Ok(evaluated))
}

fn event_of(event: PublishedText, limits: &ScriptLimits) -> Result<Published, Lost> {
    let PublishedText { topic, message_id, title, payload, causes } = event;
    let payload = value_of(&payload, limits.events_bytes)?;
    Ok(Published { topic, message_id, title, payload, causes })
}

fn value_of(text: &RawValue, limit: usize) -> Result<Value, Lost> {
    if text.get().len() > limit {
        return Err(Lost::Nonsense("a longer text than it may give".to_owned()));
    }
    serde_json::from_str(text.get()).map_err(|error| Lost::Nonsense(error.to_string()))
}
