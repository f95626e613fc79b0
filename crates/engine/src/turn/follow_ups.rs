//! What a decision over a run brings about elsewhere. Nothing here calls the decision that comes next: each
//! consequence waits in a list, and one loop takes them in turn. So no chain of runs, children, events and
//! schedules, however long, needs more of the stack than a single link of it.

use std::collections::VecDeque;

use super::writes::{ApprovalWrite, WaitWrite};
use super::{Book, Effect, Turn};
use crate::ids::{RunKey, ScheduleId, TopicId};
use crate::ledger::Outcome;
use crate::run::{self, Awaiting, Decision, Ending, Input, NewChild, Part, Published, RunError};
use crate::schedule;

/// One consequence of a decision over a run, not yet carried out.
pub(super) enum FollowUp {
    /// A step of this run starts a run of another workflow.
    StartChild(RunKey, NewChild),
    /// This run learns something: its child has ended or could not be started, or somebody cancels it.
    Tell(RunKey, Input),
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
        retryable: bool,
    },
}

/// Consequences that wait to be carried out: those of the last decision before those of earlier ones, as if each
/// had been carried out where it arose.
#[derive(Default)]
pub(super) struct FollowUps {
    waiting: VecDeque<FollowUp>,
    /// What the decision at hand adds.
    added: Vec<FollowUp>,
}

impl FollowUps {
    fn add(&mut self, follow_up: FollowUp) {
        self.added.push(follow_up);
    }

    fn next(&mut self) -> Option<FollowUp> {
        for follow_up in self.added.drain(..).rev() {
            self.waiting.push_front(follow_up);
        }
        self.waiting.pop_front()
    }
}

impl<B: Book> Turn<'_, B> {
    /// Carries out what the decisions so far have brought about, and what follows from that. It ends: every
    /// cycle of consequences begins a run or a step, and a turn begins a limited number of them.
    pub(super) fn settle_follow_ups(&mut self) -> Result<(), B::Error> {
        while let Some(follow_up) = self.follow_ups.next() {
            self.carry_out_follow_up(follow_up)?;
        }
        Ok(())
    }

    fn carry_out_follow_up(&mut self, follow_up: FollowUp) -> Result<(), B::Error> {
        match follow_up {
            FollowUp::StartChild(of, child) => self.create_child(of, child),
            FollowUp::Tell(run, input) => {
                // A run that has ended by itself meanwhile need not know.
                let _: Result<(), run::Refusal> = self.decide_run(run, input)?;
                Ok(())
            }
            FollowUp::Publish(run, published) => self.publish_of_step(run, published),
            FollowUp::OfferPending(run, part, topic) => self.offer_pending(run, part, topic),
            FollowUp::HandlerRunEnded { run, retryable } => self.handler_run_ended(run, retryable),
            FollowUp::Judge(run) => self.judge_run(run),
            FollowUp::Settle { schedule, run, ending, error, retryable } => {
                let error = error.as_deref();
                let input = schedule::Input::RunEnded { run, ending, error, retryable };
                // A schedule that was deleted meanwhile does not need to know.
                let _: Result<(), super::Refused> = self.decide_schedule(schedule, input, None)?;
                Ok(())
            }
        }
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
        self.writes.queueing.extend(queueing);
        let withdrawn = decision.withdrawn.into_iter();
        let withdrawn = withdrawn.map(|step| ApprovalWrite::Withdraw(key, step));
        self.writes.approvals.extend(withdrawn);
        // A step may have been given up and begun anew, or begun and given up: where it is now counts.
        let position = self.runs.get(&key).map(|slot| &slot.run.position);
        let is_asked = |approval: &run::Approval| {
            let part = position.and_then(|position| position.part(approval.step, run::WHOLE));
            part.is_some_and(|active| matches!(active.doing, run::Doing::Asked { .. }))
        };
        let asked = decision.approvals.into_iter().filter(is_asked);
        let asked = asked.map(|approval| ApprovalWrite::Ask(key, self.moment.now, approval));
        self.writes.approvals.extend(asked);
        if let Some(token) = decision.claimed {
            self.claimed.push((key, token));
        }
        self.is_told_to_end = decision.is_ending;
        for child in decision.children {
            self.follow_ups.add(FollowUp::StartChild(key, child));
        }
        for (child, reason) in decision.cancel_runs {
            self.follow_ups.add(FollowUp::Tell(child, Input::Cancel { reason }));
        }
        for alert in decision.alerts {
            self.alert(key, alert)?;
        }
        for published in decision.published {
            self.follow_ups.add(FollowUp::Publish(key, published));
        }
        self.follow_awaiting(key, decision.awaiting)
    }

    /// Stores which parts of a run begin to wait for events, and which do not wait any more.
    fn follow_awaiting(&mut self, key: RunKey, awaiting: Vec<Awaiting>) -> Result<(), B::Error> {
        for change in awaiting {
            let (name, part) = match change {
                Awaiting::Begin(name, part) => (name, part),
                Awaiting::End(part) => {
                    self.writes.waits.push(WaitWrite::End(key, part));
                    continue;
                }
            };
            let Some((workflow, definition)) = self.whole_definition(key)? else { continue };
            let Some(topic) = self.topic_meant(workflow, &definition, &name)? else { continue };
            self.writes.waits.push(WaitWrite::Begin(topic, key, part));
            self.follow_ups.add(FollowUp::OfferPending(key, part, topic));
        }
        Ok(())
    }

    /// Tells an attempt to end. One that was to begin with this very turn, and was given up, does not begin.
    fn call_off(&mut self, key: RunKey, token: u32) {
        let run = self.runs.get(&key).map(|slot| &slot.run);
        let is_given_up = run.is_none_or(|run| run.position.with_token(token).is_none());
        let begins =
            |effect: &Effect| matches!(effect, Effect::Perform(_)) && effect.is_of(key, token);
        match self.effects.iter().position(begins).filter(|_| is_given_up) {
            Some(at) => {
                self.effects.remove(at);
                self.places.free += 1;
            }
            None => self.effects.push(Effect::Cancel { run: key, token }),
        }
    }

    /// Gives back the run's place in its workflow. Its parent, its handler and its schedule learn of the end
    /// after that.
    pub(super) fn run_has_ended(&mut self, key: RunKey, retryable: bool) -> Result<(), B::Error> {
        let Some(slot) = self.runs.get(&key) else { return Ok(()) };
        let run = &slot.run;
        let (workflow, schedule, begun) = (run.workflow, run.schedule, run.started_at.is_some());
        let Some(ending) = run.ending() else { return Ok(()) };
        let error = run.error.as_ref().map(RunError::said);
        let handles = run.handler.is_some();
        let is_waited_for = run.parent.is_some_and(|parent| parent.token.is_some());
        self.places.look = true;
        if !begun {
            let reason = "cancelled while it waited for a free place".into();
            self.record_run(key, Outcome::Dropped, reason);
        }
        if let Some(slot) = self.load_workflow(workflow)?
            && begun
            && !handles
            && slot.workflow.concurrency.is_some()
        {
            slot.workflow.active = slot.workflow.active.saturating_sub(1);
            slot.is_changed = true;
        }
        self.tell_parent(key);
        if handles {
            self.follow_ups.add(FollowUp::HandlerRunEnded { run: key, retryable });
        }
        if schedule.is_none() && !handles && !is_waited_for {
            self.follow_ups.add(FollowUp::Judge(key));
        }
        if let Some(schedule) = schedule {
            let run = key;
            self.follow_ups.add(FollowUp::Settle { schedule, run, ending, error, retryable });
        }
        Ok(())
    }

    /// The run that has started this one, and waits for it, learns that it has ended.
    fn tell_parent(&mut self, key: RunKey) {
        let Some(run) = self.runs.get(&key).map(|slot| &slot.run) else { return };
        let (Some(parent), Some(ending)) = (run.parent, run.ending()) else { return };
        let Some(token) = parent.token else { return };
        let (output, error) = (run.output.clone(), run.error.clone());
        let input = Input::ChildEnded { token, ending, output, error };
        self.follow_ups.add(FollowUp::Tell(parent.run, input));
    }

    /// A step learns what became of the run that it wanted to start, if that is all it waits for or the run was refused.
    pub(super) fn tell_starter(&mut self, of: RunKey, input: Input) {
        self.follow_ups.add(FollowUp::Tell(of, input));
    }
}
