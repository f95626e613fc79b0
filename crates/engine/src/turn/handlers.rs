//! Producers and consumers within a turn: which one runs next when their workflow is free.

use jiff::Timestamp;
use language::definition::Definition;
use language::definition::HandlerKind;
use language::policy::overlap::IfBusy;
use serde_json::value::RawValue;

use super::children::Purpose;
use super::command::{NewRun, Starter};
use super::creation::Origin;
use super::worklist::Work;
use super::{Change, Damaged, HandlerWrite, TransactionReader, Turn, Wakeup, WorkflowStatus};
use crate::handlers::{Cause, Handler};
use crate::ids::{HandlerId, RunKey, ScheduleId, TopicId, WorkflowId};
use crate::run::{Run, TriggeredBy};
use crate::schedule;
use crate::topics::{EventState, Subscriber};

impl<B: TransactionReader> Turn<'_, B> {
    /// Loads a handler, and returns whether it exists and is not set aside.
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
        let known = match self.loaded.handlers_of.get(&workflow) {
            Some(known) => known.clone(),
            None => {
                let known = self.reader.handlers_of(workflow)?;
                self.loaded.handlers_of.insert(workflow, known.clone());
                known
            }
        };
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
        let known = |id: &HandlerId| self.loaded.handlers.get(*id);
        Ok(there.into_iter().find(|id| known(id).is_some_and(|known| known.name == name)))
    }

    /// A handler that the turn has loaded.
    pub(super) fn handler(&self, id: HandlerId) -> Result<&Handler, B::Error> {
        let found = self.loaded.handlers.get(id);
        Ok(found.ok_or_else(|| Damaged(format!("handler {} is not there any more", id.0)))?)
    }

    /// A loaded handler, to be changed.
    pub(super) fn handler_mut(&mut self, id: HandlerId) -> Result<&mut Handler, B::Error> {
        let found = self.loaded.handlers.change(id, Change::Progress);
        Ok(found.ok_or_else(|| Damaged(format!("handler {} is not there any more", id.0)))?)
    }

    /// Calls a consumer to look for work, for this reason. A consumer that is gone or set aside has
    /// none.
    pub(super) fn call_handler(&mut self, id: HandlerId, cause: Cause) -> Result<(), B::Error> {
        if !self.load_handler(id)? {
            return Ok(());
        }
        if self.handler(id)?.cause.is_none() || cause == Cause::ByHand {
            self.handler_mut(id)?.call(cause);
        }
        Ok(())
    }

    /// Handles a consumer whose sleep or backoff is over. One that is gone, set aside or due later
    /// needs nothing.
    pub(super) fn handler_due(&mut self, id: HandlerId) -> Result<(), B::Error> {
        if !self.load_handler(id)? {
            return Ok(());
        }
        self.deciding = Some(Wakeup::Handler(id));
        let now = self.context.moment.now;
        let handler = self.handler(id)?;
        if handler.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        let workflow = handler.workflow;
        if handler.kind == HandlerKind::Producer {
            return self.try_producer_again(id);
        }
        let handler = self.handler_mut(id)?;
        let cause = if handler.retry_at.is_some() { Cause::Retry } else { Cause::Woken };
        handler.retry_at = None;
        handler.wake_at = handler.wake_at.filter(|at| *at > now);
        handler.call(cause);
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
        // Only a published workflow has handlers that may run.
        let Some(live) = live.filter(|_| workflow.status == WorkflowStatus::Published) else {
            return Ok(());
        };
        let definition = self.definition(id, live)?;
        let mut next: Option<(Timestamp, HandlerId)> = None;
        for handler in self.handlers_of(id)? {
            self.deciding = Some(Wakeup::Handler(handler));
            let known = self.handler(handler)?;
            // A consumer that a person has called runs even while the workflow is paused.
            if !known.is_ready() || paused && known.cause != Some(Cause::ByHand) {
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

    /// The topics that a consumer subscribes to: none if this revision does not have the consumer.
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
        self.deciding = Some(Wakeup::Handler(id));
        let handler = self.handler(id)?.clone();
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
        let handler = self.handler_mut(id)?;
        handler.cause = None;
        handler.wake_at = None;
        self.worklist.add(Work::Begin(key));
        Ok(())
    }

    pub(super) fn take_turn(&mut self, id: HandlerId, key: RunKey) -> Result<(), B::Error> {
        let handler = self.handler_mut(id)?;
        handler.run = Some(key);
        let workflow = handler.workflow;
        self.workflow(workflow)?;
        self.workflow_mut(workflow)?.handling = Some(key);
        Ok(())
    }

    /// Whether a person has called this consumer, whose run may already be pending.
    pub(super) fn is_called_for(
        &mut self,
        workflow: WorkflowId,
        name: &str,
    ) -> Result<bool, B::Error> {
        Ok(match self.handler_named(workflow, name)? {
            Some(id) => self.handler(id)?.cause == Some(Cause::ByHand),
            None => false,
        })
    }

    /// Updates the handler when one of its runs has begun. A run of a revision that was live before
    /// may belong to a handler that is gone.
    pub(super) fn handler_begun(&mut self, key: RunKey) -> Result<(), B::Error> {
        let run = self.run(key)?;
        let (workflow, name) = (run.workflow, handler_name(run)?.to_owned());
        let now = self.context.moment.now;
        if let Some(id) = self.handler_named(workflow, &name)? {
            let handler = self.handler_mut(id)?;
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
                let known = self.loaded.handlers.get(*known);
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
        let gone = self.handler(id)?;
        if let Some(run) = gone.resumes {
            let name = gone.name.clone();
            self.leave_behind(run, &name)?;
        }
        self.loaded.handlers.change(id, Change::Deleted);
        Ok(())
    }

    /// Skips the events of a run whose mutation was done and that no consumer will continue. Making
    /// them pending again would repeat the mutation.
    pub(super) fn leave_behind(&mut self, run: RunKey, consumer: &str) -> Result<(), B::Error> {
        for status in self.reserved_by(run)? {
            let reason = format!("its mutation was done, and the consumer {consumer} is gone");
            self.move_event(&status, EventState::Skipped, None, Some(reason))?;
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
            let known = self.handler(handler)?;
            if known.failures == 0 && known.resumes.is_none() {
                continue;
            }
            let known = self.handler_mut(handler)?;
            known.failures = 0;
            known.retry_at = None;
            match known.kind {
                HandlerKind::Consumer => known.call(Cause::Retry),
                HandlerKind::Producer => {
                    let name = known.name.clone();
                    self.resume_producer(id, &name)?;
                }
            }
        }
        self.capacity.rescan = true;
        self.worklist.add(Work::LookAtHandlers(id));
        Ok(())
    }

    /// Resumes the schedule of a producer that a failure has paused, and catches up what was
    /// missed.
    fn resume_producer(&mut self, id: WorkflowId, name: &str) -> Result<(), B::Error> {
        if let Some(schedule) = self.schedule_of_producer(id, name)? {
            let input = schedule::Input::Resume { catch_up: true };
            self.worklist.add(Work::Schedule(schedule, input, None));
        }
        Ok(())
    }

    /// The schedule that a producer declares.
    pub(super) fn schedule_of_producer(
        &mut self,
        id: WorkflowId,
        name: &str,
    ) -> Result<Option<ScheduleId>, B::Error> {
        let known = self.reader.triggered_schedules(id)?;
        let its = known.iter().find(|known| known.producer() == Some(name));
        Ok(its.map(|known| known.id))
    }
}

/// The input of a consumer's run.
fn handler_input(handler: &Handler, cause: Cause, payload: Option<&RawValue>) -> Box<RawValue> {
    let told = serde_json::json!({
        "handler": handler.name, "cause": cause.name(), "payload": payload,
    });
    serde_json::value::to_raw_value(&told).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The name of the handler that a run belongs to, for a caller that works on such runs only.
pub(super) fn handler_name(run: &Run) -> Result<&str, Damaged> {
    let name = run.handler.as_deref();
    name.ok_or_else(|| Damaged(format!("run {} is a run of a handler without its name", run.id)))
}

/// Whether a person asked for the run. Such a run begins even while its workflow is paused.
pub(super) fn is_asked_for(triggered_by: TriggeredBy) -> bool {
    matches!(triggered_by, TriggeredBy::Manual)
}
