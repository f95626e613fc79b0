//! Runs of handlers: the results of their phases, and what follows when a run has ended.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use language::definition::HandlerKind;
use language::definition::handlers::Phase;
use language::definition::{Action, Definition, limits};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::events::Publisher;
use super::handlers::handler_name;
use super::phase_result::{Produced, Reserved, Wrong, wake_at};
use super::worklist::Work;
use super::{Damaged, TransactionReader, Turn, Wakeup};
use crate::handlers::{Cause, MutationStatus};
use crate::ids::{HandlerId, RunKey, TopicId, WorkflowId};
use crate::run::family::HOPS;
use crate::run::{AttemptEnd, Ending, Item, Part, Retryability, Run, RunStatus, StepStatus};
use crate::stop::{Stop, refuse};
use crate::topics::{EventState, EventStatus, Message};

/// The maximum number of pending events for a phase that cannot query events itself.
const GIVEN: usize = 100;

/// The state and events that a handler's run leaves behind if it succeeds.
#[derive(Default)]
pub(super) struct Outcome {
    state: Option<Box<RawValue>>,
    publish: Vec<(TopicId, Vec<Message>)>,
    /// How many hops these events are away from the run that began the chain.
    hops: u8,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// Checks the result of a handler's phase and keeps what the run needs of it. An invalid result
    /// makes the phase fail, and no event changes its state.
    pub(super) fn phase_end(
        &mut self,
        key: RunKey,
        token: u32,
        end: AttemptEnd,
    ) -> Result<AttemptEnd, B::Error> {
        if !self.load_run(key)? {
            return Ok(end);
        }
        let run = self.run(key)?;
        // Only results of handlers are checked here. A report with an old token is refused later.
        let (Some(handler), Some(active)) = (run.handler.clone(), run.state.with_token(token))
        else {
            return Ok(end);
        };
        let (part, is_stopping) = (active.part(), run.state.is_stopping());
        // A failed attempt has no result.
        let AttemptEnd::Succeeded { output } = &end else { return Ok(end) };
        if is_stopping || part.item != Item::Whole {
            return Ok(end);
        }
        let (workflow, definition) = self.whole_definition(key)?;
        let output = output.clone();
        let kept = match phase_of(&definition, &handler, part)? {
            Phase::Produce | Phase::Next => {
                self.produced(key, workflow, &definition, &handler, &output)
            }
            Phase::Prepare => self.prepared(key, workflow, &definition, &handler, &output),
            Phase::Mutate => Ok(mutates(&output)),
            Phase::Mutation => return Ok(end),
        };
        Ok(match kept {
            Ok(output) => AttemptEnd::Succeeded { output },
            Err(stop) => {
                let Wrong { code, message, retryable } = stop.refusal()?;
                AttemptEnd::Failed { code: code.to_owned(), message, retryable, output: None }
            }
        })
    }

    /// Takes the result of a producer, or of the last phase of a consumer: its new state and the
    /// events to publish.
    fn produced(
        &mut self,
        key: RunKey,
        workflow: WorkflowId,
        definition: &Arc<Definition>,
        handler: &str,
        output: &RawValue,
    ) -> Result<Box<RawValue>, Stop<Wrong, B::Error>> {
        let produced = Produced::read(output).map_err(Stop::Refused)?;
        let count = produced.publish.len();
        // Events that a consumer publishes are one hop further than the events it works on.
        let reserved = self.reserved_by(key)?;
        let hops = reserved.iter().map(|status| status.hops.saturating_add(1)).max().unwrap_or(0);
        if hops > HOPS && count > 0 {
            return refuse(Wrong::in_a_loop());
        }
        let mut publish: Vec<(TopicId, Vec<Message>)> = Vec::new();
        for event in produced.publish {
            if !may_publish(definition, handler, &event.topic) {
                return refuse(Wrong::topic(&event.topic, "publish to"));
            }
            let Some(topic) = self.topic_meant(workflow, definition, &event.topic)? else {
                return refuse(Wrong::topic(&event.topic, "publish to"));
            };
            match publish.iter_mut().find(|(known, _)| *known == topic) {
                Some((_, messages)) => messages.push(event.message),
                None => publish.push((topic, vec![event.message])),
            }
        }
        let state = produced.state;
        self.loaded.outcomes.insert(key, Outcome { state, publish, hops });
        let mut kept = json!({"published": count});
        if let Some(inputs) = produced.inputs {
            kept["inputs"] = inputs;
        }
        Ok(raw(&with_log(kept, produced.log)))
    }

    /// Reserves the events that a consumer has chosen for its run, or fails the phase.
    fn prepared(
        &mut self,
        key: RunKey,
        workflow: WorkflowId,
        definition: &Arc<Definition>,
        handler: &str,
        output: &RawValue,
    ) -> Result<Box<RawValue>, Stop<Wrong, B::Error>> {
        let reserved = Reserved::read(output).map_err(Stop::Refused)?;
        let subscribed = definition.consumer(handler).map(|consumer| consumer.subscribe.as_slice());
        let mut statuses = Vec::new();
        for reservation in &reserved.reservations {
            let name = &reservation.topic;
            let is_its = subscribed.is_some_and(|subscribed| subscribed.contains(name));
            let topic = self.topic_meant(workflow, definition, name)?.filter(|_| is_its);
            let Some(topic) = topic else { return refuse(Wrong::topic(name, "reserve from")) };
            statuses.extend(self.reservable(topic, name, &reservation.ids)?);
        }
        let mut keys = HashSet::new();
        if let Some(status) = statuses.iter().find(|status| !keys.insert(status.key)) {
            return refuse(Wrong::twice(&self.topic(status.topic)?.name));
        }
        for status in &statuses {
            self.move_event(status, EventState::Reserved, Some(key), None)?;
        }
        let count = statuses.len();
        let kept = json!({
            "count": count,
            "reservations": reserved.reservations,
            "data": reserved.data,
            "wake_at": reserved.wake_at.map(|at| at.to_string()),
        });
        Ok(raw(&with_log(kept, reserved.log)))
    }

    fn reservable(
        &mut self,
        topic: TopicId,
        name: &str,
        ids: &[String],
    ) -> Result<Vec<EventStatus>, Stop<Wrong, B::Error>> {
        if ids.len() > limits::EVENTS {
            return refuse(Wrong::reservation(format!(
                "{} events are more than a run works on; at most {}",
                ids.len(),
                limits::EVENTS
            )));
        }
        if self.load_topic(topic)?.is_none() {
            return refuse(Wrong::topic(name, "reserve from"));
        }
        let mut found = Vec::with_capacity(ids.len());
        for (status, id) in self.event_statuses(topic, ids)?.into_iter().zip(ids) {
            match status {
                None => {
                    let message = format!("there is no event {} in topic {name}", cut(id));
                    return refuse(Wrong::reservation(message));
                }
                Some(status) if status.state != EventState::Pending => {
                    let message = format!(
                        "event {} of topic {name} is {}, not pending",
                        cut(id),
                        status.state.name()
                    );
                    // Another run reserved or consumed the event first. A retry may find other
                    // events.
                    return refuse(Wrong { retryable: true, ..Wrong::reservation(message) });
                }
                Some(status) => found.push(status),
            }
        }
        Ok(found)
    }

    /// The input of a phase.
    pub(super) fn phase_input(&mut self, key: RunKey, part: Part) -> Result<Value, B::Error> {
        let handler = handler_name(self.run(key)?)?.to_owned();
        let (workflow, definition) = self.whole_definition(key)?;
        let phase = phase_of(&definition, &handler, part)?;
        let mut input = Map::new();
        input.insert("workflow".to_owned(), json!(definition.name));
        input.insert("handler".to_owned(), json!(handler));
        let named = if part.item == Item::Reconciling { "reconcile" } else { phase.name() };
        input.insert("phase".to_owned(), json!(named));
        if matches!(phase, Phase::Produce | Phase::Prepare) {
            // A run of an earlier revision may belong to a handler that is gone.
            let state = match self.handler_named(workflow, &handler)? {
                Some(id) => Some(&self.handler(id)?.state),
                None => None,
            };
            input.insert("state".to_owned(), json!(state));
        }
        if phase == Phase::Prepare {
            let asks = |consumer: &language::definition::Consumer| {
                !matches!(consumer.prepare, Action::Script(_))
            };
            if definition.consumer(&handler).is_some_and(asks) {
                let events = self.given_events(workflow, &definition, &handler)?;
                input.insert("events".to_owned(), Value::Array(events));
            }
            return Ok(Value::Object(input));
        }
        if phase != Phase::Produce {
            let prepared = self.phase_output(key, &definition, &handler, Phase::Prepare)?;
            input.insert("prepared".to_owned(), told_prepared(prepared));
        }
        if part.item == Item::Reconciling {
            let asked = self.phase_output(key, &definition, &handler, Phase::Mutate)?;
            let mutation = asked.and_then(|asked| asked.get("mutation").cloned());
            input.insert("mutation".to_owned(), mutation.unwrap_or_default());
        } else if phase == Phase::Next {
            input.insert("result".to_owned(), self.mutation_result(key, &definition, &handler)?);
        }
        Ok(Value::Object(input))
    }

    /// The mutation that the mutate phase asks for.
    pub(super) fn asked_mutation(
        &mut self,
        key: RunKey,
    ) -> Result<Option<Box<RawValue>>, B::Error> {
        let (_, definition) = self.whole_definition(key)?;
        let handler = handler_name(self.run(key)?)?.to_owned();
        let asked = self.phase_output(key, &definition, &handler, Phase::Mutate)?;
        Ok(asked.and_then(|asked| asked.get("mutation").map(raw)))
    }

    /// Pending events for a phase that cannot query them itself.
    fn given_events(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        handler: &str,
    ) -> Result<Vec<Value>, B::Error> {
        let mut given = Vec::new();
        for topic in self.subscribed(workflow, definition, handler)? {
            let name = self.stored_topic(topic)?.name.clone();
            for event in self.pending_events(topic, GIVEN)? {
                let message = &event.message;
                given.push(json!({
                    "topic": name, "message_id": message.message_id, "title": message.title,
                    "payload": message.payload, "causes": message.causes,
                    "attempt": event.status.attempt, "created_at": event.created_at.to_string(),
                }));
            }
        }
        Ok(given)
    }

    /// The output of a phase: `None` if the handler does not have it, or it has not run.
    fn phase_output(
        &mut self,
        key: RunKey,
        definition: &Definition,
        handler: &str,
        phase: Phase,
    ) -> Result<Option<Value>, B::Error> {
        let process = definition.handler(handler);
        let Some(step) = process.and_then(|process| process.graph().index(phase.name())) else {
            return Ok(None);
        };
        let record = self.step_record(key, step)?;
        let output = record.and_then(|record| record.output);
        let read = output.map(|output| serde_json::from_str(output.get())).transpose();
        Ok(read.map_err(|error| {
            Damaged(format!("the output of phase {} of run {}: {error}", phase.name(), key.0))
        })?)
    }

    /// The result of the mutation, as the last phase sees it.
    fn mutation_result(
        &mut self,
        key: RunKey,
        definition: &Definition,
        handler: &str,
    ) -> Result<Value, B::Error> {
        let process = definition.handler(handler);
        // A consumer without a mutation phase has only `prepare` and `next`.
        let Some(step) = process.and_then(|process| process.graph().index(Phase::Mutation.name()))
        else {
            return Ok(json!({"status": "none"}));
        };
        let record = self.step_record(key, step)?;
        Ok(match record {
            Some(record) if record.status == StepStatus::Completed => {
                json!({"status": "applied", "result": record.output})
            }
            Some(record) if record.attempts > 0 => json!({"status": "skipped"}),
            _ => json!({"status": "none"}),
        })
    }

    /// Handles the end of a handler's run: frees its workflow, writes its outcome, and lets the
    /// next handler begin.
    pub(super) fn handler_run_ended(
        &mut self,
        key: RunKey,
        retryability: Retryability,
    ) -> Result<(), B::Error> {
        let outcome = self.loaded.outcomes.remove(&key).unwrap_or_default();
        let run = self.run(key)?.clone();
        let ending = self.ending_of(&run)?;
        if self.workflow(run.workflow)?.handling == Some(key) {
            self.workflow_mut(run.workflow)?.handling = None;
        }
        let (workflow, definition) = self.whole_definition(key)?;
        let id = self.handler_named(workflow, handler_name(&run)?)?;
        // Without this run the handler can be decided, so a failure is about the run.
        self.deciding = Some(Wakeup::Run(key));
        let kind = match id {
            Some(id) => {
                let handler = self.handler_mut(id)?;
                handler.run = handler.run.filter(|run| *run != key);
                handler.last_outcome = Some(ending);
                if ending == Ending::Succeeded {
                    handler.failures = 0;
                    handler.state = outcome.state.unwrap_or_else(|| handler.state.clone());
                }
                Some(handler.kind)
            }
            None => None,
        };
        match (kind, id) {
            (Some(HandlerKind::Producer), Some(id)) if ending != Ending::Succeeded => {
                self.producer_failed(&run, id, ending, retryability)?;
            }
            (Some(HandlerKind::Producer), _) => {}
            _ => self.consumer_ended(&run, id, &definition, ending, retryability)?,
        }
        if ending == Ending::Succeeded {
            for (topic, messages) in outcome.publish {
                let by = Publisher::Handler(key, outcome.hops);
                self.publish_messages(topic, messages, by)?;
            }
        }
        self.worklist.add(Work::LookAtHandlers(workflow));
        Ok(())
    }

    /// Handles a failed producer run. Its schedule or a backoff retries it if that can help;
    /// otherwise the workflow waits for a person.
    fn producer_failed(
        &mut self,
        run: &Run,
        id: HandlerId,
        ending: Ending,
        retryability: Retryability,
    ) -> Result<(), B::Error> {
        if ending == Ending::Cancelled {
            return Ok(());
        }
        let now = self.context.moment.now;
        let again = self.handler_mut(id)?.backoff(now);
        if !retryability.can_help() || again.is_none() {
            self.pause_for(run, "failed")?;
            return self.handler_failed(run);
        }
        if !matches!(run.id, crate::ids::RunId::Occurrence { .. }) {
            self.handler_mut(id)?.retry_at = again;
        }
        Ok(())
    }

    /// Handles the end of a consumer's run. The consumer itself may be gone.
    fn consumer_ended(
        &mut self,
        run: &Run,
        id: Option<HandlerId>,
        definition: &Arc<Definition>,
        ending: Ending,
        retryability: Retryability,
    ) -> Result<(), B::Error> {
        let reserved = self.reserved_by(run.key)?;
        if ending == Ending::Succeeded {
            for status in &reserved {
                self.move_event(status, EventState::Consumed, Some(run.key), None)?;
            }
            self.workflow_succeeded(run)?;
            return match id {
                Some(id) => self.consumer_succeeded(run, id, definition, reserved.is_empty()),
                None => Ok(()),
            };
        }
        // A mutation that a person has skipped may still have happened.
        let mutation = self.mutation_status(run.key)?;
        let is_mutated =
            matches!(mutation, Some(MutationStatus::Applied | MutationStatus::Skipped));
        match (is_mutated, id) {
            (true, Some(id)) if ending == Ending::Cancelled => {
                return self.cancelled_after_mutation(run, &reserved, id);
            }
            (true, Some(id)) => self.handler_mut(id)?.resumes = Some(run.key),
            (true, None) => self.leave_behind(run.key, handler_name(run)?)?,
            (false, _) => self.release(&reserved)?,
        }
        // A consumer that is gone retries nothing.
        let Some(id) = id else { return Ok(()) };
        let now = self.context.moment.now;
        if retryability == Retryability::NoEffect {
            // A person or the reconciliation has found that the mutation did not happen, so the
            // consumer repeats it at once.
            return self.call_handler(id, Cause::Retry);
        }
        let again = self.handler_mut(id)?.backoff(now).filter(|_| retryability.can_help());
        self.call_handler(id, Cause::Retry)?;
        match again.filter(|_| ending != Ending::Cancelled) {
            Some(at) => {
                // A consumer that a person called meanwhile runs at once.
                let handler = self.handler_mut(id)?;
                if handler.cause != Some(Cause::ByHand) {
                    handler.retry_at = Some(at);
                }
                Ok(())
            }
            None => {
                let how = if ending == Ending::Cancelled { "was cancelled" } else { "failed" };
                self.pause_for(run, how)?;
                if ending == Ending::Cancelled { Ok(()) } else { self.handler_failed(run) }
            }
        }
    }

    /// Lets the consumer sleep if it found nothing to do; otherwise it runs again as long as events
    /// are pending.
    fn consumer_succeeded(
        &mut self,
        run: &Run,
        id: HandlerId,
        definition: &Arc<Definition>,
        is_empty: bool,
    ) -> Result<(), B::Error> {
        let (workflow, name) = (run.workflow, handler_name(run)?);
        let prepared = self.phase_output(run.key, definition, name, Phase::Prepare)?;
        let wake = prepared.as_ref().and_then(|prepared| prepared.get("wake_at"));
        let wake: Option<Timestamp> = wake.and_then(|at| wake_at(at).ok().flatten());
        let live = self.live_definition(workflow)?;
        let has_pending = match live {
            Some(live) => self.has_pending(workflow, &live, name)?,
            None => false,
        };
        let now = self.context.moment.now;
        let handler = self.handler_mut(id)?;
        handler.sleep(now, wake, is_empty && has_pending);
        if !is_empty && has_pending {
            handler.call(Cause::More);
        }
        Ok(())
    }

    pub(super) fn live_definition(
        &mut self,
        workflow: WorkflowId,
    ) -> Result<Option<Arc<Definition>>, B::Error> {
        match self.load_workflow(workflow)?.and_then(|workflow| workflow.live) {
            Some(live) => self.definition(workflow, live).map(Some),
            None => Ok(None),
        }
    }

    /// Makes the reserved events of a run pending again. Events that have failed too often are
    /// skipped.
    pub(super) fn release(&mut self, reserved: &[EventStatus]) -> Result<(), B::Error> {
        for status in reserved {
            let limit = self.stored_topic(status.topic)?.max_attempts;
            if status.attempt + 1 >= limit {
                let reason = Some("poison".to_owned());
                self.move_event(status, EventState::Skipped, None, reason)?;
            } else {
                self.move_event(status, EventState::Pending, None, None)?;
            }
        }
        Ok(())
    }

    /// Pauses the workflow until a person resumes it.
    pub(super) fn pause_for(&mut self, run: &Run, how: &str) -> Result<(), B::Error> {
        let name = handler_name(run)?;
        let why = run.error.as_ref().map(|error| format!(": {}", error.message));
        let reason = format!("{name} {how} (run {}){}", run.id, why.unwrap_or_default());
        let by = (run.status == RunStatus::Suspended).then_some(run.key);
        self.pause_handlers(run.workflow, reason, by)
    }

    fn pause_handlers(
        &mut self,
        workflow: WorkflowId,
        reason: String,
        by: Option<RunKey>,
    ) -> Result<(), B::Error> {
        let now = self.context.moment.now;
        self.workflow(workflow)?;
        let known = self.workflow_mut(workflow)?;
        known.paused = true;
        known.paused_reason = Some(reason.clone());
        known.paused_by = by;
        known.updated_at = now;
        let name = known.name.clone();
        self.output.notices.push(super::Notice::HandlersPaused { workflow, name, reason });
        self.output.notices.push(super::Notice::Workflow { id: workflow });
        Ok(())
    }
}

/// The phase that a part of a handler's run performs.
fn phase_of(definition: &Definition, handler: &str, part: Part) -> Result<Phase, Damaged> {
    let process = definition.handler(handler);
    let step = process.and_then(|process| process.steps.get(part.step as usize));
    let missing = || Damaged(format!("handler {handler} has no phase {}", part.step));
    step.and_then(|step| Phase::of_step(&step.id)).ok_or_else(missing)
}

fn may_publish(definition: &Definition, handler: &str, topic: &str) -> bool {
    let allowed = match (definition.producer(handler), definition.consumer(handler)) {
        (Some(producer), _) => producer.publishes.as_slice(),
        (_, Some(consumer)) => consumer.publishes.as_slice(),
        (None, None) => return false,
    };
    // A handler that lists no topics may publish to every declared one.
    if allowed.is_empty() {
        return definition.topic(topic).is_some();
    }
    allowed.iter().any(|known| known == topic)
}

/// Keeps the result of the mutate phase: the mutation that it asks for, if any.
fn mutates(output: &RawValue) -> Box<RawValue> {
    let told: Map<String, Value> = serde_json::from_str(output.get()).unwrap_or_default();
    let mutation = told.get("mutation").cloned().filter(|mutation| !mutation.is_null());
    let queue = mutation.as_ref().and_then(|mutation| mutation.pointer("/worker/queue")).cloned();
    let mut kept = json!({"mutates": mutation.is_some(), "mutation": mutation});
    if let Some(queue) = queue {
        kept["queue"] = queue;
    }
    raw(&with_log(kept, told.get("log").cloned()))
}

/// The result of the prepare phase, as later phases see it.
fn told_prepared(prepared: Option<Value>) -> Value {
    let Some(Value::Object(mut prepared)) = prepared else { return Value::Null };
    prepared.remove("count");
    prepared.remove("log");
    if let Some(at) = prepared.remove("wake_at") {
        prepared.insert("wakeAt".to_owned(), at);
    }
    Value::Object(prepared)
}

fn with_log(mut kept: Value, log: Option<Value>) -> Value {
    if let Some(log) = log.filter(|log| log.as_array().is_some_and(|lines| !lines.is_empty())) {
        kept["log"] = log;
    }
    kept
}

fn cut(id: &str) -> String {
    id.chars().take(80).collect()
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
