//! Steps of type `worker` and `agent_task`: work for outside programs.

use super::action::{AgentTask, WorkerAction};
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::{Flaw, cut};

pub(super) fn worker(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<WorkerAction> {
    let queue = fields.require("queue", "queue: mails");
    let queue = queue.and_then(|field| label(reading, &field));
    let input = fields.take("input");
    let input = input.map(|field| reading.filled_value(&field, Place::Performed));
    Some(WorkerAction { queue: queue?, input })
}

pub(super) fn agent_task(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<AgentTask> {
    let agent = fields.require("agent", "agent: report-agent");
    let agent = agent.and_then(|field| label(reading, &field));
    let message = fields.require("message", "message: Make the report");
    let message = message.and_then(|field| reading.template(&field, Place::Performed));
    let model = fields.take("model").and_then(|field| reading.title(&field));
    let temperature = fields.take("temperature");
    let temperature = temperature.and_then(|field| reading.decimal(&field, 0.0..=2.0));
    Some(AgentTask { agent: agent?, message: message?, model, temperature })
}

/// Reads the name of a queue or agent, which becomes part of URLs and labels.
fn label(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let text = reading.text(field)?;
    let word = |b: u8| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b);
    if !text.is_empty() && text.len() <= limits::QUEUE_LENGTH && text.bytes().all(word) {
        return Some(text.to_owned());
    }
    let message = format!("{} is not the name of a queue or agent", cut(text));
    let allowed = format!("letters, digits and _-.:/, 1 to {} characters", limits::QUEUE_LENGTH);
    reading.refuse(field, Flaw::new("queue", message).allow(allowed));
    None
}
