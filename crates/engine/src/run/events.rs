//! Steps that publish events, and steps that wait for one.

use language::definition::{Action, Definition, Publish, WaitFor, limits};
use language::expression::{self, Requirement};
use serde_json::value::RawValue;

use super::Run;
use super::deadline_math::Instants;
use super::decide::Decider;
use super::family::{HOPS, hops_of, too_many_hops};
use super::input::{Awaiting, Part, Published, Retryability, RunHistory};
use super::item::Item;
use super::scope::{ItemScope, scope_with};
use super::start::{action_of, raw};
use super::state::ActivityStatus;
use crate::stop::unless_refused;
use crate::topics::Message;
use crate::turn::Damaged;

impl<F: RunHistory> Decider<'_, F> {
    /// Publishes an event as part of the decision, and completes the step.
    pub(super) fn publish(&mut self, at: usize, publish: &Publish) -> Result<(), F::Error> {
        let part = self.part(at);
        self.run.state.active[at].attempt += 1;
        let is_loop = hops_of(self.run, self.now) > HOPS;
        let why = is_loop.then(too_many_hops);
        if let Some(why) = why.or_else(|| self.history.why_closed(&publish.topic)) {
            let error = self.error(part.step, "loop", why);
            return self.failed(at, error, Retryability::Permanent, None);
        }
        let own = self.own_message_id(part);
        let payload = publish.payload.is_none().then(|| self.own_payload());
        let filled = self.with_part_scope(part, |scope| {
            let text = |template: &String| expression::text(template, scope);
            let message_id = publish.message_id.as_ref().map(text).transpose()?;
            let title = publish.title.as_ref().map(text).transpose()?;
            let payload = match (&publish.payload, payload) {
                (Some(value), _) => raw(&expression::value(value, scope)?),
                (None, payload) => payload.unwrap_or_else(|| RawValue::NULL.to_owned()),
            };
            Ok((message_id.unwrap_or(own), title, payload))
        });
        let (message_id, title, payload) = match filled {
            Ok(filled) => filled,
            Err(stop) => return self.failed(at, stop.refusal()?, Retryability::Permanent, None),
        };
        if let Err(message) = limits::check_message(&message_id, title.as_deref(), payload.get()) {
            let error = self.error(part.step, "event", message);
            return self.failed(at, error, Retryability::Permanent, None);
        }
        self.watch_started_step(part.step);
        let output = serde_json::json!({ "topic": publish.topic, "message_id": message_id });
        let message = Message { message_id, title, payload, causes: Vec::new() };
        self.decision.published.push(Published { topic: publish.topic.clone(), message });
        self.succeeded(at, raw(&output))
    }

    /// The default message id. It is the same however often the step is decided.
    fn own_message_id(&self, part: Part) -> String {
        let step = self.step(part.step).map(|step| step.id.as_str()).unwrap_or_default();
        match part.item {
            Item::Whole => format!("{}/{step}", self.run.id),
            item => format!("{}/{step}/{}", self.run.id, item.number()),
        }
    }

    pub(super) fn wait_for(&mut self, at: usize, wait: &WaitFor) -> Result<(), F::Error> {
        let part = self.part(at);
        self.run.state.active[at].attempt += 1;
        let instants = Instants { definition: self.definition, rules: self.rules, calendar: None };
        let until =
            match wait.within.map(|within| instants.after(self.stamp, within, 1)).transpose() {
                Ok(until) => until.map(|until| until.as_millisecond()),
                Err(message) => {
                    let error = self.error(part.step, "wait_for", message);
                    return self.failed(at, error, Retryability::Permanent, None);
                }
            };
        self.run.state.active[at].status = ActivityStatus::Awaiting { since: self.stamp, until };
        self.watch_started_step(part.step);
        self.decision.awaiting.push(Awaiting::Begin(wait.topic.clone(), part));
        Ok(())
    }

    /// Fails a part whose event has not come in time.
    pub(super) fn nothing_came(&mut self, at: usize) -> Result<(), F::Error> {
        let part = self.part(at);
        let topic = match action_of(self.definition, part) {
            Some(Action::WaitFor(wait)) => wait.topic.as_str(),
            _ => "",
        };
        let message = format!("no event that it waits for has come on topic {topic} in time");
        let error = self.error(part.step, "timeout", message);
        self.failed(at, error, Retryability::Permanent, None)
    }

    /// Offers an event to a part. If the part waits for it, the part is completed.
    pub(super) fn arrived(&mut self, part: Part, event: Box<RawValue>) -> Result<(), F::Error> {
        // The part may have ended in the same turn, before the event was offered to it.
        let Some(at) = self.index_of_part(part.step, part.item) else { return Ok(()) };
        let waits = matches!(self.run.state.active[at].status, ActivityStatus::Awaiting { .. });
        if !waits || self.is_ending() {
            return Ok(());
        }
        let definition = self.definition;
        let Some(Action::WaitFor(wait)) = action_of(definition, part) else {
            let step = part.step;
            let why =
                format!("step {step} of run {} waits for an event without cause", self.run.id);
            return Err(Damaged(why).into());
        };
        let holds = match &wait.condition {
            None => true,
            // An event on which the condition fails is not the awaited one. It must not fail the
            // step.
            Some(condition) => {
                let held = self.with_part_scope(part, |scope| {
                    let mut scope = scope.clone();
                    scope.event(event.get())?;
                    expression::holds(condition, &scope)
                });
                unless_refused(held)?.unwrap_or(false)
            }
        };
        if holds {
            self.decision.took_event = true;
            self.succeeded(at, event)?;
        }
        Ok(())
    }
}

/// Reads from the condition of a waiting part which field an event must have to fulfil it. `known`
/// keeps the scope of one item of a `for_each` for the next.
pub fn required_event<F: RunHistory>(
    run: &Run,
    definition: &Definition,
    part: Part,
    history: &mut F,
    known: &mut Option<ItemScope>,
) -> Result<Requirement, F::Error> {
    let condition = match action_of(definition, part) {
        Some(Action::WaitFor(wait)) => wait.condition.as_deref(),
        _ => None,
    };
    let Some(condition) = condition else { return Ok(Requirement::Evaluation) };
    let mentioned = definition.graph().references(part.step);
    let scope = unless_refused(scope_with(run, definition, part, mentioned, history, known))?;
    // A scope that cannot be built is for the offer to report.
    let required = scope.map(|scope| expression::requirement(condition, &scope));
    Ok(required.unwrap_or(Requirement::Evaluation))
}
