//! Producers and consumers within a turn: which one runs next when their workflow is free.

use jiff::Timestamp;
use language::definition::Definition;
use language::definition::HandlerKind;
use language::policy::overlap::IfBusy;
use serde_json::value::RawValue;

use super::children::Purpose;
use super::command::{NewRun, Starter};
use super::runs::Origin;
use super::worklist::Work;
use super::{Change, HandlerWrite, TransactionReader, Turn, Wakeup, WorkflowStatus};
use crate::handlers::{Cause, Handler};
use crate::ids::{HandlerId, RunKey, TopicId, WorkflowId};
use crate::run::TriggeredBy;
use crate::schedule;
use crate::stop::unless_refused;
use crate::topics::{EventState, Subscriber};

impl<B: TransactionReader> Turn<'_, B> {
    fn load_handler(&mut self, id: HandlerId) -> Result<bool, B::Error> {
        if let Some(loaded) = self.loaded.handlers.loaded(id) {
            return Ok(!loaded.is_deleted());
        }
        if self.passes_over(Wakeup::Handler(id)) {
            return Ok(false);
        }
        let Some(handler) = self.reader.handler(id)? else { return Ok(false) };
        self.loaded.handlers.insert_stored(handler);
        Ok(true)
    }

    pub(super) fn write_handlers(&mut self) {
        for loaded in self.loaded.handlers.take_changed() {
            let (is_new, is_deleted) = (loaded.is_new, loaded.is_deleted());
            let (mut handler, old_due) = (Box::new(loaded.now), loaded.before);
            if is_deleted {
                // The store deletes the wakeup that was due before this turn.
                (handler.retry_at, handler.wake_at) = (None, old_due);
            }
            self.output.writes.handlers.push(match (is_new, is_deleted) {
                (true, true) => continue,
                (true, false) => HandlerWrite::Insert(handler),
                (false, true) => HandlerWrite::Delete { before: handler },
                (false, false) => HandlerWrite::Update { after: handler, old_due },
            });
        }
    }

    /// The existing handlers of a workflow, ordered by id.
    pub(super) fn handlers_of(&mut self, workflow: WorkflowId) -> Result<Vec<HandlerId>, B::Error> {
        if !self.loaded.handlers_of.contains_key(&workflow) {
            let known = self.reader.handlers_of(workflow)?;
            self.loaded.handlers_of.insert(workflow, known);
        }
        let known = self.loaded.handlers_of.get(&workflow).cloned().unwrap_or_default();
        let mut there = Vec::with_capacity(known.len());
        for id in known {
            if self.load_handler(id)? {
                there.push(id);
            }
        }
        Ok(there)
    }

    /// The handler with this name, if it exists.
    pub(super) fn handler_named(
        &mut self,
        workflow: WorkflowId,
        name: &str,
    ) -> Result<Option<HandlerId>, B::Error> {
        let there = self.handlers_of(workflow)?;
        let is_it = |id: &HandlerId| self.handler(*id).is_some_and(|known| known.name == name);
        Ok(there.into_iter().find(is_it))
    }

    pub(super) fn handler(&self, id: HandlerId) -> Option<&Handler> {
        self.loaded.handlers.get(id)
    }

    /// A handler that the caller will change.
    pub(super) fn handler_mut(&mut self, id: HandlerId) -> Option<&mut Handler> {
        self.loaded.handlers.change(id, Change::Progress)
    }

    /// Calls a consumer to look for work, for this reason.
    pub(super) fn call_handler(&mut self, id: HandlerId, cause: Cause) -> Result<(), B::Error> {
        if !self.load_handler(id)? {
            return Ok(());
        }
        let is_called = self.handler(id).is_some_and(|handler| handler.cause.is_some());
        if (!is_called || cause == Cause::ByHand)
            && let Some(handler) = self.handler_mut(id)
        {
            handler.call(cause);
        }
        Ok(())
    }

    /// Handles a consumer whose sleep or backoff is over.
    pub(super) fn handler_due(&mut self, id: HandlerId) -> Result<(), B::Error> {
        if !self.load_handler(id)? {
            return Ok(());
        }
        let now = self.context.moment.now;
        let Some(handler) = self.handler(id) else { return Ok(()) };
        if handler.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        let workflow = handler.workflow;
        if handler.kind == HandlerKind::Producer {
            return self.try_producer_again(id);
        }
        if let Some(handler) = self.handler_mut(id) {
            let cause = if handler.retry_at.is_some() { Cause::Retry } else { Cause::Woken };
            handler.retry_at = None;
            handler.wake_at = handler.wake_at.filter(|at| *at > now);
            handler.call(cause);
        }
        self.worklist.add(Work::LookAtHandlers(workflow));
        Ok(())
    }

    /// Starts a run of the next consumer if the workflow is free and a consumer is ready. If none
    /// is, pending runs of producers may begin.
    pub(super) fn look_at_handlers(&mut self, id: WorkflowId) -> Result<(), B::Error> {
        let workflow = self.workflow(id)?;
        if workflow.handling.is_some() {
            return Ok(());
        }
        let (paused, live) = (workflow.paused, workflow.live);
        let Some(live) = live.filter(|_| workflow.status == WorkflowStatus::Published) else {
            return Ok(());
        };
        let definition = self.definition(id, live)?;
        let mut next: Option<(Timestamp, HandlerId)> = None;
        for handler in self.handlers_of(id)? {
            let Some(known) = self.handler(handler).filter(|known| known.is_ready()) else {
                continue;
            };
            // A consumer that a person has called runs even while the workflow is paused.
            if paused && known.cause != Some(Cause::ByHand) {
                continue;
            }
            let name = known.name.clone();
            let oldest = self.oldest_for(id, &definition, &name)?.unwrap_or(Timestamp::MAX);
            if next.is_none_or(|(first, _)| oldest < first) {
                next = Some((oldest, handler));
            }
        }
        match next {
            Some((_, handler)) => self.start_consumer(handler, live, None),
            None => {
                self.capacity.rescan = true;
                Ok(())
            }
        }
    }

    /// The topics that a consumer subscribes to.
    pub(super) fn subscribed(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        consumer: &str,
    ) -> Result<Vec<TopicId>, B::Error> {
        let Some(consumer) = definition.consumer(consumer) else { return Ok(Vec::new()) };
        let mut topics = Vec::new();
        for name in &consumer.subscribe {
            topics.extend(self.topic_meant(workflow, definition, name)?);
        }
        Ok(topics)
    }

    /// When the oldest event was published that a consumer could work on.
    fn oldest_for(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        consumer: &str,
    ) -> Result<Option<Timestamp>, B::Error> {
        let mut oldest: Option<Timestamp> = None;
        for topic in self.subscribed(workflow, definition, consumer)? {
            let found = self.oldest_pending(topic)?;
            oldest = oldest.into_iter().chain(found).min();
        }
        Ok(oldest)
    }

    /// Creates the next run of a consumer, which occupies its workflow from now on.
    pub(super) fn start_consumer(
        &mut self,
        id: HandlerId,
        live: u32,
        by_hand: Option<&NewRun>,
    ) -> Result<(), B::Error> {
        let Some(handler) = self.handler(id).cloned() else { return Ok(()) };
        if let Some(earlier) = handler.resumes {
            let which = i64::try_from(handler.runs).unwrap_or(i64::MAX);
            let new = NewRun {
                id: self.derived_id(RunKey(id.0), Purpose::ConsumerResume as u64, which),
                payload: None,
                by: Starter::Caller(format!("consumer {}", handler.name)),
                trace: None,
                if_busy: IfBusy::Wait,
            };
            return self.resume_consumer(id, &handler, earlier, &new);
        }
        let cause = handler.cause.unwrap_or(Cause::Woken);
        let which = i64::try_from(handler.runs).unwrap_or(i64::MAX);
        let new = match by_hand {
            Some(new) => new.clone(),
            None => NewRun {
                id: self.derived_id(RunKey(id.0), Purpose::ConsumerRun as u64, which),
                payload: None,
                by: Starter::Caller(format!("consumer {}", handler.name)),
                trace: None,
                if_busy: IfBusy::Wait,
            },
        };
        let input = handler_input(&handler, cause, new.payload.as_deref());
        let origin = Origin {
            input: Some(input),
            handler: Some(handler.name.clone()),
            ..Origin::of(cause.triggered_by())
        };
        let key = self.create_run(&new, handler.workflow, live, origin)?;
        self.take_turn(id, key)?;
        if let Some(handler) = self.handler_mut(id) {
            handler.cause = None;
            handler.wake_at = None;
        }
        self.worklist.add(Work::Begin(key));
        Ok(())
    }

    pub(super) fn take_turn(&mut self, id: HandlerId, key: RunKey) -> Result<(), B::Error> {
        let Some(workflow) = self.handler(id).map(|handler| handler.workflow) else {
            return Ok(());
        };
        if self.load_workflow(workflow)?.is_some() {
            self.workflow_mut(workflow)?.handling = Some(key);
        }
        if let Some(handler) = self.handler_mut(id) {
            handler.run = Some(key);
        }
        Ok(())
    }

    /// Whether a person has called this consumer, whose run may already be pending.
    pub(super) fn is_called_for(
        &mut self,
        workflow: WorkflowId,
        name: &str,
    ) -> Result<bool, B::Error> {
        let id = self.handler_named(workflow, name)?;
        let known = id.and_then(|id| self.handler(id));
        Ok(known.is_some_and(|known| known.cause == Some(Cause::ByHand)))
    }

    /// Updates the handler when one of its runs has begun.
    pub(super) fn handler_begun(&mut self, key: RunKey) -> Result<(), B::Error> {
        let run = self.run(key)?;
        let (workflow, Some(name)) = (run.workflow, run.handler.clone()) else { return Ok(()) };
        let now = self.context.moment.now;
        if let Some(id) = self.handler_named(workflow, &name)?
            && let Some(handler) = self.handler_mut(id)
        {
            // A call by hand that arrived while the run was pending is answered by this run.
            handler.cause = handler.cause.filter(|cause| *cause != Cause::ByHand);
            handler.run = Some(key);
            handler.last_run_at = Some(now);
            handler.runs += 1;
        }
        Ok(())
    }

    /// Applies the handlers of a revision that goes live: creates new ones, keeps known ones, and
    /// removes those that the revision does not declare.
    pub(super) fn move_handlers(
        &mut self,
        id: WorkflowId,
        definition: &Definition,
    ) -> Result<(), B::Error> {
        self.declare_topics(id, definition)?;
        let mut left = self.handlers_of(id)?;
        let mut subscriptions = Vec::new();
        for handled in definition.handled() {
            let is_it = |known: &HandlerId| {
                let known = self.handler(*known);
                known.is_some_and(|h| h.name == handled.name() && h.kind == handled.kind())
            };
            let handler = match left.iter().position(is_it) {
                Some(at) => left.remove(at),
                None => self.new_handler(id, definition, handled.name(), handled.kind())?,
            };
            if handled.kind() == HandlerKind::Consumer {
                let topics = self.subscribed(id, definition, handled.name())?;
                let consumer = Subscriber::Consumer(id, handler);
                subscriptions.extend(topics.into_iter().map(|topic| (topic, consumer)));
            }
        }
        for gone in left {
            self.remove_handler(gone)?;
        }
        for trigger in &definition.triggers {
            let language::definition::TriggerKind::Event { topic, .. } = &trigger.kind else {
                continue;
            };
            let topic = self.topic_meant(id, definition, topic)?;
            subscriptions.extend(topic.map(|topic| (topic, Subscriber::Triggers(id))));
        }
        subscriptions.sort_unstable();
        subscriptions.dedup();
        self.output.writes.subscriptions.push((id, subscriptions));
        self.worklist.add(Work::LookAtHandlers(id));
        Ok(())
    }

    fn new_handler(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        name: &str,
        kind: HandlerKind,
    ) -> Result<HandlerId, B::Error> {
        let id = self.reader.new_handler_id();
        let mut handler = Handler::new(id, workflow, name, kind);
        if kind == HandlerKind::Consumer && self.has_pending(workflow, definition, name)? {
            handler.cause = Some(Cause::Deployed);
        }
        self.loaded.handlers.insert_new(handler);
        self.loaded.handlers_of.entry(workflow).or_default().push(id);
        Ok(id)
    }

    /// Whether there are pending events that a consumer could work on.
    pub(super) fn has_pending(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        consumer: &str,
    ) -> Result<bool, B::Error> {
        for topic in self.subscribed(workflow, definition, consumer)? {
            if self.pending_in(topic)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remove_handler(&mut self, id: HandlerId) -> Result<(), B::Error> {
        let resumes = self.handler(id).and_then(|gone| Some((gone.resumes?, gone.name.clone())));
        if let Some((run, name)) = resumes {
            self.leave_behind(run, &name)?;
        }
        self.loaded.handlers.change(id, Change::Deleted);
        Ok(())
    }

    /// Skips the events of a run whose mutation was done and that no consumer will continue. Making
    /// them pending again would repeat the mutation.
    pub(super) fn leave_behind(&mut self, run: RunKey, consumer: &str) -> Result<(), B::Error> {
        for fate in self.reserved_by(run)? {
            let reason = format!("its mutation was done, and the consumer {consumer} is gone");
            self.move_event(&fate, EventState::Skipped, None, Some(reason))?;
        }
        Ok(())
    }

    /// Removes all handlers and subscriptions of an archived workflow.
    pub(super) fn remove_handlers(&mut self, id: WorkflowId) -> Result<(), B::Error> {
        for handler in self.handlers_of(id)? {
            self.remove_handler(handler)?;
        }
        self.output.writes.subscriptions.push((id, Vec::new()));
        Ok(())
    }

    /// Continues a workflow's handlers after a pause, and retries those that failed.
    pub(super) fn resume_handlers(&mut self, id: WorkflowId) -> Result<(), B::Error> {
        for handler in self.handlers_of(id)? {
            let Some(known) = self.handler(handler) else { continue };
            if known.failures == 0 && known.resumes.is_none() {
                continue;
            }
            let (kind, name) = (known.kind, known.name.clone());
            if let Some(known) = self.handler_mut(handler) {
                known.failures = 0;
                known.retry_at = None;
                if kind == HandlerKind::Consumer {
                    known.call(Cause::Retry);
                }
            }
            if kind == HandlerKind::Producer {
                self.resume_producer(id, &name)?;
            }
        }
        self.capacity.rescan = true;
        self.worklist.add(Work::LookAtHandlers(id));
        Ok(())
    }

    /// Resumes the schedule of a producer that a failure has paused, and catches up what was
    /// missed.
    fn resume_producer(&mut self, id: WorkflowId, name: &str) -> Result<(), B::Error> {
        let trigger = format!("producers.{name}");
        let known = self.reader.triggered_schedules(id)?;
        let is_its = |known: &schedule::Schedule| known.trigger.as_deref() == Some(&trigger);
        let its = known.iter().find(|known| is_its(known)).map(|known| known.id);
        if let Some(schedule) = its {
            let input = schedule::Input::Resume { catch_up: true };
            // A schedule that was not paused refuses, and continues anyway.
            unless_refused(self.decide_schedule(schedule, input, None))?;
        }
        Ok(())
    }
}

/// The input of a consumer's run.
fn handler_input(handler: &Handler, cause: Cause, payload: Option<&RawValue>) -> Box<RawValue> {
    let told = serde_json::json!({
        "handler": handler.name, "cause": cause.name(), "payload": payload,
    });
    serde_json::value::to_raw_value(&told).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Whether a person asked for the run. Such a run begins even while its workflow is paused.
pub(super) fn is_asked_for(triggered_by: TriggeredBy) -> bool {
    matches!(triggered_by, TriggeredBy::Manual)
}
