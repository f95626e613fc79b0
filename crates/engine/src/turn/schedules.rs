//! Schedules within a turn: their inputs, and the runs that follow.

use std::collections::BTreeMap;

use jiff::Timestamp;
use language::schedule::LARGEST_QUEUE;

use super::command::{NewRun, Refused};
use super::incidents::Failed;
use super::worklist::Work;
use super::{Change, Damaged, Notice, TransactionReader, Turn, Wakeup};
use crate::ids::{RunKey, ScheduleId};
use crate::ledger::Entry;
use crate::schedule::{self, DecideContext, Due, Input, Refusal, Status, Turning, Verdict};
use crate::stop::{Stop, refuse, unless_refused};

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn schedule_due(&mut self, id: ScheduleId) -> Result<(), B::Error> {
        // A deleted schedule has nothing due, and the input `Due` is never refused.
        unless_refused(self.decide_schedule(id, Input::Due, None))?;
        Ok(())
    }

    /// Decides one input to a schedule, and creates and cancels the runs that follow.
    pub(super) fn decide_schedule(
        &mut self,
        id: ScheduleId,
        input: Input,
        by_hand: Option<&NewRun>,
    ) -> Result<(), Stop<Refused, B::Error>> {
        if !self.load_schedule(id)? {
            return refuse(Refused::unknown_schedule(id));
        }
        self.deciding = Some(Wakeup::Schedule(id));
        let mut hold = self.hold(id)?;
        if matches!(input, Input::Due) && hold.is_none() && self.waits_for_its_turn(id)? {
            hold = Some("an earlier run of this producer waits for its workflow to be free");
        }
        let missing = || B::Error::from(Damaged(format!("schedule {id} is not there any more")));
        let entity = self.loaded.schedules.loaded_mut(id).ok_or_else(missing)?;
        let overrides =
            if entity.now.progress.has_overrides { self.reader.overrides(id)? } else { Vec::new() };
        let declared = match &input {
            Input::Edit(declared) => declared,
            _ => &entity.now.declared,
        };
        let anchor = match &input {
            Input::Edit(declared) => {
                entity.now.anchor_after_edit(declared, self.context.moment.now)
            }
            // The schedule continues from now on, so an interval counts from now.
            Input::Resume { catch_up: false } | Input::Revive => self.context.moment.now,
            _ => entity.now.progress.anchor,
        };
        // The last plan is of the declaration as it was.
        let last = entity.now.last_plan.take(anchor).filter(|_| !matches!(input, Input::Edit(_)));
        let spread_key = schedule::spread_key(declared, id);
        let rules = self.context.rules;
        let plan = match last.map_or_else(|| declared.plan(rules, anchor, &spread_key), Ok) {
            Ok(plan) => plan,
            Err(mistakes) if matches!(input, Input::Edit(_)) => {
                return refuse(Refused::Invalid(vec![(0, mistakes)]));
            }
            Err(mistakes) => {
                let ended = match &input {
                    Input::RunEnded { run, .. } => Some(*run),
                    _ => None,
                };
                self.unreadable(id, &mistakes, ended)?;
                return Ok(());
            }
        };
        let edits = matches!(input, Input::Edit(_));
        let old_status = entity.now.status;
        let ended = match &input {
            Input::RunEnded { run, .. } => Some(*run),
            _ => None,
        };
        let is_due = matches!(input, Input::Due);
        let (first_new, told_at) = (entity.now.progress.n, entity.now.updated_at);
        let mut new_key = || self.reader.new_run_key();
        let mut context = DecideContext {
            plan: &plan,
            overrides: &overrides,
            hold,
            moment: self.context.moment,
            new_key: &mut new_key,
        };
        let mut decision = match schedule::decide(&mut entity.now, input, &mut context) {
            Ok(decision) => decision,
            Err(refusal) => return refuse(self.refused(id, refusal)?),
        };
        let change = if edits { Change::Declaration } else { Change::Progress };
        entity.touch(change);
        entity.now.last_plan.keep(anchor, plan);
        let has_died = entity.now.status == Status::Dead && old_status != Status::Dead;
        let verdict = decision.verdict.take();
        if is_due {
            // Occurrences that were due before the schedule was declared, edited or resumed were
            // not missed.
            let awake_since = self.context.moment.awake_since;
            // An occurrence that is queued and started in the same decision has two entries. Only
            // the last one counts.
            let new = decision.ledger.iter().filter(|entry| entry.n >= first_new);
            let new = new.filter(|entry| entry.effective >= told_at);
            let new = new.filter(|entry| entry.effective < awake_since);
            let last: BTreeMap<u64, &Entry> = new.map(|entry| (entry.n, entry)).collect();
            last.values().for_each(|entry| self.output.writes.recovered.count(entry, awake_since));
        }
        self.carry_out(id, decision, by_hand, &overrides)?;
        match verdict {
            Some(Verdict::Failed { due, error }) => {
                let failed = Failed { run: ended, due: Some(due), error, has_died };
                self.schedule_failed(id, failed)?;
            }
            Some(Verdict::Succeeded) => self.schedule_succeeded(id, ended)?,
            None => {}
        }
        Ok(())
    }

    /// The occurrences of a range that a backfill runs, and the nominal times of those that it does
    /// not, because they have run or wait to run. With `again`, it runs all of them.
    pub(super) fn past_occurrences(
        &mut self,
        id: ScheduleId,
        (from, to): (Timestamp, Timestamp),
        limit: u32,
        again: bool,
    ) -> Result<(Vec<Due>, Vec<Timestamp>), B::Error> {
        // The decision that follows refuses a schedule that does not exist, a rule that cannot be
        // read and a range that is too large.
        if !self.load_schedule(id)? {
            return Ok(Default::default());
        }
        let schedule = self.schedule(id)?;
        let (key, anchor) = (schedule.spread_key(), schedule.progress.anchor);
        let Ok(plan) = schedule.declared.plan(self.context.rules, anchor, &key) else {
            return Ok(Default::default());
        };
        let limit = limit.min(LARGEST_QUEUE);
        let now = self.context.moment.now;
        let Ok(found) = schedule.backfilled(&plan, (from, to), now, limit) else {
            return Ok(Default::default());
        };
        if again {
            return Ok((found, Vec::new()));
        }
        let nominal: Vec<Timestamp> = found.iter().map(|due| due.nominal).collect();
        let ran = self.reader.ran_of(id, &nominal)?;
        let (left_out, accepted): (Vec<Due>, Vec<Due>) =
            found.into_iter().partition(|due| ran.contains(&due.nominal));
        Ok((accepted, left_out.iter().map(|due| due.nominal).collect()))
    }

    fn refused(&mut self, id: ScheduleId, refusal: Refusal) -> Result<Refused, B::Error> {
        Ok(match refusal {
            Refusal::Busy(run) => {
                let run = self.run_id(run)?;
                Refused::busy(format!("Schedule {id} is active already"), run)
            }
            other => Refused::Schedule(other),
        })
    }

    pub(super) fn run_id(
        &mut self,
        key: Option<RunKey>,
    ) -> Result<Option<crate::ids::RunId>, B::Error> {
        // A refusal may name no run, or one that is set aside.
        let Some(key) = key else { return Ok(None) };
        self.load_run(key)?;
        Ok(self.loaded.runs.get(key).map(|run| run.id.clone()))
    }

    /// Why no occurrence of this schedule can start at present.
    fn hold(&mut self, id: ScheduleId) -> Result<Option<&'static str>, B::Error> {
        let workflow = self.schedule(id)?.workflow;
        Ok(match self.load_workflow(workflow)? {
            None => Some("the workflow is gone"),
            Some(workflow) if workflow.paused => Some("the workflow is paused"),
            Some(workflow) if workflow.live.is_none() => Some("no version is published"),
            Some(_) => None,
        })
    }

    /// Whether the producer has a pending run. That run stands for all occurrences that are due
    /// meanwhile.
    fn waits_for_its_turn(&mut self, id: ScheduleId) -> Result<bool, B::Error> {
        let schedule = self.schedule(id)?;
        if schedule.producer().is_none() {
            return Ok(false);
        }
        let runs: Vec<RunKey> = schedule.progress.active.iter().filter_map(|a| a.run()).collect();
        for run in runs {
            self.load_run(run)?;
            if self.is_pending(run) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn carry_out(
        &mut self,
        id: ScheduleId,
        decision: schedule::Decision,
        by_hand: Option<&NewRun>,
        overrides: &[schedule::Override],
    ) -> Result<(), B::Error> {
        for entry in decision.ledger {
            self.record(entry);
        }
        for turning in decision.turnings {
            self.tell_turning(id, turning)?;
        }
        for key in decision.cancels {
            let reason = "cancelled: a later occurrence takes its place".to_owned();
            self.worklist.add(Work::Tell(key, crate::run::Input::Cancel { reason }));
        }
        for start in decision.starts {
            self.create_scheduled_run(id, &start, by_hand, overrides)?;
        }
        Ok(())
    }

    /// Makes a schedule dead whose declaration can no longer be read because a calendar or a zone
    /// is gone. Otherwise its wakeup would come due again and again.
    fn unreadable(
        &mut self,
        id: ScheduleId,
        mistakes: &[calendar::Mistake],
        ended: Option<RunKey>,
    ) -> Result<(), B::Error> {
        let now = self.context.moment.now;
        let schedule = self.schedule_mut(id, Change::Declaration)?;
        let first = mistakes.first().map(|m| format!("{}: {}", m.path, m.problem.message));
        let error = format!("the rule cannot be read any more: {}", first.unwrap_or_default());
        let has_died = schedule.status != Status::Dead;
        schedule.progress.last_error = Some(error.clone());
        schedule.progress.next = None;
        let dropped = schedule.forget_waiting(ended, now, "the schedule's rule cannot be read");
        schedule.status = Status::Dead;
        schedule.updated_at = now;
        for entry in dropped {
            self.record(entry);
        }
        if has_died {
            self.tell_turning(id, Turning::Died { reason: error.clone() })?;
        }
        self.schedule_failed(id, Failed { run: None, due: None, error, has_died })
    }

    /// Adds a notice that observers receive after the commit.
    fn tell_turning(&mut self, id: ScheduleId, turning: Turning) -> Result<(), B::Error> {
        let schedule = self.schedule(id)?;
        let (name, workflow) = (schedule.declared.name.clone(), schedule.workflow);
        self.output.notices.push(Notice::Turning { schedule: id, name, workflow, turning });
        Ok(())
    }

    /// The last ledger row that this turn wrote about an occurrence.
    pub(super) fn ledger_entry(&mut self, id: ScheduleId, n: u64) -> Option<&mut Entry> {
        self.output
            .writes
            .ledger
            .iter_mut()
            .rev()
            .find(|entry| entry.schedule == id && entry.n == n)
    }
}
