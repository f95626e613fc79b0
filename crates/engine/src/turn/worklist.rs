//! The worklist of a turn: what a decision about one schedule, run, handler or workflow means for
//! others. Each consequence waits in a list, and one loop carries them out one by one, so that a
//! chain of runs, children, events, handlers and schedules of any length needs only the stack of a
//! single link.
//!
//! One consequence does not wait: an event that is offered to a waiting step, because the step's
//! answer decides who receives the event next. What follows from that answer waits in the list.

use std::collections::VecDeque;

use super::command::NewRun;
use super::events::Publisher;
use super::writes::{ApprovalWrite, WaitWrite};
use super::{Damaged, Effect, TransactionReader, Turn, Wakeup};
use crate::ids::{RunKey, ScheduleId, TopicId, WorkflowId};
use crate::ledger::Outcome;
use crate::run::{
    self, Awaiting, Decision, Input, Item, NewChild, Part, Published, Retryability, RunError,
};
use crate::schedule;
use crate::stop::unless_refused;
use crate::topics::Event;

/// One of so many starts of a turn is reserved for pending runs.
const RESERVED: usize = 4;

/// One consequence of a decision, not yet carried out.
pub(super) enum Work {
    /// A step of this run starts a run of another workflow.
    StartChild(RunKey, NewChild),
    /// This run receives an input: its child has ended or could not be started, somebody cancels
    /// it, or its workflow was paused or resumed.
    Tell(RunKey, Input),
    /// This schedule receives an input: its run has ended, a publication declares it differently,
    /// or its producer runs at once. The run describes the one that the input starts.
    Schedule(ScheduleId, schedule::Input, Option<Box<NewRun>>),
    /// This pending run begins if there is free capacity for it.
    Begin(RunKey),
    /// Events were published to this topic. Waiting steps and triggers receive them.
    TellListeners(TopicId, Vec<Event>, Publisher),
    /// The consumers of this topic look for work.
    TellConsumers(TopicId),
    /// This workflow may be free for a run of one of its handlers.
    LookAtHandlers(WorkflowId),
    /// A step of this run publishes an event.
    Publish(RunKey, Published),
    /// A part of this run has begun to wait. An event that is already pending may match.
    OfferPending(RunKey, Part, TopicId),
    /// A run of a producer or consumer has ended.
    HandlerRunEnded {
        run: RunKey,
        /// Whether a retry can help.
        retryability: Retryability,
    },
    /// A run has ended that no schedule started and no step waits for.
    Judge(RunKey),
}

/// Consequences that wait to be carried out. Those of the last decision come before those of
/// earlier ones, as if each had been carried out where it arose.
pub(super) struct Worklist {
    waiting: VecDeque<Work>,
    /// Consequences of the decision that is being carried out.
    added: Vec<Work>,
    /// How many runs and parts of steps may still begin or be cancelled in this turn.
    pub(super) starts_left: usize,
    /// How many of them are kept for pending runs of workflows that take turns, so that a family of
    /// runs that starts others without end does not keep other workflows from beginning.
    reserved_starts: usize,
}

impl Worklist {
    pub(super) fn new(starts: usize) -> Worklist {
        let reserved_starts = starts / RESERVED;
        let starts_left = starts - reserved_starts;
        Worklist { waiting: VecDeque::new(), added: Vec::new(), starts_left, reserved_starts }
    }

    /// Makes the reserved starts available.
    pub(super) fn release_reserved_starts(&mut self) {
        self.starts_left += std::mem::take(&mut self.reserved_starts);
    }

    pub(super) fn add(&mut self, work: Work) {
        self.added.push(work);
    }

    fn next(&mut self) -> Option<Work> {
        for work in self.added.drain(..).rev() {
            self.waiting.push_front(work);
        }
        self.waiting.pop_front()
    }
}

impl<B: TransactionReader> Turn<'_, B> {
    /// Carries out the consequences of the decisions so far, and the consequences of those. The
    /// loop ends because every cycle of consequences begins a run or a step, and a turn begins only
    /// a limited number of them.
    pub(super) fn work_through(&mut self) -> Result<(), B::Error> {
        while let Some(work) = self.worklist.next() {
            self.carry_out_work(work)?;
        }
        Ok(())
    }

    fn carry_out_work(&mut self, work: Work) -> Result<(), B::Error> {
        match work {
            Work::StartChild(of, child) => self.create_child(of, child),
            Work::Tell(run, input) => self.tell_run(run, input),
            Work::Schedule(id, input, run) => self.tell_schedule(id, input, run.as_deref()),
            Work::Begin(run) => self.begin_or_wait(run),
            Work::TellListeners(topic, events, by) => self.tell_listeners(topic, &events, by),
            Work::TellConsumers(topic) => self.tell_consumers(topic),
            Work::LookAtHandlers(workflow) => self.look_at_handlers(workflow),
            Work::Publish(run, published) => self.publish_of_step(run, published),
            Work::OfferPending(run, part, topic) => self.offer_pending(run, part, topic),
            Work::HandlerRunEnded { run, retryability } => {
                self.handler_run_ended(run, retryability)
            }
            Work::Judge(run) => self.judge_run(run),
        }
    }

    /// Gives a run an input that another entity caused. A run that has ended meanwhile ignores it.
    /// A run that cannot be read, or whose definition cannot, stays as it is and holds up nobody
    /// else; `doctor` reports it.
    fn tell_run(&mut self, key: RunKey, input: Input) -> Result<(), B::Error> {
        if !self.loaded.runs.contains(key) {
            if self.passes_over(Wakeup::Run(key)) {
                return Ok(());
            }
            let Some(run) = self.reader.run_if_readable(key)? else { return Ok(()) };
            self.loaded.runs.insert_stored(run);
        }
        let run = self.run(key)?;
        let (workflow, version, has_ended) = (run.workflow, run.version, run.status.has_ended());
        let is_cancel = matches!(input, Input::Cancel { .. });
        if has_ended || !is_cancel && self.definition_if_readable(workflow, version)?.is_none() {
            return Ok(());
        }
        unless_refused(self.decide_run(key, input))?;
        Ok(())
    }

    /// Gives a schedule an input that another entity caused. A schedule that was deleted meanwhile
    /// ignores it, as does one whose status leaves nothing to do: it is paused or active already,
    /// or its active run takes the place of the one to start.
    fn tell_schedule(
        &mut self,
        id: ScheduleId,
        input: schedule::Input,
        run: Option<&NewRun>,
    ) -> Result<(), B::Error> {
        unless_refused(self.decide_schedule(id, input, run))?;
        Ok(())
    }

    /// Writes what a decision changes in the run's own parts, and adds its consequences for others
    /// to the worklist.
    pub(super) fn follow(&mut self, key: RunKey, decision: Decision) -> Result<(), B::Error> {
        for (part, token) in decision.perform {
            self.hand_out(key, part, token)?;
        }
        if !decision.noops.is_empty() {
            self.note_noops(key, &decision.noops)?;
        }
        for token in decision.cancel {
            self.cancel_attempt(key, token);
        }
        let queueing = decision.queueing.into_iter().map(|queueing| (key, queueing));
        self.output.writes.queueing.extend(queueing);
        let withdrawn = decision.withdrawn.into_iter();
        let withdrawn = withdrawn.map(|step| ApprovalWrite::Withdraw(key, step));
        self.output.writes.approvals.extend(withdrawn);
        // Within one turn a step may be abandoned and begun again, or begun and abandoned. Only its
        // current state counts.
        let state = self.loaded.runs.get(key).map(|run| &run.state);
        let is_asked = |approval: &run::Approval| {
            let part = state.and_then(|state| state.part(approval.step, Item::Whole));
            part.is_some_and(|active| matches!(active.status, run::ActivityStatus::Asked { .. }))
        };
        let asked = decision.approvals.into_iter().filter(is_asked);
        let asked =
            asked.map(|approval| ApprovalWrite::Ask(key, self.context.moment.now, approval));
        self.output.writes.approvals.extend(asked);
        for child in decision.children {
            self.worklist.add(Work::StartChild(key, child));
        }
        for (child, reason) in decision.cancel_runs {
            self.worklist.add(Work::Tell(child, Input::Cancel { reason }));
        }
        for alert in decision.alerts {
            self.alert(key, alert)?;
        }
        for published in decision.published {
            self.worklist.add(Work::Publish(key, published));
        }
        self.follow_awaiting(key, decision.awaiting)
    }

    /// Stores which parts of a run begin to wait for events and which stop waiting.
    fn follow_awaiting(&mut self, key: RunKey, awaiting: Vec<Awaiting>) -> Result<(), B::Error> {
        for change in awaiting {
            let (name, part) = match change {
                Awaiting::Begin(name, part) => (name, part),
                Awaiting::End(part) => {
                    self.output.writes.waits.push(WaitWrite::End(key, part));
                    continue;
                }
            };
            let (workflow, definition) = self.whole_definition(key)?;
            let topic = self.topic_meant(workflow, &definition, &name)?;
            let topic = topic.ok_or_else(|| {
                Damaged(format!("workflow {workflow} has no topic {name} to wait for"))
            })?;
            self.output.writes.waits.push(WaitWrite::Begin(topic, key, part));
            self.worklist.add(Work::OfferPending(key, part, topic));
        }
        Ok(())
    }

    /// Tells an attempt to end. An attempt that this same turn was to begin, and has abandoned,
    /// does not begin.
    fn cancel_attempt(&mut self, key: RunKey, token: u32) {
        let run = self.loaded.runs.get(key);
        let is_given_up = run.is_none_or(|run| run.state.with_token(token).is_none());
        let begins =
            |effect: &Effect| matches!(effect, Effect::Perform(_)) && effect.is_of(key, token);
        match self.output.effects.iter().position(begins).filter(|_| is_given_up) {
            Some(at) => {
                if let Effect::Perform(abandoned) = self.output.effects.remove(at) {
                    self.return_slot(abandoned.workflow);
                }
            }
            None => self.output.effects.push(Effect::Cancel { run: key, token }),
        }
    }

    /// Releases the run's slot in its workflow. Its parent, its handler and its schedule are
    /// notified afterwards.
    pub(super) fn run_has_ended(
        &mut self,
        key: RunKey,
        retryability: Retryability,
    ) -> Result<(), B::Error> {
        let run = self.run(key)?;
        let (workflow, schedule, begun) = (run.workflow, run.schedule, run.started_at.is_some());
        let ending = self.ending_of(run)?;
        let error = run.error.as_ref().map(RunError::said);
        let handles = run.handler.is_some();
        let is_waited_for = run.parent.is_some_and(|parent| parent.token.is_some());
        self.capacity.rescan = true;
        if !begun {
            let reason = "cancelled while it waited for a free slot".into();
            self.record_run(key, Outcome::Dropped, reason)?;
        }
        let is_limited =
            self.load_workflow(workflow)?.is_some_and(|known| known.concurrency.is_some());
        if begun && !handles && is_limited {
            let known = self.workflow_mut(workflow)?;
            known.active = known.active.saturating_sub(1);
        }
        self.tell_parent(key)?;
        if handles {
            self.worklist.add(Work::HandlerRunEnded { run: key, retryability });
        }
        if schedule.is_none() && !handles && !is_waited_for {
            self.worklist.add(Work::Judge(key));
        }
        if let Some(schedule) = schedule {
            let input = schedule::Input::RunEnded { run: key, ending, error, retryability };
            self.worklist.add(Work::Schedule(schedule, input, None));
        }
        Ok(())
    }

    /// Notifies the parent run, if it waits for this run, that this run has ended.
    fn tell_parent(&mut self, key: RunKey) -> Result<(), B::Error> {
        let run = self.run(key)?;
        // Nobody waits for a run without a parent, or without a token of its parent.
        let Some(parent) = run.parent else { return Ok(()) };
        let Some(token) = parent.token else { return Ok(()) };
        let ending = self.ending_of(run)?;
        let (output, error) = (run.output.clone(), run.error.clone());
        let input = Input::ChildEnded { token, ending, output, error };
        self.worklist.add(Work::Tell(parent.run, input));
        Ok(())
    }

    /// Reports to a step that its child run was refused, or was started if the step does not wait
    /// for its end.
    pub(super) fn tell_starter(&mut self, of: RunKey, input: Input) {
        self.worklist.add(Work::Tell(of, input));
    }
}
