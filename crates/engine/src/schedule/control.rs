//! What people do with a schedule: pause, resume, revive, edit, start, backfill.

use calendar::Rule;
use jiff::{SignedDuration, Timestamp};

use super::declared::{Declared, LARGEST_QUEUE};
use super::refusal::Refusal;
use super::upcoming::{Due, just_before, overdue_once};
use super::{Active, Decider, Start, Status};
use crate::policy::overlap::Overlap;

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
        // A new life has all its repeats before it.
        let is_used_up = self.schedule.status == Status::Done || self.remaining() == Some(0);
        self.set_status(Status::Active);
        let progress = &mut self.schedule.progress;
        progress.current_retry = 0;
        progress.last_error = None;
        if is_used_up {
            (progress.repeats, progress.current_repeat) = (0, 0);
        }
        self.begin_again();
        Ok(())
    }

    /// From now on: an interval counts from here, other rules go on with their next time.
    fn begin_again(&mut self) {
        let now = self.now();
        let progress = &mut self.schedule.progress;
        progress.anchor = now;
        progress.mark = progress.mark.max(now);
        self.schedule.progress.next = self.next_after(self.schedule.progress.mark);
    }

    /// The next time after the instant, if the repeat limit allows one.
    fn next_after(&self, after: Timestamp) -> Option<Due> {
        let progress = &self.schedule.progress;
        let is_idle = progress.active.is_empty() && progress.queued.is_empty();
        let next = match self.follows_completion() {
            // It counts from the end of what is going on, and nothing of it can be moved.
            true if !is_idle => None,
            true => self.situation.plan.timing.next_after(after).map(Due::from),
            false => self.upcoming().after(after),
        };
        next.filter(|_| self.remaining() != Some(0))
    }

    pub(super) fn edit(&mut self, declared: Box<Declared>) {
        let now = self.now();
        let moved = declared.timing != self.schedule.declared.timing;
        let limit_changed = declared.total_repeats != self.schedule.declared.total_repeats;
        self.schedule.declared = declared;
        self.schedule.updated_at = now;
        if moved {
            self.schedule.progress.anchor = now;
            self.schedule.progress.mark = self.schedule.progress.mark.max(now);
        }
        if (moved || limit_changed) && self.schedule.status == Status::Active {
            self.schedule.progress.next = match self.schedule.progress.next {
                // An interval from completion that counts already goes on as it was.
                Some(next) if self.follows_completion() && !moved => {
                    Some(next).filter(|_| self.remaining() != Some(0))
                }
                _ => match self.next_after(self.schedule.progress.mark) {
                    None if moved => self.overdue(),
                    next => next,
                },
            };
            self.finish_if_exhausted();
        }
    }

    /// A time that is due once and already past is due now.
    fn overdue(&mut self) -> Option<Due> {
        let due = overdue_once(self.situation.plan).filter(|_| self.remaining() != Some(0))?;
        self.schedule.progress.mark = just_before(due.effective);
        Some(due)
    }

    /// The rule is the same, but what it means has changed.
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
    }

    pub(super) fn start_by_hand(&mut self) -> Result<(), Refusal> {
        let active = &self.schedule.progress.active;
        if self.schedule.declared.overlap != Overlap::Allow && !active.is_empty() {
            return Err(Refusal::Busy(active.iter().find_map(Active::run)));
        }
        let run = (self.situation.new_key)();
        self.decision.starts.push(Start { run, occurrence: None });
        self.schedule.progress.active.push(Active::ByHand { run });
        self.schedule.progress.last_run_at = Some(self.now());
        Ok(())
    }

    pub(super) fn backfill(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
        pace: Option<SignedDuration>,
    ) -> Result<(), Refusal> {
        self.require("backfill", &[Status::Active, Status::Paused, Status::Done])?;
        let limit = limit.min(LARGEST_QUEUE);
        let found = backfilled(self.situation.plan, from, to.min(self.now()), limit)?;
        let waiting = self.schedule.progress.queued.len();
        if found.len() + waiting > LARGEST_QUEUE as usize {
            return Err(Refusal::TooMany { limit: LARGEST_QUEUE });
        }
        for (place, due) in found.into_iter().enumerate() {
            let occurrence = self.number(due, 0);
            // Made up for besides the ordinary ones: no repeat is used up.
            self.schedule.progress.repeats -= 1;
            self.enqueue_paced(occurrence, place, pace);
        }
        self.start_queued();
        // While the workflow is paused, what waited was given up: it may have been the last.
        self.finish_if_exhausted();
        Ok(())
    }
}

/// The occurrences in the range, both ends included.
pub fn backfilled(
    plan: &super::Plan,
    from: Timestamp,
    to: Timestamp,
    limit: u32,
) -> Result<Vec<Due>, Refusal> {
    // What counts from the end of a run has no times but the next.
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
