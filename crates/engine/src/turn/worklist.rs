//! The worklist of a turn: what the decision over one schedule, run or handler brings about for others. No decision
//! calls the next one: each consequence waits in a list, and one loop takes them in turn. So no chain of runs, children,
//! events, handlers and schedules, however long, needs more of the stack than a single link of it.

use std::collections::VecDeque;

use super::events::Publisher;
use super::places::STARTED;
use super::runs::Decided;
use super::writes::{ApprovalWrite, WaitWrite};
use super::{Book, Effect, Turn, Wakeup};
use crate::ids::{RunKey, ScheduleId, TopicId, WorkflowId};
use crate::ledger::Outcome;
use crate::run::{
    self, Awaiting, Decision, Ending, Input, Item, NewChild, Part, Published, RunError,
};
use crate::schedule;
use crate::topics::Event;

/// One consequence of a decision, not yet carried out.
pub(super) enum Work {
    /// A step of this run starts a run of another workflow.
    StartChild(RunKey, NewChild),
    /// This run learns something: its child has ended or could not be started, or somebody cancels it.
    Tell(RunKey, Input),
    /// This pending run begins if there is a place for it.
    Begin(RunKey),
    /// Events were published to this topic: steps that wait and triggers hear of them.
    TellListeners(TopicId, Vec<Event>, Publisher),
    /// The consumers of this topic are to look.
    TellConsumers(TopicId),
    /// This workflow may be free for a run of one of its handlers.
    LookAtHandlers(WorkflowId),
    /// A step of this run publishes an event.
    Publish(RunKey, Published),
    /// A part of this run has begun to wait: an event that is there already may be the one.
    OfferPending(RunKey, Part, TopicId),
    /// A run of a producer or consumer has ended.
    HandlerRunEnded {
        /// Which run.
        run: RunKey,
        /// Whether trying it again can help.
        retryable: bool,
    },
    /// A run has ended that no schedule started, and no step waits for.
    Judge(RunKey),
    /// A run has ended that an occurrence or a retry of this schedule started.
    Settle {
        /// The schedule.
        schedule: ScheduleId,
        /// The run.
        run: RunKey,
        /// How it ended.
        ending: Ending,
        /// What went wrong, in words.
        error: Option<String>,
        /// Whether trying it again can help.
        hope: schedule::Hope,
    },
}

/// Consequences that wait to be carried out: those of the last decision before those of earlier ones, as if each
/// had been carried out where it arose.
pub(super) struct Worklist {
    waiting: VecDeque<Work>,
    /// What the decision at hand adds.
    added: Vec<Work>,
    /// Runs and parts of steps that may still begin in this turn.
    pub(super) starts_left: usize,
}

impl Worklist {
    pub(super) fn new() -> Worklist {
        Worklist { waiting: VecDeque::new(), added: Vec::new(), starts_left: STARTED }
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

impl<B: Book> Turn<'_, B> {
    /// Carries out what the decisions so far have brought about, and what follows from that. It ends: every
    /// cycle of consequences begins a run or a step, and a turn begins a limited number of them.
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
            Work::Begin(run) => self.begin_or_wait(run),
            Work::TellListeners(topic, events, by) => self.tell_listeners(topic, &events, by),
            Work::TellConsumers(topic) => self.tell_consumers(topic),
            Work::LookAtHandlers(workflow) => self.look_at_handlers(workflow),
            Work::Publish(run, published) => self.publish_of_step(run, published),
            Work::OfferPending(run, part, topic) => self.offer_pending(run, part, topic),
            Work::HandlerRunEnded { run, retryable } => self.handler_run_ended(run, retryable),
            Work::Judge(run) => self.judge_run(run),
            Work::Settle { schedule, run, ending, error, hope } => {
                let error = error.as_deref();
                let input = schedule::Input::RunEnded { run, ending, error, hope };
                // A schedule that was deleted meanwhile does not need to know.
                let _: Result<(), super::Refused> = self.decide_schedule(schedule, input, None)?;
                Ok(())
            }
        }
    }

    /// A run learns of something that concerns it. One that has ended by itself meanwhile need not know. One that cannot
    /// be read, or whose definition cannot, stays as it is, and keeps nobody else from going on: `doctor` tells of it.
    fn tell_run(&mut self, key: RunKey, input: Input) -> Result<(), B::Error> {
        if !self.loaded.runs.contains(key) {
            if self.passes_over(Wakeup::Run(key)) {
                return Ok(());
            }
            let Some(run) = self.book.run_if_readable(key)? else { return Ok(()) };
            self.loaded.runs.insert_stored(run);
        }
        let run = self.run(key)?;
        let (workflow, version, has_ended) = (run.workflow, run.version, run.status.has_ended());
        let is_cancel = matches!(input, Input::Cancel { .. });
        if has_ended || !is_cancel && self.definition_if_readable(workflow, version)?.is_none() {
            return Ok(());
        }
        let _: Result<Decided, run::Refusal> = self.decide_run(key, input)?;
        Ok(())
    }

    /// Writes what a decision says of the run's own parts, and keeps for later what it means for others.
    pub(super) fn follow(&mut self, key: RunKey, decision: Decision) -> Result<(), B::Error> {
        for (part, token) in decision.perform {
            self.hand_out(key, part, token)?;
        }
        for token in decision.cancel {
            self.call_off(key, token);
        }
        let queueing = decision.queueing.into_iter().map(|queueing| (key, queueing));
        self.output.writes.queueing.extend(queueing);
        let withdrawn = decision.withdrawn.into_iter();
        let withdrawn = withdrawn.map(|step| ApprovalWrite::Withdraw(key, step));
        self.output.writes.approvals.extend(withdrawn);
        // A step may have been given up and begun anew, or begun and given up: where it is now counts.
        let position = self.loaded.runs.get(key).map(|run| &run.position);
        let is_asked = |approval: &run::Approval| {
            let part = position.and_then(|position| position.part(approval.step, Item::Whole));
            part.is_some_and(|active| matches!(active.doing, run::Doing::Asked { .. }))
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

    /// Stores which parts of a run begin to wait for events, and which do not wait any more.
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
            let Some(topic) = self.topic_meant(workflow, &definition, &name)? else { continue };
            self.output.writes.waits.push(WaitWrite::Begin(topic, key, part));
            self.worklist.add(Work::OfferPending(key, part, topic));
        }
        Ok(())
    }

    /// Tells an attempt to end. One that was to begin with this very turn, and was given up, does not begin.
    fn call_off(&mut self, key: RunKey, token: u32) {
        let run = self.loaded.runs.get(key);
        let is_given_up = run.is_none_or(|run| run.position.with_token(token).is_none());
        let begins =
            |effect: &Effect| matches!(effect, Effect::Perform(_)) && effect.is_of(key, token);
        match self.output.effects.iter().position(begins).filter(|_| is_given_up) {
            Some(at) => {
                self.output.effects.remove(at);
                self.capacity.free += 1;
            }
            None => self.output.effects.push(Effect::Cancel { run: key, token }),
        }
    }

    /// Gives back the run's place in its workflow. Its parent, its handler and its schedule learn of the end
    /// after that.
    pub(super) fn run_has_ended(&mut self, key: RunKey, retryable: bool) -> Result<(), B::Error> {
        let run = self.run(key)?;
        let (workflow, schedule, begun) = (run.workflow, run.schedule, run.started_at.is_some());
        let Some(ending) = run.ending() else { return Ok(()) };
        let hope = schedule::Hope::after(run.error.as_ref(), retryable);
        let error = run.error.as_ref().map(RunError::said);
        let handles = run.handler.is_some();
        let is_waited_for = run.parent.is_some_and(|parent| parent.token.is_some());
        self.capacity.look = true;
        if !begun {
            let reason = "cancelled while it waited for a free place".into();
            self.record_run(key, Outcome::Dropped, reason);
        }
        let is_limited =
            self.load_workflow(workflow)?.is_some_and(|known| known.concurrency.is_some());
        if begun && !handles && is_limited {
            let known = self.workflow_mut(workflow)?;
            known.active = known.active.saturating_sub(1);
        }
        self.tell_parent(key);
        if handles {
            self.worklist.add(Work::HandlerRunEnded { run: key, retryable });
        }
        if schedule.is_none() && !handles && !is_waited_for {
            self.worklist.add(Work::Judge(key));
        }
        if let Some(schedule) = schedule {
            let run = key;
            self.worklist.add(Work::Settle { schedule, run, ending, error, hope });
        }
        Ok(())
    }

    /// The run that has started this one, and waits for it, learns that it has ended.
    fn tell_parent(&mut self, key: RunKey) {
        let Some(run) = self.loaded.runs.get(key) else { return };
        let (Some(parent), Some(ending)) = (run.parent, run.ending()) else { return };
        let Some(token) = parent.token else { return };
        let (output, error) = (run.output.clone(), run.error.clone());
        let input = Input::ChildEnded { token, ending, output, error };
        self.worklist.add(Work::Tell(parent.run, input));
    }

    /// A step learns what became of the run that it wanted to start, if that is all it waits for or the run was refused.
    pub(super) fn tell_starter(&mut self, of: RunKey, input: Input) {
        self.worklist.add(Work::Tell(of, input));
    }
}
