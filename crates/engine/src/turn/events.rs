//! Events that people and programs publish or skip, and what receives them: triggers, waiting steps
//! and consumers.

use std::collections::BTreeSet;

use language::definition::{Definition, Trigger, TriggerKind, limits};
use language::expression::{self, Scope};
use language::policy::overlap::IfBusy;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::command::{Answer, CommandResult, NewRun, Refused, Starter};
use super::creation::Origin;
use super::families::Link;
use super::worklist::Work;
use super::{Damaged, TransactionReader, Turn};
use crate::handlers::Cause;
use crate::ids::{RunKey, TopicId, WorkflowId};
use crate::run::family::hops_of;
use crate::run::{Input, Parent, Part, Published, TriggeredBy};
use crate::stop::{refuse, unless_refused};
use crate::topics::{Event, EventState, Message, Subscriber};

/// How many pending events a step looks at when it begins to wait: a few at first, then more if
/// none of them matches.
const LOOKED_AT: [usize; 3] = [8, 100, 1_000];

/// How many runs the triggers of a topic may create for the events of one command: they are written
/// in one transaction, and other commands and turns wait meanwhile.
const CREATED: usize = limits::EVENTS;

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn publish_command(
        &mut self,
        topic: TopicId,
        events: Vec<Message>,
    ) -> CommandResult<B::Error> {
        if self.load_topic(topic)?.is_none() {
            return refuse(unknown_topic(topic));
        }
        for message in &events {
            let (id, title) = (&message.message_id, message.title.as_deref());
            if let Err(why) = limits::check_message(id, title, message.payload.get()) {
                return refuse(Refused::Conflict(why));
            }
        }
        if let Some(why) = self.too_many_to_start(topic, events.len())? {
            return refuse(Refused::Conflict(why));
        }
        if let Some(why) = self.too_many_to_offer(topic, events.len())? {
            return refuse(Refused::Conflict(why));
        }
        let counted = self.publish_messages(topic, events, Publisher::Outside)?;
        let (published, replaced) = (counted.published, counted.replaced);
        Ok(Answer::Published { published, replaced })
    }

    pub(super) fn skip_event(
        &mut self,
        topic: TopicId,
        message_id: &str,
        by: &str,
    ) -> CommandResult<B::Error> {
        if self.load_topic(topic)?.is_none() {
            return refuse(unknown_topic(topic));
        }
        let found = self.event_statuses(topic, &[message_id.to_owned()])?.pop().flatten();
        let Some(status) = found else {
            return refuse(Refused::NotFound { what: "event", id: message_id.to_owned() });
        };
        if status.state == EventState::Reserved {
            return self.skip_reserved(&status, message_id, by);
        }
        if status.state != EventState::Pending {
            let message = format!("Cannot skip event with state '{}'.", status.state.name());
            return refuse(Refused::Conflict(message));
        }
        self.move_event(&status, EventState::Skipped, None, Some(format!("skipped by {by}")))?;
        Ok(Answer::Count(1))
    }

    /// Whether triggers or waiting steps receive what is published to a topic.
    pub(super) fn is_listened_to(&mut self, id: TopicId) -> Result<bool, B::Error> {
        let subscribers = self.reader.subscribers(id)?;
        let triggers = subscribers.iter().any(|s| matches!(s, Subscriber::Triggers(_)));
        let waits = self.new_waits(id, 0).next().is_some();
        Ok(triggers || waits || !self.reader.waiting_for(id, None, 1)?.is_empty())
    }

    /// Gives each event to a step that waits for it; otherwise triggers start runs for it. If the
    /// topic has no consumer, an event that a trigger has used or refused moves to its final state.
    pub(super) fn tell_listeners(
        &mut self,
        id: TopicId,
        events: &[Event],
        by: Publisher,
    ) -> Result<(), B::Error> {
        if events.is_empty() {
            return Ok(());
        }
        let subscribers = self.reader.subscribers(id)?;
        let consumed = subscribers.iter().any(|s| matches!(s, Subscriber::Consumer(..)));
        let mut waiting = self.waiting_steps(id, events.len() > 1)?;
        for event in events {
            if self.give_to_waiting(id, event, &mut waiting)? {
                continue;
            }
            let mut heard = Heard::default();
            for subscriber in &subscribers {
                if let Subscriber::Triggers(workflow) = subscriber {
                    self.start_by_event(*workflow, id, event, by, &mut heard)?;
                }
            }
            if consumed {
                continue;
            }
            let status = self.status_now(event.status.clone());
            match heard {
                Heard { started: Some(run), .. } => {
                    self.move_event(&status, EventState::Consumed, Some(run), None)?;
                }
                Heard { refused: Some(why), .. } => {
                    self.move_event(&status, EventState::Skipped, None, Some(why))?;
                }
                Heard { started: None, refused: None } => {}
            }
        }
        Ok(())
    }

    /// Offers an event to a waiting step, and returns whether the step took it. The run is decided
    /// at once: an event that it does not take is offered to the next step.
    pub(super) fn offer(
        &mut self,
        run: RunKey,
        part: Part,
        event: &Event,
        seen: &RawValue,
    ) -> Result<bool, B::Error> {
        let input = Input::Arrived { part, event: seen.to_owned() };
        let decided = unless_refused(self.decide_run(run, input))?;
        if !decided.is_some_and(|decided| decided.took_event) {
            return Ok(false);
        }
        let status = self.status_now(event.status.clone());
        self.move_event(&status, EventState::Consumed, Some(run), None)?;
        Ok(true)
    }

    /// The event as expressions see it.
    pub(super) fn event_seen(&self, id: TopicId, event: &Event) -> Result<Box<RawValue>, B::Error> {
        let name = &self.topic(id)?.name;
        let Message { message_id, title, payload, causes } = &event.message;
        let told = json!({
            "topic": name, "message_id": message_id, "title": title, "payload": payload,
            "causes": causes, "created_at": event.created_at.to_string(),
        });
        Ok(serde_json::value::to_raw_value(&told).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Starts a run for each trigger of a workflow that matches this event.
    fn start_by_event(
        &mut self,
        workflow: WorkflowId,
        topic: TopicId,
        event: &Event,
        by: Publisher,
        heard: &mut Heard,
    ) -> Result<(), B::Error> {
        // A workflow that is not published starts nothing. The run of a paused one waits until the
        // workflow is resumed.
        let Some(live) = self.workflow(workflow)?.live else { return Ok(()) };
        let definition = self.definition(workflow, live)?;
        let seen = self.event_seen(topic, event)?;
        for (index, trigger) in (0_u64..).zip(&definition.triggers) {
            let TriggerKind::Event { condition, payload, .. } = &trigger.kind else { continue };
            if !self.is_triggered(workflow, &definition, trigger, topic)? {
                continue;
            }
            let Some(payload) = payload_of(event, &seen, condition.as_deref(), payload.as_ref())
            else {
                continue;
            };
            let new = NewRun {
                id: self.derived_id(RunKey(event.status.key.0), index, workflow.0),
                payload: None,
                by: Starter::Caller(format!("event {}", event.message.message_id)),
                trace: None,
                if_busy: IfBusy::Wait,
            };
            let parent = match by {
                Publisher::Outside => None,
                Publisher::Step(run) | Publisher::Handler(run, _) => {
                    match self.join_family(run, Link::Hop) {
                        Ok(parent) => {
                            Some(Parent { hops: parent.hops.max(event.status.hops), ..parent })
                        }
                        Err(stop) => {
                            heard.refused = Some(stop.refusal()?);
                            continue;
                        }
                    }
                }
            };
            let input = Some(input_of(&payload, &seen, &trigger.id));
            let origin = Origin { input, parent, ..Origin::of(TriggeredBy::Event) };
            heard.started = Some(self.create_run(&new, workflow, live, origin)?);
            // A run that is written costs as much as one that begins.
            self.worklist.starts_left = self.worklist.starts_left.saturating_sub(1);
        }
        Ok(())
    }

    /// Whether this trigger of the workflow is enabled and listens to the topic.
    fn is_triggered(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        trigger: &Trigger,
        topic: TopicId,
    ) -> Result<bool, B::Error> {
        let TriggerKind::Event { topic: name, .. } = &trigger.kind else { return Ok(false) };
        Ok(trigger.enabled && self.topic_meant(workflow, definition, name)? == Some(topic))
    }

    /// The reason to refuse a publication of this many events: the triggers of the topic would
    /// create too many runs in one transaction.
    fn too_many_to_start(
        &mut self,
        topic: TopicId,
        events: usize,
    ) -> Result<Option<String>, B::Error> {
        let mut triggers = 0;
        for subscriber in self.reader.subscribers(topic)? {
            let Subscriber::Triggers(workflow) = subscriber else { continue };
            let Some(live) = self.workflow(workflow)?.live else { continue };
            let definition = self.definition(workflow, live)?;
            for trigger in &definition.triggers {
                let counts = self.is_triggered(workflow, &definition, trigger, topic)?;
                triggers += usize::from(counts);
            }
        }
        Ok((events > 1 && events * triggers > CREATED).then(|| {
            let fewer = (CREATED / triggers).max(1);
            format!(
                "{triggers} triggers start a run for each event of this topic, and one request may \
                 start at most {CREATED} runs. Publish at most {fewer} events at once."
            )
        }))
    }

    /// Calls the consumers of a topic to look for work.
    pub(super) fn tell_consumers(&mut self, id: TopicId) -> Result<(), B::Error> {
        let mut workflows = BTreeSet::new();
        for subscriber in self.reader.subscribers(id)? {
            let Subscriber::Consumer(workflow, handler) = subscriber else { continue };
            self.call_handler(handler, Cause::Published)?;
            workflows.insert(workflow);
        }
        for workflow in workflows {
            self.worklist.add(Work::LookAtHandlers(workflow));
        }
        Ok(())
    }

    /// How many hops an event of this publisher is away from the run that began the chain.
    pub(super) fn hops_of_event(&self, by: Publisher) -> u8 {
        match by {
            Publisher::Outside => 0,
            Publisher::Handler(_, hops) => hops,
            Publisher::Step(run) => {
                let run = self.loaded.runs.get(run);
                run.map_or(0, |run| hops_of(run, self.context.moment.now))
            }
        }
    }

    /// Offers pending events to a part that has begun to wait, oldest first, until it takes one. It
    /// reads only a few at first, since the oldest nearly always matches.
    pub(super) fn offer_pending(
        &mut self,
        run: RunKey,
        part: Part,
        topic: TopicId,
    ) -> Result<(), B::Error> {
        let mut offered = 0;
        for limit in LOOKED_AT {
            let events = self.pending_events(topic, limit)?;
            for event in events.iter().skip(offered) {
                let seen = self.event_seen(topic, event)?;
                if self.offer(run, part, event, &seen)? {
                    return Ok(());
                }
            }
            if events.len() < limit {
                return Ok(());
            }
            offered = events.len();
        }
        Ok(())
    }

    /// Publishes the event of a step.
    pub(super) fn publish_of_step(
        &mut self,
        key: RunKey,
        published: Published,
    ) -> Result<(), B::Error> {
        let Published { topic: name, message } = published;
        let (workflow, definition) = self.whole_definition(key)?;
        let topic = self.topic_meant(workflow, &definition, &name)?;
        let topic = topic.ok_or_else(|| Damaged(format!("topic {name} is not stored")))?;
        self.publish_messages(topic, vec![message], Publisher::Step(key))?;
        Ok(())
    }

    /// The whole definition of a run's workflow, even if the run is a handler's.
    pub(super) fn whole_definition(
        &mut self,
        key: RunKey,
    ) -> Result<(WorkflowId, std::sync::Arc<Definition>), B::Error> {
        let run = self.run(key)?;
        let (workflow, version) = (run.workflow, run.version);
        Ok((workflow, self.definition(workflow, version)?))
    }
}

/// The publisher of an event.
#[derive(Clone, Copy)]
pub(super) enum Publisher {
    /// A person or a program, over the API.
    Outside,
    /// A step of this run.
    Step(RunKey),
    /// This run of a producer or consumer. Its events are this many hops away from the run that
    /// began the chain.
    Handler(RunKey, u8),
}

/// The runs that triggers started for an event, and the starts that were refused.
#[derive(Default)]
struct Heard {
    /// The last run that a trigger started.
    started: Option<RunKey>,
    /// Why a trigger did not start its run.
    refused: Option<String>,
}

/// The payload of the run that an event starts, or `None` if the trigger does not match. An event
/// on which the condition or the payload template fails does not match.
fn payload_of(
    event: &Event,
    seen: &RawValue,
    condition: Option<&str>,
    payload: Option<&Value>,
) -> Option<Box<RawValue>> {
    let mut scope = Scope::default();
    scope.event(seen.get()).ok()?;
    if let Some(condition) = condition
        && !expression::holds(condition, &scope).unwrap_or(false)
    {
        return None;
    }
    match payload {
        None => Some(event.message.payload.clone()),
        Some(payload) => {
            let filled = expression::value(payload, &scope).ok()?;
            serde_json::value::to_raw_value(&filled).ok()
        }
    }
}

fn input_of(payload: &RawValue, seen: &RawValue, trigger: &str) -> Box<RawValue> {
    let trigger = Value::from(trigger);
    let text = format!(r#"{{"payload":{payload},"trigger_id":{trigger},"event":{seen}}}"#);
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn unknown_topic(id: TopicId) -> Refused {
    Refused::NotFound { what: "topic", id: id.to_string() }
}
