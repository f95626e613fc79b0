//! Handles the wakeup of a schedule: decides every occurrence due in (mark, now].

use std::borrow::Cow;

use calendar::{CatchUp, Fate, Policy, Roll, Rule};
use jiff::{SignedDuration, Timestamp};
use language::policy::overlap::{self, MadeUp, Overlap, Verdict};

use super::upcoming::{DayOff, DayOffFate, Due, Override, OverrideAction, Upcoming};
use super::{Active, Decider, Numbered, Queued, Status, Turning};
use crate::ids::RunKey;
use crate::ledger::{Entry, Outcome};
use crate::moment::whole_millisecond;

/// The maximum number of consecutive days off that are recorded one by one.
const DAYS_OFF: usize = 32;

impl<'b> Decider<'_, 'b> {
    pub(super) fn due(&mut self) {
        self.give_up_if_held();
        self.retry_due();
        if self.schedule.status == Status::Active {
            self.occurrences_due();
        }
        self.start_queued();
        self.finish_if_exhausted();
    }

    /// Starts the retries that are due.
    fn retry_due(&mut self) {
        let now = self.now();
        let active = std::mem::take(&mut self.schedule.progress.active);
        let (due, rest): (Vec<Active>, Vec<Active>) = active
            .into_iter()
            .partition(|active| matches!(active, Active::Retrying { at, .. } if *at <= now));
        self.schedule.progress.active = rest;
        for active in due {
            let Active::Retrying { occurrence, retry, .. } = active else { continue };
            match self.context.hold {
                None => drop(self.start(occurrence, retry)),
                Some(reason) => self.record(&occurrence, Outcome::Dropped, reason, None),
            }
        }
    }

    fn occurrences_due(&mut self) {
        self.restore_next();
        let now = self.now();
        let Some(next) = self.schedule.progress.next.filter(|due| due.effective <= now) else {
            return;
        };
        let following = self.following(next);
        if following.is_some_and(|due| due.effective <= now) {
            self.several_due();
        } else {
            self.one_due(next);
            self.advance(next, following);
        }
    }

    /// The occurrence after this one. `None` if the next one counts from the end of this one's run.
    pub(super) fn following(&self, due: Due) -> Option<Due> {
        match self.context.plan.timing.rule() {
            Rule::AfterCompletion(_) => None,
            _ => self.upcoming().after(due.effective),
        }
    }

    pub(super) fn follows_completion(&self) -> bool {
        self.schedule.follows_completion(self.context.plan)
    }

    /// Drops queued occurrences and retries while the workflow is paused, as a pause of the
    /// schedule does.
    fn give_up_if_held(&mut self) {
        if let Some(reason) = self.context.hold {
            self.drop_waiting(reason);
        }
    }

    pub(super) fn upcoming(&self) -> Upcoming<'b> {
        Upcoming { plan: self.context.plan, overrides: self.context.overrides }
    }

    fn one_due(&mut self, due: Due) {
        let occurrence = self.number_with_days_off(due, 0);
        let missed = self.was_missed(due);
        if missed && !self.is_caught_up(due) && !self.is_skipped_by_hand(due) {
            self.record(&occurrence, Outcome::Missed, self.missed_reason(occurrence.due), None);
        } else {
            let made_up = missed || due.effective < self.schedule.updated_at;
            self.offer(Numbered { made_up, ..occurrence });
        }
        self.record_landing_with(due);
    }

    /// Whether the occurrence was due while no node was running, or before it was declared.
    fn was_missed(&self, due: Due) -> bool {
        due.effective < self.context.moment.awake_since || self.was_over(due)
    }

    /// Whether the occurrence was due while a node was running and the schedule was paused. Another
    /// change of the timing leaves no earlier occurrence to decide.
    pub(super) fn was_paused(&self, due: Due) -> bool {
        due.effective >= self.context.moment.awake_since
            && due.effective < self.schedule.updated_at
            && !self.was_over(due)
    }

    /// Whether the time of the occurrence had passed when its rule was declared.
    pub(super) fn was_over(&self, due: Due) -> bool {
        let is_single = matches!(self.context.plan.timing.rule(), Rule::Once(_));
        is_single && due.effective < self.schedule.progress.anchor
    }

    /// Whether the catch-up policy runs a single missed occurrence.
    fn is_caught_up(&self, due: Due) -> bool {
        let CatchUp { policy, window, .. } = self.context.plan.catch_up;
        let inside = |window: SignedDuration| self.now().duration_since(due.effective) <= window;
        policy != Policy::None && window.is_none_or(inside)
    }

    /// Numbers the occurrence after the days off before it.
    pub(super) fn number_with_days_off(&mut self, due: Due, merged: u64) -> Numbered {
        self.record_days_off(due);
        self.pass(due);
        self.number(due, merged)
    }

    /// Advances the mark to this occurrence: everything up to it is decided.
    pub(super) fn pass(&mut self, due: Due) {
        let mark = &mut self.schedule.progress.mark;
        *mark = (*mark).max(due.effective);
    }

    /// Gives the occurrence its number.
    pub(super) fn number(&mut self, due: Due, merged: u64) -> Numbered {
        let progress = &mut self.schedule.progress;
        let occurrence = Numbered { n: progress.n, due, merged, made_up: false, backfilled: false };
        progress.n += 1;
        occurrence
    }

    /// Skips the occurrence if the active and queued ones may already be the last that the repeat
    /// limit allows.
    pub(super) fn is_beyond_limit(&mut self, occurrence: &Numbered) -> bool {
        let is_beyond = self.schedule.remaining() == Some(0);
        if is_beyond {
            let reason = "no repeat is left unless one that is active or waits does not succeed";
            self.record(occurrence, Outcome::Skipped, reason, None);
        }
        is_beyond
    }

    /// Applies the override, the repeat limit and the overlap policy to one occurrence.
    pub(super) fn offer(&mut self, occurrence: Numbered) {
        if self.is_set_aside(&occurrence) || self.is_beyond_limit(&occurrence) {
            return;
        }
        let progress = &self.schedule.progress;
        let declared = &self.schedule.declared;
        let (active, queued) = (progress.active.len(), progress.queued.len());
        let made_up = MadeUp { this: occurrence.made_up, in_the_way: progress.has_made_up() };
        match overlap::decide(declared.overlap, active, queued, declared.queue_limit(), made_up) {
            Verdict::Start => self.start_now(occurrence),
            Verdict::Skip if declared.overlap == Overlap::QueueAll => {
                let waiting = match queued {
                    1 => "1 occurrence was waiting".to_owned(),
                    queued => format!("{queued} occurrences were waiting"),
                };
                let reason = format!("the queue was full: {waiting} already");
                self.record(&occurrence, Outcome::Skipped, reason, None);
            }
            Verdict::Skip => {
                let mut reason = self.busy_reason();
                if declared.overlap == Overlap::Error {
                    reason.push_str(
                        "; no error of the schedule, because others that are late or made up for go first",
                    );
                }
                self.record(&occurrence, Outcome::Skipped, reason, None);
            }
            Verdict::Queue => self.enqueue(occurrence),
            Verdict::Coalesce => {
                self.record(&occurrence, Outcome::Coalesced, "one was already waiting", None);
            }
            Verdict::Replace => self.replace(occurrence),
            Verdict::Fail => self.fail(occurrence),
        }
    }

    /// Skips the occurrence if the workflow is paused or an override says so.
    pub(super) fn is_set_aside(&mut self, occurrence: &Numbered) -> bool {
        if let Some(reason) = self.context.hold {
            self.record(occurrence, Outcome::Skipped, reason, None);
            return true;
        }
        let Some(reason) = self.skip_reason(occurrence.due) else { return false };
        self.record(occurrence, Outcome::Skipped, reason, None);
        true
    }

    /// The reason of an occurrence that an override skips.
    pub(super) fn skip_reason(&self, due: Due) -> Option<String> {
        self.skipped.get(&due.nominal).map(|by| format!("skipped by {by}"))
    }

    fn start_now(&mut self, occurrence: Numbered) {
        let run = self.start(occurrence, 0);
        let (outcome, reason) = self.started_reason(&occurrence);
        self.record(&occurrence, outcome, reason, Some(run));
    }

    /// `started` if the occurrence happens when the rule says, otherwise `moved`. The spread does
    /// not count as a move.
    fn started_reason(&self, occurrence: &Numbered) -> (Outcome, Cow<'static, str>) {
        let due = occurrence.due;
        let plan = self.context.plan;
        let plain = due.effective.checked_sub(plan.timing.moved_by()).unwrap_or(due.effective);
        let merged = match occurrence.merged {
            0 => String::new(),
            1 => "; stands for 1 more that was missed".to_owned(),
            n => format!("; stands for {n} more that were missed"),
        };
        let over = self.upcoming().of(due.nominal);
        let payload = match over.map(|over| (&over.action, &over.by)) {
            Some((OverrideAction::Move(_), by)) => {
                return (Outcome::Moved, format!("moved by {by}{merged}").into());
            }
            Some((OverrideAction::Payload(_), by)) if whole_millisecond(plain) == due.nominal => {
                format!(", with a payload given by {by}")
            }
            _ if whole_millisecond(plain) == due.nominal => String::new(),
            _ => {
                let why = match plan.timing.fate(due.nominal) {
                    Fate::Moved { reason, .. } => reason.to_string(),
                    _ => "off".to_owned(),
                };
                return (Outcome::Moved, format!("moved by the calendar ({why}){merged}").into());
            }
        };
        let why = if occurrence.backfilled {
            "asked for by a backfill"
        } else if self.was_over(due) {
            "made up for: its time had passed when it was declared"
        } else if occurrence.made_up && self.was_paused(due) {
            "made up for: due while the schedule was paused"
        } else if occurrence.made_up && self.was_missed(due) {
            // An occurrence that was queued in time and waits until another node starts was not
            // missed.
            "made up for: due while no node was running"
        } else {
            "due"
        };
        if payload.is_empty() && merged.is_empty() {
            return (Outcome::Started, why.into());
        }
        (Outcome::Started, format!("{why}{payload}{merged}").into())
    }

    fn enqueue(&mut self, occurrence: Numbered) {
        self.schedule.progress.queued.push(Queued { occurrence, not_before: None });
        let reason = format!("queued: {}", self.busy_reason());
        self.record(&occurrence, Outcome::Queued, reason, None);
    }

    fn replace(&mut self, occurrence: Numbered) {
        self.drop_queued("a later one took its place");
        // A retry that this same decision would start does not start.
        let unborn = std::mem::take(&mut self.decision.starts);
        let is_unborn = |run: RunKey| unborn.iter().any(|start| start.run == run);
        self.schedule.progress.active.retain(|active| !active.run().is_some_and(is_unborn));
        let runs = self.schedule.progress.active.iter().filter_map(Active::run);
        self.decision.cancels.extend(runs);
        // An occurrence that waits for its retry has no run to cancel. It ends now.
        self.schedule.progress.active.retain(|active| active.run().is_some());
        self.enqueue(occurrence);
    }

    fn fail(&mut self, occurrence: Numbered) {
        let reason = format!("{}, and overlap is error", self.busy_reason());
        self.schedule.progress.last_error = Some(reason.clone());
        self.schedule.progress.error_count += 1;
        self.finally_failed(occurrence, &reason);
        self.record(&occurrence, Outcome::Failed, reason.clone(), None);
        self.drop_waiting("the schedule died");
        self.schedule.progress.next = None;
        self.set_status(Status::Dead);
        self.tell(Turning::Died { reason });
    }

    /// Names the occurrence or run that keeps the next one from starting.
    fn busy_reason(&self) -> String {
        match self.schedule.progress.active.first() {
            Some(Active::Running { occurrence, .. }) => {
                format!("occurrence {} was active", occurrence.n)
            }
            Some(Active::Retrying { occurrence, at, .. }) => {
                format!("occurrence {} had failed and was to be tried again at {at}", occurrence.n)
            }
            Some(Active::ByHand { .. }) => {
                format!("a run started by {} was active", self.schedule.starts_besides())
            }
            None => "others were waiting to be made up for".to_owned(),
        }
    }

    /// Sets the next time after the last due occurrence was decided.
    pub(super) fn advance(&mut self, decided: Due, following: Option<Due>) {
        self.pass(decided);
        if self.schedule.status != Status::Active {
            return;
        }
        let after_completion = self.follows_completion();
        let progress = &self.schedule.progress;
        // An interval from completion continues when the run has ended, or from now if none
        // started.
        let idle = progress.active.is_empty() && progress.queued.is_empty();
        let following = if after_completion && idle {
            self.context.plan.timing.next_after(self.now()).map(Due::from)
        } else {
            following
        };
        let is_over = self.schedule.has_reached_its_limit();
        self.schedule.progress.next = following.filter(|_| !is_over);
    }

    /// Starts the first queued occurrence if nothing is active and its pace allows.
    pub(super) fn start_queued(&mut self) {
        self.give_up_if_held();
        let now = self.now();
        while self.schedule.progress.active.is_empty() {
            let ready = |queued: &&Queued| queued.not_before.is_none_or(|at| at <= now);
            let Some(queued) = self.schedule.progress.queued.first().filter(ready).copied() else {
                return;
            };
            if let Some(reason) = self.context.hold {
                return self.drop_queued(reason);
            }
            self.schedule.progress.queued.remove(0);
            let run = self.start(queued.occurrence, 0);
            let (outcome, reason) = self.started_reason(&queued.occurrence);
            let is_here =
                |entry: &Entry| entry.n == queued.occurrence.n && entry.outcome == Outcome::Queued;
            // If this same decision put it into the queue, it did not wait.
            let reason = if self.decision.ledger.iter().any(is_here) {
                reason
            } else {
                format!("{reason}; it had to wait for its turn").into()
            };
            self.record(&queued.occurrence, outcome, reason, Some(run));
        }
    }

    /// Writes rows for nominal times before `due` that fall on days off, and for those that were
    /// moved onto `due`.
    fn record_days_off(&mut self, due: Due) {
        let plan = self.context.plan;
        let timing = &plan.timing;
        let before = |at: Timestamp| at.checked_sub(timing.moved_by()).unwrap_or(at);
        let (from, plain) = (before(self.schedule.progress.mark), before(due.effective));
        let count = if timing.roll() == Roll::Skip { 1 } else { 8 };
        let upcoming = self.upcoming();
        let is_it = |nominal| nominal == due.nominal;
        let days_off = upcoming.days_off(from, count, is_it, |at| at == due.effective);
        for DayOff { nominal, fate } in days_off.take(DAYS_OFF) {
            let (outcome, reason) = match fate {
                DayOffFate::Skipped(reason) if nominal < plain => {
                    (Outcome::Skipped, reason.to_string())
                }
                DayOffFate::Skipped(_) => continue,
                DayOffFate::Merged(_, Some(reason)) => {
                    (Outcome::Coalesced, format!("{reason}: moved onto the same time as another"))
                }
                DayOffFate::Merged(_, None) => {
                    (Outcome::Coalesced, "another was moved onto the same time".to_owned())
                }
            };
            let occurrence = self.number(Due { nominal, effective: due.effective }, 0);
            self.record(&occurrence, outcome, reason, None);
        }
    }

    /// Writes rows for other occurrences at the instant of `due` that were moved there or skipped.
    pub(super) fn record_landing_with(&mut self, due: Due) {
        let others: Vec<(Due, &Override)> = self.upcoming().landing_with(due).collect();
        for (other, over) in others {
            let occurrence = self.number(other, 0);
            let (outcome, reason) = match over.action {
                OverrideAction::Skip => (Outcome::Skipped, format!("skipped by {}", over.by)),
                OverrideAction::Move(_) | OverrideAction::Payload(_) => {
                    let reason = "moved by hand onto the same time as another";
                    (Outcome::Coalesced, reason.to_owned())
                }
            };
            self.record(&occurrence, outcome, reason, None);
        }
    }
}
