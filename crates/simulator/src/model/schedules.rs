//! Checks schedules: states, counters, retries, and who may start what.

use std::collections::BTreeSet;

use calendar::TimingSpec;
use engine::ledger::Outcome;
use engine::run::{RunStatus, TriggeredBy};
use engine::schedule::Status::{self, Active, Dead, Done, Paused};
use engine::turn::{Command, Verb};
use language::policy::overlap::Overlap;
use language::policy::retry::OnExhausted;
use language::schedule::Declared;

use super::commit::Touched;
use super::kept::{Going, kept_for, read};
use super::{Cause, Checked, Kept, Model, broken};
use crate::watch::{RunRow, ScheduleRow};

/// Codes in an error that say that a retry does not help.
const FOR_GOOD: [&str; 12] = [
    "\"refused\"",
    "\"result\"",
    "\"topic\"",
    "\"unknown_outcome\"",
    "\"rejected\"",
    "\"deadline\"",
    "\"expression\"",
    "\"no_route\"",
    "\"output\"",
    "\"too_many_jumps\"",
    "the run it started was cancelled",
    "the run could not be started",
];

impl Model {
    /// Takes over a changed row: the new declaration, and from when on it counts.
    pub(super) fn adopt(&mut self, cause: &Cause, now: i64, row: ScheduleRow) -> Checked {
        let rules = self.rules.clone();
        let Some(kept) = self.schedules.get_mut(&row.id) else { return Ok(()) };
        let old = std::mem::replace(&mut kept.row, row);
        let declared = read(&kept.row)?;
        let is_moved = declared.timing != kept.declared.timing;
        let before = std::mem::replace(&mut kept.declared, declared);
        kept.retention = kept_for(&kept.declared);
        let id = old.id;
        kept.tell(cause, &old)?;
        if old.declared != kept.row.declared && !matches!(cause, Cause::Command(_)) {
            return broken("declared", format!("schedule {id} was edited without a command"));
        }
        if is_moved {
            // Other bounds of the same rule do not move the times of an interval.
            let is_same = rule_of(&kept.declared.timing) == rule_of(&before.timing);
            let anchor = if is_same { kept.anchor } else { now };
            kept.anchor_at(&rules, anchor)?;
            kept.count_anew(now);
            // Another rule has days off of its own.
            kept.days_off.clear();
            if old.status == Active && !kept.is_exhausted() {
                kept.late_once();
            }
        }
        let catches_up = matches!(
            cause,
            Cause::Command(command)
                if matches!(**command, Command::PauseWorkflow { .. } | Command::ControlSchedule {
                    verb: Verb::Resume { catch_up: true }, ..
                })
        );
        match (old.status, kept.row.status) {
            (Paused, Active | Done) if catches_up => {
                kept.counts_from = kept.is_idle().then_some(kept.cursor);
            }
            (Paused, Active | Done) => {
                kept.anchor_at(&rules, now)?;
                kept.count_anew(now);
            }
            (Done | Dead, Active) if is_edit(cause) => {
                if kept.is_exhausted() {
                    kept.counted = 0;
                }
                kept.count_anew(now);
            }
            (Done | Dead, Done | Dead) if is_edit(cause) && kept.has_a_future(&before, now) => {
                return broken("states", format!("schedule {id} has a future, and is over"));
            }
            (Done | Dead, Active) => {
                if old.status == Done || kept.is_exhausted() {
                    kept.counted = 0;
                }
                kept.anchor_at(&rules, now)?;
                kept.count_anew(now);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether someone changes the declaration.
fn is_edit(cause: &Cause) -> bool {
    let Cause::Command(command) = cause else { return false };
    !matches!(**command, Command::ControlSchedule { .. })
}

impl Kept {
    /// Whether an edit revives a schedule that is over. In the simulated world limits are raised
    /// and rules are replaced. A time in the past does not revive it.
    fn has_a_future(&self, before: &Declared, now: i64) -> bool {
        let is_moved = self.declared.timing != before.timing;
        let (old, new) = (before.total_repeats, self.declared.total_repeats);
        let is_raised = old > 0 && (new == 0 || new > old);
        let after = crate::clock::instant(self.cursor.max(now));
        let comes = self.timing.next_after(after).is_some();
        comes && (is_moved || is_raised && !self.is_exhausted())
    }

    /// Checks that only a command or a change of status updates the schedule.
    fn tell(&mut self, cause: &Cause, old: &ScheduleRow) -> Checked {
        let row = &self.row;
        let by_command = matches!(cause, Cause::Command(_));
        if row.updated_at != old.updated_at && !by_command && row.status == old.status {
            return broken("states", format!("schedule {} was changed by nobody", old.id));
        }
        let told = |row: &ScheduleRow| row.updated_at.max(row.recomputed_at.unwrap_or(i64::MIN));
        self.told_at = if by_command {
            Some(told(old).max(told(row)))
        } else {
            Some(told(old)).filter(|_| !self.is_outdated)
        };
        Ok(())
    }

    fn count_anew(&mut self, now: i64) {
        self.cursor = self.cursor.max(now);
        self.counts_from = self.is_idle().then_some(self.cursor);
    }

    /// A run of the schedule has ended.
    pub(super) fn settle(&mut self, now: i64, run: &RunRow, touched: &mut Touched) -> Checked {
        let Some(n) = run.n else {
            self.by_hand.remove(&run.key);
            return Ok(());
        };
        let known = self.active.remove(&n);
        if known.as_ref().is_none_or(|going| going.run != Some(run.key)) {
            let id = self.row.id;
            return broken("overlap", format!("schedule {id}: {run:?} ended, expected {known:?}"));
        }
        match run.status {
            RunStatus::Succeeded => {
                self.run_count += 1;
                self.counted += u64::from(!self.made_up.contains(&n));
            }
            RunStatus::Failed | RunStatus::TimedOut => self.failed(now, n, run, touched)?,
            _ => {}
        }
        Ok(())
    }

    /// Checks that the schedule is dead exactly if the retries are exhausted or cannot help, and
    /// otherwise retries.
    fn failed(&mut self, now: i64, n: u64, run: &RunRow, touched: &mut Touched) -> Checked {
        self.error_count += 1;
        let id = self.row.id;
        let outcome = touched.ledger.iter().find(|(number, _)| *number == n);
        let outcome = outcome.and_then(|(_, row)| row.as_ref()).map(|row| row.outcome);
        let error = run.error.as_deref().unwrap_or_default();
        let cannot_heal = FOR_GOOD.iter().any(|code| error.contains(code));
        let gives_up = cannot_heal || run.retry >= self.declared.max_retries();
        if touched.before != Active || gives_up {
            touched.gave_up |= touched.before == Active;
            if outcome != Some(Outcome::Failed) {
                let message = format!("schedule {id}: occurrence {n} failed for good: {outcome:?}");
                return broken("retries", message);
            }
        } else if touched.after == Active {
            let (earliest, latest) = self.retry_delay(run.retry + 1);
            let at = (now + earliest, now + latest);
            self.active.insert(n, Going { retry: run.retry + 1, run: None, at });
        } else if !matches!(outcome, Some(Outcome::Failed | Outcome::Dropped)) {
            let message = format!(
                "schedule {id} is {}, and occurrence {n} is left to be retried",
                touched.after.name()
            );
            return broken("retries", message);
        }
        Ok(())
    }

    /// Checks the runs that were created for the schedule, in their order. One that ended in the
    /// same commit is settled before the next one begins.
    pub(super) fn take_created(
        &mut self,
        cause: &Cause,
        now: i64,
        touched: &mut Touched,
    ) -> Checked {
        for run in std::mem::take(&mut touched.created) {
            let run = &run;
            match (run.n, run.triggered_by) {
                (Some(n), _) => {
                    self.may_start(cause, n, touched)?;
                    self.started(now, n, run, touched)?;
                }
                // A new producer is due at once.
                (None, TriggeredBy::Schedule) if run.handler.is_some() => {
                    self.by_hand.insert(run.key);
                }
                (None, TriggeredBy::Manual) => {
                    self.by_hand.insert(run.key);
                }
                (None, TriggeredBy::Retry) => {}
                (None, _) => {
                    return broken("ledger", format!("{run:?} is of no occurrence"));
                }
            }
            if run.status.has_ended() {
                self.settle(now, run, touched)?;
            }
        }
        Ok(())
    }

    /// Checks that paused, done and dead schedules start only what someone asks for.
    fn may_start(&self, cause: &Cause, n: u64, touched: &Touched) -> Checked {
        let asked_for = matches!(cause, Cause::Command(_)) || self.made_up.contains(&n);
        let id = self.row.id;
        if touched.before != Active && touched.after != Active && !asked_for {
            let status = touched.after.name();
            return broken("paused", format!("schedule {id} is {status} and starts {n}"));
        }
        if touched.on_hold && !asked_for {
            return broken("paused", format!("the workflow is paused, schedule {id} starts {n}"));
        }
        Ok(())
    }

    fn started(&mut self, now: i64, n: u64, run: &RunRow, touched: &Touched) -> Checked {
        let id = self.row.id;
        if run.retry > 0 {
            let waits = Going { retry: run.retry, run: None, at: (0, 0) };
            let known = self.active.get(&n);
            let is_due = known.is_some_and(|going| {
                let at = going.at;
                Going { at: (0, 0), ..going.clone() } == waits && at.0 <= now
            });
            if !is_due {
                let message =
                    format!("schedule {id}: retry {} of {n} at {now}: {known:?}", run.retry);
                return broken("retries", message);
            }
        } else {
            let has_row = touched.ledger.iter().any(|(number, row)| {
                *number == n && row.as_ref().is_some_and(|row| row.run == Some(run.key))
            });
            if !has_row {
                return broken("ledger", format!("schedule {id}: run of {n} is in no row"));
            }
        }
        let others = self.active.keys().filter(|number| **number != n).count();
        let side_by_side = others > 0 || !self.by_hand.is_empty();
        if side_by_side && run.retry == 0 && self.declared.overlap != Overlap::Allow {
            let message = format!("schedule {id} starts {n} beside {:?}", self.active);
            return broken("overlap", message);
        }
        let going = Going { retry: run.retry, run: Some(run.key), at: (0, 0) };
        self.active.insert(n, going);
        Ok(())
    }

    /// An interval after completion counts from when nothing is active any more.
    pub(super) fn count_from_completion(&mut self, now: i64) {
        let idle = self.is_idle();
        if self.counts_from.is_none() && idle && self.row.status == Active {
            self.counts_from = Some(now);
        }
    }

    /// Checks the stored row against all that has happened.
    pub(super) fn check_row(&self, cause: &Cause, touched: &Touched) -> Checked {
        let (id, row) = (self.row.id, &self.row);
        if row.n != self.next_n {
            let message =
                format!("schedule {id}: the next number is {}, not {}", self.next_n, row.n);
            return broken("ledger", message);
        }
        self.check_states(cause, touched)?;
        if row.next != self.next && !self.is_due_next(row.next) {
            let message = format!("schedule {id}: next {:?}, expected {:?}", row.next, self.next);
            return broken("next", message);
        }
        if row.mark != self.cursor {
            let message = format!("schedule {id}: mark {}, expected {}", row.mark, self.cursor);
            return broken("mark", message);
        }
        let counters = (row.run_count, row.current_repeat, row.error_count);
        let expected = (self.run_count, self.counted, self.error_count);
        if counters != expected {
            let message = format!("schedule {id}: {counters:?}, expected {expected:?}");
            return broken("counters", message);
        }
        self.check_live()
    }

    fn check_states(&self, cause: &Cause, touched: &Touched) -> Checked {
        let by_command = matches!(cause, Cause::Command(_));
        let verb = match cause {
            Cause::Command(command) => match &**command {
                Command::ControlSchedule { verb, .. } => Some(*verb),
                _ => None,
            },
            _ => None,
        };
        let busy_failure = touched.ledger.iter().any(|(_, row)| {
            row.as_ref().is_some_and(|row| row.outcome == Outcome::Failed && row.run.is_none())
        });
        let (before, after) = (touched.before, touched.after);
        let is_over = self.next.is_none() && self.is_idle();
        let pauses = self.declared.pause_on_failure;
        let goes_on = !pauses && self.declared.on_exhausted() == OnExhausted::Continue;
        let legal = match (before, after) {
            (Active, Active) => !touched.gave_up || goes_on,
            (Active, Paused) => by_command || touched.gave_up && pauses,
            (Active, Dead) => busy_failure || touched.gave_up && !pauses && !goes_on,
            (Active | Paused, Done) => is_over && (before == Active || by_command),
            (Paused, Active) => by_command && verb != Some(Verb::Revive),
            (Done | Dead, Active) => verb == Some(Verb::Revive) || is_edit(cause),
            (Paused, Paused) | (Done, Done) | (Dead, Dead) => true,
            // A definition may revive a trigger and disable it at once.
            (Done | Dead, Paused) => is_edit(cause),
            (Paused | Done, Dead) | (Dead, Done) => false,
        };
        let (id, from, to) = (self.row.id, before.name(), after.name());
        if !legal {
            let message =
                format!("schedule {id} went from {from} to {to}, gave up: {}", touched.gave_up);
            return broken("states", message);
        }
        if self.row.status == Status::Active && is_over {
            return broken("states", format!("schedule {id} is active, but nothing can come"));
        }
        Ok(())
    }

    /// Checks what the schedule's own row says is active and queued.
    fn check_live(&self) -> Checked {
        let live = self.row.live.as_deref().unwrap_or("[[],[]]");
        let live: serde_json::Value = serde_json::from_str(live).unwrap_or_default();
        let numbers = |part: usize, path: &str| -> BTreeSet<u64> {
            let all = live[part].as_array().map(Vec::as_slice).unwrap_or_default();
            let of = |item: &serde_json::Value| item.pointer(path).and_then(|n| n.as_u64());
            all.iter().filter_map(of).collect()
        };
        let mut active = numbers(0, "/r/o/n");
        active.extend(numbers(0, "/w/o/n"));
        let queued = numbers(1, "/occurrence/n");
        let expected: BTreeSet<u64> = self.active.keys().copied().collect();
        let waiting: BTreeSet<u64> = self.queued.keys().copied().collect();
        if active != expected || queued != waiting {
            let message = format!(
                "schedule {}: active {active:?} and queued {queued:?}, expected {expected:?} and \
                 {waiting:?}",
                self.row.id
            );
            return broken("live", message);
        }
        Ok(())
    }
}

/// The timing without what bounds or moves its rule.
fn rule_of(timing: &TimingSpec) -> TimingSpec {
    TimingSpec {
        timezone: None,
        calendar: None,
        roll: None,
        fit: None,
        start: None,
        end: None,
        spread: None,
        ..timing.clone()
    }
}
