//! Runs within a turn: how they begin, and are decided.

use std::borrow::Cow;

use jiff::SignedDuration;

use super::capacity::PARTS;
use super::handlers::is_asked_for;
use super::history::LoadedHistory;
use super::traces::trace_attempts;
use super::{Change, Effect, TransactionReader, Turn, Wakeup, not_there};
use crate::ids::{NodeId, RunId, RunKey, WorkflowId};
use crate::ledger::{Entry, Outcome};
use crate::run::{self, AttemptEnd, Input, NodeCapacity, RunStatus, TriggeredBy};
use crate::schedule::Schedule;
use crate::stop::{Stop, refuse, unless_refused};

/// How many runs of a dead node are taken over in one transaction.
const TAKEN_OVER: usize = 1_000;
/// A run that begins at least this long after its creation is recorded as having waited for a slot.
/// A run that a command creates begins with the driver's next turn, which is sooner.
const NOTABLE_WAIT: SignedDuration = SignedDuration::from_secs(1);

impl<B: TransactionReader> Turn<'_, B> {
    /// Takes the report of the attempt with this token. A report that comes too late is refused.
    pub fn report(
        &mut self,
        key: RunKey,
        token: u32,
        end: AttemptEnd,
    ) -> Result<(), Stop<run::Refusal, B::Error>> {
        let end = self.phase_end(key, token, end)?;
        self.decide_run(key, Input::Reported { token, end })?;
        Ok(self.work_through()?)
    }

    pub(super) fn wake_run(&mut self, key: RunKey) -> Result<(), B::Error> {
        unless_refused(self.decide_run(key, Input::Wake))?;
        Ok(())
    }

    /// Takes over the attempts of a node whose lease has expired.
    pub(super) fn node_gone(&mut self, node: NodeId) -> Result<(), B::Error> {
        if node == self.context.node {
            return Ok(());
        }
        let owned = self.reader.owned_by(node, TAKEN_OVER)?;
        if owned.len() < TAKEN_OVER {
            self.output.writes.nodes_gone.push(node);
        }
        for key in owned {
            if self.passes_over(Wakeup::Run(key)) {
                continue;
            }
            self.load_run(key)?;
            // Some attempts may have ended or been taken over earlier in this turn.
            let active = self.run(key)?.state.active.iter();
            let lost = active.filter(|active| active.owner() == Some(node)).count();
            if lost > 0 {
                unless_refused(self.decide_run(key, Input::OwnerGone(node)))?;
                self.work_through()?;
                self.output.writes.recovered.taken_over += lost as u64;
            }
        }
        Ok(())
    }

    /// Hands out again the attempts that belong to this node and that it is not performing. Their
    /// effects were lost together with the response to a commit.
    pub fn perform_lost(&mut self, performed: &[(RunKey, u32)]) -> Result<(), B::Error> {
        for key in self.reader.owned_by(self.context.node, usize::MAX)? {
            // A run that is set aside keeps its attempts, and is not there for turns.
            if !self.load_run(key)? {
                continue;
            }
            let run = self.run(key)?;
            let is_stopping = run.state.is_stopping();
            let own = |active: &&run::Activity| active.owner() == Some(self.context.node);
            let own: Vec<(run::Part, u32)> = run
                .state
                .active
                .iter()
                .filter(own)
                .filter_map(|active| Some((active.part(), active.status.token()?)))
                .collect();
            for (part, token) in own {
                let is_known = performed.contains(&(key, token))
                    || self.output.effects.iter().any(|effect| effect.is_of(key, token));
                if is_stopping {
                    // Telling an attempt to end twice is harmless.
                    self.output.effects.push(Effect::Cancel { run: key, token });
                } else if !is_known {
                    self.hand_out(key, part, token)?;
                    let workflow = self.run(key)?.workflow;
                    self.take_slots(workflow, 1);
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_pending(&self, key: RunKey) -> bool {
        self.loaded.runs.get(key).is_some_and(|run| run.status == RunStatus::Pending)
    }

    pub(super) fn is_ready(&self, key: RunKey) -> bool {
        self.loaded.runs.get(key).is_some_and(|run| run.is_ready())
    }

    /// Begins a pending run if there is a free slot for it, and returns whether it began.
    pub(super) fn try_begin(&mut self, key: RunKey) -> Result<bool, B::Error> {
        let workflow = self.run(key)?.workflow;
        let free = self.slots_for(workflow) > 0;
        let is_over = self.worklist.starts_left == 0;
        if !self.has_its_turn(key, workflow)? {
            return Ok(false);
        }
        let handles = self.is_of_handler(key);
        if !handles && self.is_held(key, workflow)? {
            return Ok(false);
        }
        let known = self.workflow(workflow)?;
        let limit = known.concurrency.filter(|_| !handles);
        if limit.is_some_and(|limit| known.active >= limit) {
            return Ok(false);
        }
        if !free || is_over {
            self.capacity.rescan = true;
            self.capacity.has_more |= free;
            return Ok(false);
        }
        if limit.is_some() {
            self.workflow_mut(workflow)?.active += 1;
        }
        if handles {
            self.workflow_mut(workflow)?.handling = Some(key);
            self.handler_begun(key)?;
        }
        self.worklist.starts_left -= 1;
        unless_refused(self.decide_run(key, Input::Begin))?;
        if let Some(schedule) = self.loaded.runs.get(key).and_then(|run| run.schedule) {
            self.load_schedule(schedule)?;
        }
        self.note_begun(key)?;
        Ok(true)
    }

    /// Whether a run waits because its workflow is paused.
    pub(super) fn is_held(&mut self, key: RunKey, workflow: WorkflowId) -> Result<bool, B::Error> {
        let is_held = TriggeredBy::HELD_BY_PAUSE.contains(&self.run(key)?.triggered_by);
        Ok(is_held && self.workflow(workflow)?.paused)
    }

    pub(super) fn is_of_handler(&self, key: RunKey) -> bool {
        self.loaded.runs.get(key).is_some_and(|run| run.handler.is_some())
    }

    /// Whether a run may begin with regard to handlers. A workflow runs one handler at a time, and
    /// none while it is paused unless a person asked for it. Runs of processes are not restricted.
    fn has_its_turn(&mut self, key: RunKey, workflow: WorkflowId) -> Result<bool, B::Error> {
        let run = self.run(key)?;
        let Some(name) = run.handler.clone() else { return Ok(true) };
        let is_asked_for = is_asked_for(run.triggered_by) || self.is_called_for(workflow, &name)?;
        let known = self.workflow(workflow)?;
        let (paused, handling) = (known.paused, known.handling);
        if paused && !is_asked_for {
            return Ok(false);
        }
        // The workflow is free, or occupied by this very run.
        let Some(other) = handling.filter(|other| *other != key) else { return Ok(true) };
        // A pending run cannot begin while the workflow is paused, so a run that a person asked for
        // goes first.
        Ok(paused && self.load_run(other)? && self.is_pending(other))
    }

    /// Updates the ledger when an occurrence that waited for a slot has started.
    fn note_begun(&mut self, key: RunKey) -> Result<(), B::Error> {
        let loaded = self.run_entity(key)?;
        // Only occurrences have rows in the ledger.
        let RunId::Occurrence { .. } = loaded.now.id else { return Ok(()) };
        // A run that was created in this turn and did not wait has its row already.
        if loaded.is_new && loaded.now.state.start_reason.is_none() {
            return Ok(());
        }
        let outcome = if self.is_moved(key) { Outcome::Moved } else { Outcome::Started };
        let now = self.context.moment.now;
        let run = self.run_mut(key)?;
        let reason = run.state.start_reason.take().unwrap_or_else(|| "due".to_owned());
        let waited = now.duration_since(run.created_at);
        let reason = if waited >= NOTABLE_WAIT {
            format!("{reason}; it had to wait for a free slot")
        } else {
            reason
        };
        self.record_run(key, outcome, reason.into())
    }

    /// Writes the ledger row of a run that has a slot, or that will never have one.
    pub(super) fn record_run(
        &mut self,
        key: RunKey,
        outcome: Outcome,
        reason: Cow<'static, str>,
    ) -> Result<(), B::Error> {
        let run = self.run(key)?;
        // A retry continues the row of its occurrence, and other runs have none.
        let (RunId::Occurrence { schedule, n, retry: 0 }, Some(nominal), Some(effective)) =
            (&run.id, run.nominal, run.effective)
        else {
            return Ok(());
        };
        self.record(Entry {
            schedule: *schedule,
            n: *n,
            count: 1,
            nominal,
            last_nominal: nominal,
            effective,
            decided_at: self.context.moment.now,
            outcome,
            reason,
            run: Some(key),
        });
        Ok(())
    }

    /// Whether the run's occurrence was moved to another time. The spread does not count as a move.
    fn is_moved(&self, key: RunKey) -> bool {
        let Some(run) = self.loaded.runs.get(key) else { return false };
        // A run without a schedule or without times belongs to no occurrence.
        let (Some(id), Some(nominal), Some(effective)) = (run.schedule, run.nominal, run.effective)
        else {
            return false;
        };
        // Without the schedule, which may be deleted, the spread is not known.
        let Some(schedule) = self.loaded.schedules.get(id).filter(|_| nominal != effective) else {
            return nominal != effective;
        };
        let Schedule { declared, progress, .. } = &**schedule;
        let plan = declared.plan(self.context.rules, progress.anchor, &id.to_string());
        plan.is_ok_and(|plan| {
            let plain = effective.checked_sub(plan.timing.moved_by()).unwrap_or(effective);
            plain != nominal
        })
    }

    /// Begins a run that was just created, or records that it waits for a slot. If older runs may
    /// be waiting, they go first: `fill_slots` begins them, and then this one. A handler's run does
    /// not wait for those, only for its workflow's turn.
    pub(super) fn begin_or_wait(&mut self, key: RunKey) -> Result<(), B::Error> {
        if !self.is_pending(key) {
            return Ok(());
        }
        if !self.is_of_handler(key) && self.capacity.free_slots > 0 {
            // Others may wait for the workflow's limit that this turn does not know of yet.
            let workflow = self.run(key)?.workflow;
            self.capacity.rescan |= self.workflow(workflow)?.concurrency.is_some();
            if self.capacity.rescan {
                return Ok(());
            }
        }
        if !self.try_begin(key)? {
            self.note_waiting(key)?;
        }
        Ok(())
    }

    /// Updates the ledger: the occurrence has its run, but no slot yet.
    pub(super) fn note_waiting(&mut self, key: RunKey) -> Result<(), B::Error> {
        let run = self.run(key)?;
        // A retry continues the row of its occurrence, and other runs have none.
        let RunId::Occurrence { schedule, n, retry: 0 } = run.id else { return Ok(()) };
        if run.state.start_reason.is_some() {
            return Ok(());
        }
        // A run that an earlier turn created has its row already.
        let Some(entry) = self.ledger_entry(schedule, n) else { return Ok(()) };
        let reason = std::mem::take(&mut entry.reason);
        entry.outcome = Outcome::Queued;
        entry.reason = format!("{reason}; it waits for a free slot").into();
        self.run_mut(key)?.state.start_reason = Some(reason.into_owned());
        Ok(())
    }

    /// Decides one input to a run. Consequences for other entities go to the worklist.
    pub(super) fn decide_run(
        &mut self,
        key: RunKey,
        input: Input,
    ) -> Result<Decided, Stop<run::Refusal, B::Error>> {
        if !self.load_run(key)? {
            let refusal = run::Refusal::WrongStatus { verb: "find", status: RunStatus::Cancelled };
            return refuse(refusal);
        }
        self.deciding = Some(Wakeup::Run(key));
        if self.reader.is_exhausted() {
            self.worklist.starts_left = 0;
        }
        let run = self.run(key)?;
        let (workflow, version, handler) = (run.workflow, run.version, run.handler.clone());
        let handler = handler.as_deref();
        let definition = match input {
            Input::Cancel { .. } => self.process_to_cancel(workflow, version, handler)?,
            _ => self.process(workflow, version, handler)?,
        };
        let mutation = match handler {
            Some(_) => self.mutation_status(key)?,
            None => None,
        };
        let is_paused = definition.has_pausable_deadline()
            && self.load_workflow(workflow)?.is_some_and(|workflow| workflow.paused);
        let closed = self.closed_topics(key, &definition)?;
        let slots = self.slots_for(workflow);
        let mut free = slots;
        let entity = self.loaded.runs.loaded_mut(key);
        let entity = entity.ok_or_else(|| not_there::<B::Error>(key))?;
        let (before, had_ended) = (entity.now.status, entity.now.status.has_ended());
        let (now, node) = (self.context.moment.now, self.context.node);
        let steps_changed = !matches!(input, Input::Heartbeat { .. });
        let is_offer = matches!(input, Input::Arrived { .. });
        let said_by = match &input {
            Input::Resolve { by, .. } => Some(by.clone()),
            _ => None,
        };
        let history = LoadedHistory::new(self.reader, key, &entity.notes.records);
        let mut history = history.with_closed(&closed);
        let starts_left = &mut self.worklist.starts_left;
        // Each decision looks at every active part, so a decision about many counts as several.
        *starts_left = starts_left.saturating_sub(entity.now.state.active.len() / PARTS);
        let ends_noops = self.capacity.ends_noops;
        let capacity = NodeCapacity { node, free: &mut free, starts_left, is_paused, ends_noops };
        let mut decision = run::decide(
            &mut entity.now,
            &definition,
            self.context.rules,
            input,
            now,
            capacity,
            &mut history,
        )?;
        let taken = slots.saturating_sub(free);
        if is_offer && !decision.took_event {
            return Ok(Decided::default());
        }
        if self.context.is_traced {
            trace_attempts(&mut self.output.spans, &entity.now, &definition, &decision);
        }
        entity.touch(Change::Progress);
        entity.notes.keep(&mut decision, steps_changed);
        if entity.now.is_ready() {
            self.capacity.rescan = true;
            self.capacity.has_more |= self.worklist.starts_left == 0;
        }
        let has_ended = entity.now.status.has_ended() && !had_ended;
        let retryability = decision.retryability;
        let decided = Decided {
            took_event: decision.took_event,
            claimed: decision.claimed,
            is_ending: decision.is_ending,
        };
        self.take_slots(workflow, taken);
        self.follow(key, decision)?;
        if handler.is_some() {
            self.after_phase(key, before, mutation, said_by)?;
        }
        if has_ended {
            self.run_has_ended(key, retryability)?;
        }
        Ok(decided)
    }
}

/// What a decision about a run returns to its caller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decided {
    /// Whether the run has taken the event that was offered to it.
    pub(super) took_event: bool,
    /// The attempt that a worker has claimed.
    pub(super) claimed: Option<u32>,
    /// Whether the worker that sent a heartbeat has to stop its attempt, because the run is ending.
    pub(super) is_ending: bool,
}
