//! What people do with a schedule: pause, resume, revive, edit, start, backfill.

use calendar::{Rule, TimingSpec};
use jiff::{SignedDuration, Timestamp};
use language::policy::overlap::{IfBusy, Overlap};
use language::schedule::{Declared, LARGEST_QUEUE, Plan};

use super::refusal::Refusal;
use super::upcoming::{Due, just_before, overdue_once};
use super::{Active, Decider, Numbered, Schedule, Start, Status};

/// The maximum number of active runs of one schedule that were started by hand. Each is stored in
/// the schedule's row, which is rewritten whenever one begins or ends.
pub(super) const MOST_BY_HAND: usize = 1_000;

impl Decider<'_, '_> {
    fn require(&self, verb: &'static str, allowed: &[Status]) -> Result<(), Refusal> {
        let status = self.schedule.status;
        if allowed.contains(&status) { Ok(()) } else { Err(Refusal::WrongStatus { verb, status }) }
    }

    pub(super) fn pause(&mut self) -> Result<(), Refusal> {
        self.require("pause", &[Status::Active])?;
        self.schedule.progress.next = None;
        self.drop_waiting("the schedule was paused");
        self.set_status(Status::Paused);
        Ok(())
    }

    pub(super) fn resume(&mut self, catch_up: bool) -> Result<(), Refusal> {
        self.require("resume", &[Status::Paused])?;
        self.set_status(Status::Active);
        if catch_up {
            self.schedule.progress.next = self.next_after(self.schedule.progress.mark);
        } else {
            self.begin_again();
        }
        self.finish_if_exhausted();
        Ok(())
    }

    pub(super) fn revive(&mut self) -> Result<(), Refusal> {
        self.require("revive", &[Status::Done, Status::Dead])?;
        let after = self.now().max(self.schedule.progress.mark);
        if self.upcoming().after(after).is_none() {
            return Err(Refusal::NoNextTime);
        }
        // A revived schedule has all its repeats available again.
        let is_used_up =
            self.schedule.status == Status::Done || self.schedule.has_reached_its_limit();
        self.bring_to_life(is_used_up);
        self.begin_again();
        Ok(())
    }

    /// Makes the schedule active again and clears its earlier errors.
    fn bring_to_life(&mut self, counts_anew: bool) {
        self.set_status(Status::Active);
        let progress = &mut self.schedule.progress;
        progress.current_retry = 0;
        progress.last_error = None;
        if counts_anew {
            progress.current_repeat = 0;
        }
    }

    /// Continues from now on: an interval counts from now, other rules continue with their next
    /// time.
    fn begin_again(&mut self) {
        let now = self.now();
        let progress = &mut self.schedule.progress;
        progress.anchor = now;
        progress.mark = progress.mark.max(now);
        self.schedule.progress.next = self.next_after(self.schedule.progress.mark);
    }

    /// The next occurrence after the instant, if the repeat limit allows one.
    pub(super) fn next_after(&self, after: Timestamp) -> Option<Due> {
        self.schedule.next_after(self.context.plan, self.context.overrides, after)
    }

    pub(super) fn edit(&mut self, declared: Box<Declared>) {
        let now = self.now();
        let moved = declared.timing != self.schedule.declared.timing;
        let limit_changed = declared.total_repeats != self.schedule.declared.total_repeats;
        let was_over = matches!(self.schedule.status, Status::Done | Status::Dead);
        self.schedule.progress.anchor = self.schedule.anchor_after_edit(&declared, now);
        let before = std::mem::replace(&mut self.schedule.declared, declared);
        self.schedule.updated_at = now;
        if moved {
            self.schedule.progress.mark = self.schedule.progress.mark.max(now);
        }
        if (moved || limit_changed) && self.schedule.status == Status::Active {
            self.schedule.progress.next = match self.schedule.progress.next {
                // An interval from completion that is already counting stays as it is.
                Some(next) if self.follows_completion() && !moved => {
                    Some(next).filter(|_| !self.schedule.has_reached_its_limit())
                }
                _ => match self.next_after(self.schedule.progress.mark) {
                    None if moved => self.overdue(),
                    next => next,
                },
            };
            self.end_at_limit();
            self.finish_if_exhausted();
        }
        if was_over {
            self.renew(&before);
        }
    }

    /// Makes a done or dead schedule active again if the edit gives it a future: another rule or
    /// other bounds with a time to come, or a higher repeat limit. After any other edit it stays
    /// done or dead.
    fn renew(&mut self, before: &Declared) {
        let declared = &self.schedule.declared;
        let moved = declared.timing != before.timing;
        let raised = match (before.total_repeats, declared.total_repeats) {
            (0, _) => false,
            (_, 0) => true,
            (before, after) => after > before,
        };
        if !moved && !raised {
            return;
        }
        // A new rule has all its repeats available. New bounds of the same rule give no new
        // repeats.
        let is_used_up = self.schedule.has_reached_its_limit();
        let counts_anew = is_used_up && !same_rule(&declared.timing, &before.timing);
        if !is_used_up || counts_anew {
            self.live_again_if_it_can(counts_anew);
        }
    }

    /// Makes a done or dead schedule active again if its rule has a time to come.
    fn live_again_if_it_can(&mut self, counts_anew: bool) {
        let after = self.now().max(self.schedule.progress.mark);
        if self.upcoming().after(after).is_none() {
            return;
        }
        self.bring_to_life(counts_anew);
        self.schedule.progress.mark = after;
        self.schedule.progress.next = self.next_after(after);
        self.schedule.progress.renewed_at = Some(self.now());
    }

    /// A rule with a single time that has already passed is due now.
    fn overdue(&mut self) -> Option<Due> {
        let is_over = self.schedule.has_reached_its_limit();
        let due = overdue_once(self.context.plan).filter(|_| !is_over)?;
        self.schedule.progress.mark = just_before(due.effective);
        Some(due)
    }

    /// Recomputes the next time after calendars or zones have changed.
    pub(super) fn recompute(&mut self) {
        let counts = self.follows_completion();
        if self.schedule.status == Status::Active && !counts {
            let next = self.next_after(self.schedule.progress.mark);
            if next != self.schedule.progress.next {
                self.schedule.progress.next = next;
                self.schedule.progress.recomputed_at = Some(self.now());
            }
            self.finish_if_exhausted();
        }
        // A calendar without any working time leaves a rule without a next time. When the calendar
        // is corrected, the schedule goes on.
        if self.schedule.status == Status::Done && !self.schedule.has_reached_its_limit() {
            self.live_again_if_it_can(false);
        }
    }

    /// Starts a run by hand, which is no occurrence. It runs beside active runs and in every
    /// status, and does not affect queued occurrences or retries.
    pub(super) fn start_by_hand(&mut self, if_busy: IfBusy) -> Result<(), Refusal> {
        let active = &self.schedule.progress.active;
        let may_refuse =
            if_busy == IfBusy::Refuse && self.schedule.declared.overlap != Overlap::Allow;
        if may_refuse && !active.is_empty() {
            return Err(Refusal::Busy(active.iter().find_map(Active::run)));
        }
        let by_hand = active.iter().filter(|active| matches!(active, Active::ByHand { .. }));
        if by_hand.count() >= MOST_BY_HAND {
            return Err(Refusal::TooManyByHand);
        }
        let run = (self.context.new_key)();
        self.decision.starts.push(Start { run, occurrence: None });
        self.schedule.progress.active.push(Active::ByHand { run });
        self.schedule.progress.last_run_at = Some(self.now());
        Ok(())
    }

    pub(super) fn backfill(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        limit: u32,
        pace: Option<SignedDuration>,
        passed_over: &[Timestamp],
    ) -> Result<(), Refusal> {
        self.require("backfill", &[Status::Active, Status::Paused, Status::Done])?;
        let limit = limit.min(LARGEST_QUEUE);
        let (plan, now) = (self.context.plan, self.now());
        let mut found = self.schedule.backfilled(plan, (from, to), now, limit)?;
        found.retain(|due| !passed_over.contains(&due.nominal));
        let waiting = self.schedule.progress.queued.len();
        if found.len() + waiting > LARGEST_QUEUE as usize {
            return Err(Refusal::QueueFull { waiting });
        }
        for (index, due) in found.into_iter().enumerate() {
            let occurrence = Numbered { backfilled: true, ..self.number(due, 0) };
            self.enqueue_paced(occurrence, index, pace);
        }
        self.start_queued();
        // While the workflow is paused, queued occurrences are dropped. One of them may have been
        // the last.
        self.finish_if_exhausted();
        Ok(())
    }
}

impl Schedule {
    /// The occurrences in the range, including both ends, that a backfill makes up for. Those after
    /// the mark are not among them while the schedule is active or paused: the next turn or the
    /// resumption decides over them, and would start them a second time.
    pub fn backfilled(
        &self,
        plan: &Plan,
        (from, to): (Timestamp, Timestamp),
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Due>, Refusal> {
        let end = match self.status {
            Status::Active | Status::Paused => now.min(self.progress.mark),
            Status::Done | Status::Dead => now,
        };
        let found = backfilled(plan, from, to.min(end), limit);
        let is_cut = found == Err(Refusal::NothingThere) && self.status == Status::Paused;
        if is_cut && backfilled(plan, from, to.min(now), limit) != Err(Refusal::NothingThere) {
            return Err(Refusal::WhilePaused);
        }
        found
    }

    /// The instant from which intervals count after this declaration. A new rule counts from now;
    /// new bounds of the same rule do not move its times.
    pub fn anchor_after_edit(&self, declared: &Declared, now: Timestamp) -> Timestamp {
        let is_same = same_rule(&declared.timing, &self.declared.timing);
        if is_same { self.progress.anchor } else { now }
    }
}

/// Whether two timings have the same rule, regardless of bounds and adjustments.
fn same_rule(one: &TimingSpec, other: &TimingSpec) -> bool {
    let rule = |timing: &TimingSpec| TimingSpec {
        timezone: None,
        calendar: None,
        roll: None,
        fit: None,
        start: None,
        end: None,
        spread: None,
        ..timing.clone()
    };
    rule(one) == rule(other)
}

/// The occurrences in the range, including both ends.
fn backfilled(
    plan: &Plan,
    from: Timestamp,
    to: Timestamp,
    limit: u32,
) -> Result<Vec<Due>, Refusal> {
    // A rule that counts from the end of a run has no times other than the next one.
    if matches!(plan.timing.rule(), Rule::AfterCompletion(_)) {
        return Err(Refusal::NothingThere);
    }
    let due = plan.timing.after(just_before(from)).map(Due::from);
    let due = due.skip_while(|due| due.effective < from).take_while(|due| due.effective <= to);
    let found: Vec<Due> = due.take(limit as usize + 1).collect();
    match found.len() {
        0 => Err(Refusal::NothingThere),
        n if n > limit as usize => Err(Refusal::TooMany { limit }),
        _ => Ok(found),
    }
}
