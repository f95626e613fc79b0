//! The wakeup of a schedule has come: what is due in (mark, now], and what becomes of it.

use calendar::{CatchUp, CaughtUp, Count, Fate, MOST_CAUGHT_UP, Policy, Roll, Rule};
use jiff::{SignedDuration, Timestamp};

use super::upcoming::{Due, OverrideAction, Upcoming, just_before};
use super::{Active, Decider, Numbered, Queued, Status, Turning};
use crate::ids::RunKey;
use crate::ledger::{Entry, Outcome};
use crate::moment::whole_millisecond;
use crate::policy::overlap::{self, MadeUp, Overlap, Verdict};

/// Up to so many missed occurrences get a ledger row each; more share one.
const ROWS: usize = 100;
/// Up to so many due occurrences are looked at one by one; of more, only the latest.
const LISTED: usize = 1_000;
/// Those that were moved by hand cannot be counted by the rule, so more are looked at.
const LISTED_WITH_OVERRIDES: usize = 100_000;
/// Days off in a row that are recorded one by one.
const DAYS_OFF: usize = 32;

/// Said of those that were merged into the latest one, until that is known not to run.
const STANDS_FOR_IT: &str = "the latest one stands for it";

/// The first and the last of several.
type Ends = Option<(Due, Due)>;

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

    /// Starts the retries whose time has come.
    fn retry_due(&mut self) {
        let now = self.now();
        let active = std::mem::take(&mut self.schedule.progress.active);
        let (due, rest): (Vec<Active>, Vec<Active>) = active
            .into_iter()
            .partition(|active| matches!(active, Active::Retrying { at, .. } if *at <= now));
        self.schedule.progress.active = rest;
        for active in due {
            let Active::Retrying { occurrence, retry, .. } = active else { continue };
            match self.situation.hold {
                None => drop(self.start(occurrence, retry)),
                Some(reason) => self.record(&occurrence, Outcome::Dropped, reason, None),
            }
        }
    }

    fn occurrences_due(&mut self) {
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

    /// What comes after this one; nothing if its end is what the next one counts from.
    fn following(&self, due: Due) -> Option<Due> {
        match self.situation.plan.timing.rule() {
            Rule::AfterCompletion(_) => None,
            _ => self.upcoming().after(due.effective),
        }
    }

    pub(super) fn follows_completion(&self) -> bool {
        self.schedule.follows_completion(self.situation.plan)
    }

    /// Nothing starts while the workflow is paused: what waits is given up, as by a pause.
    fn give_up_if_held(&mut self) {
        if let Some(reason) = self.situation.hold {
            self.drop_waiting(reason);
        }
    }

    pub(super) fn upcoming(&self) -> Upcoming<'b> {
        Upcoming { plan: self.situation.plan, overrides: self.situation.overrides }
    }

    fn one_due(&mut self, due: Due) {
        let occurrence = self.number_with_days_off(due, 0);
        let missed = self.was_missed(due);
        if missed && !self.is_caught_up(due) {
            self.record(&occurrence, Outcome::Missed, self.missed_reason(occurrence.due), None);
        } else {
            let made_up = missed || due.effective < self.schedule.updated_at;
            self.offer(Numbered { made_up, ..occurrence });
        }
        self.record_landing_with(due);
    }

    /// Whether it was due while nobody was awake.
    fn was_missed(&self, due: Due) -> bool {
        due.effective < self.situation.moment.awake_since
    }

    /// Whether the catch-up policy makes up for a single missed occurrence.
    fn is_caught_up(&self, due: Due) -> bool {
        let CatchUp { policy, window, .. } = self.situation.plan.catch_up;
        let inside = |window: SignedDuration| self.now().duration_since(due.effective) <= window;
        policy != Policy::None && window.is_none_or(inside)
    }

    fn missed_reason(&self, due: Due) -> &'static str {
        match self.situation.plan.catch_up.policy {
            Policy::None if due.effective < self.schedule.created_at => {
                "its time had passed when it was declared, and catch_up is none"
            }
            Policy::None => "due while no node was running, and catch_up is none",
            _ => "due while no node was running, longer ago than the catch-up window",
        }
    }

    /// Why one that is inside the window does not run.
    fn coalesced_reason(&self) -> String {
        let CatchUp { policy, limit, .. } = self.situation.plan.catch_up;
        match policy {
            Policy::All => format!(
                "missed: catch_up makes up for the latest {limit} only; raise its limit, up to \
                 {MOST_CAUGHT_UP}, for more"
            ),
            Policy::Last | Policy::None => format!("missed: {STANDS_FOR_IT}"),
        }
    }

    /// Several are due at once: the catch-up policy says which of them run.
    fn several_due(&mut self) {
        let is_counted = self.situation.overrides.is_empty();
        let limit = if is_counted { LISTED + 1 } else { LISTED_WITH_OVERRIDES };
        let now = self.now();
        let mut listed = Vec::new();
        let mut at = self.schedule.progress.next;
        while let Some(due) = at.filter(|due| due.effective <= now && listed.len() < limit) {
            listed.push(due);
            at = self.upcoming().after(due.effective);
        }
        if listed.len() > LISTED && is_counted {
            self.too_many_due();
        } else {
            self.listed_due(&listed);
            let last = listed[listed.len() - 1];
            self.advance(last, self.following(last));
        }
    }

    fn listed_due(&mut self, listed: &[Due]) {
        let on_time = self.on_time(listed);
        let is_current = on_time > 0
            && (on_time == listed.len() || self.situation.plan.catch_up.policy != Policy::All);
        let (missed, coalesced) = self.split(listed, on_time, is_current);
        let (rest, runs) = listed.split_at(missed + coalesced);
        if rest.len() <= ROWS {
            for (place, due) in rest.iter().enumerate() {
                let occurrence = self.number_with_days_off(*due, 0);
                match place < missed {
                    true => self.record(
                        &occurrence,
                        Outcome::Missed,
                        self.missed_reason(occurrence.due),
                        None,
                    ),
                    false => {
                        self.record(&occurrence, Outcome::Coalesced, self.coalesced_reason(), None);
                    }
                }
            }
        } else {
            let count = |counted: usize| Count { counted: counted as u64, more: false };
            let ends = |part: &[Due]| part.first().copied().zip(part.last().copied());
            self.record_many(ends(&rest[..missed]), count(missed), Outcome::Missed);
            self.record_many(ends(&rest[missed..]), count(coalesced), Outcome::Coalesced);
            self.pass(rest[rest.len() - 1]);
        }
        match is_current {
            true => self.decide_late(runs, coalesced as u64),
            false => self.catch_up(runs, coalesced as u64),
        }
        self.correct_coalesced();
        for due in listed {
            self.record_landing_with(*due);
        }
    }

    /// Days off before it get their numbers first.
    fn number_with_days_off(&mut self, due: Due, merged: u64) -> Numbered {
        self.record_days_off(due);
        self.pass(due);
        self.number(due, merged)
    }

    /// Everything up to this one is decided.
    fn pass(&mut self, due: Due) {
        let mark = &mut self.schedule.progress.mark;
        *mark = (*mark).max(due.effective);
    }

    /// How many of the last were due while somebody was awake, and while the schedule was as it is: not paused, nor
    /// otherwise declared.
    fn on_time(&self, listed: &[Due]) -> usize {
        let since = self.situation.moment.awake_since.max(self.schedule.updated_at);
        listed.iter().rev().take_while(|due| due.effective >= since).count()
    }

    /// A busy node decides late over what was due while it was awake. That is not missed: the overlap policy decides
    /// over each, and being late is no error of the schedule.
    fn decide_late(&mut self, runs: &[Due], merged: u64) {
        for (place, due) in runs.iter().enumerate() {
            let merged = if place == 0 { merged } else { 0 };
            let occurrence = self.number_with_days_off(*due, merged);
            self.offer(Numbered { made_up: true, ..occurrence });
        }
    }

    /// How many of the first are missed, and how many of the next are coalesced; the rest runs.
    fn split(&self, listed: &[Due], on_time: usize, is_current: bool) -> (usize, usize) {
        let CatchUp { policy, window, limit, .. } = self.situation.plan.catch_up;
        let wanted = match policy {
            _ if is_current => on_time,
            Policy::None => 0,
            Policy::Last => 1,
            Policy::All => limit as usize,
        };
        let oldest = window.and_then(|window| self.now().checked_sub(window).ok());
        let too_old = |due: &&Due| oldest.is_some_and(|oldest| due.effective < oldest);
        let too_old = listed.iter().take_while(too_old).count().min(listed.len() - on_time);
        let not_run = listed.len() - wanted.min(listed.len() - too_old);
        match policy {
            Policy::None => (not_run, 0),
            _ => (too_old, not_run - too_old),
        }
    }

    /// More than are looked at one by one: they are counted, and the latest are found from behind.
    fn too_many_due(&mut self) {
        let (mark, now) = (self.schedule.progress.mark, self.now());
        let plan = self.situation.plan;
        let caught_up = plan.catch_up.decide(&plan.timing, mark, now);
        let first = self.schedule.progress.next;
        let last = plan.timing.previous_before(just_after(now)).map(Due::from).or(first);
        let (missed, coalesced) = self.ends(&caught_up, first, last);
        self.record_many(missed, caught_up.missed, Outcome::Missed);
        self.record_many(coalesced, caught_up.coalesced, Outcome::Coalesced);
        // The days off among so many are not told one by one.
        if let Some(before) = caught_up.run.first().map(|run| just_before(run.effective)) {
            self.schedule.progress.mark = self.schedule.progress.mark.max(before);
        }
        let runs: Vec<Due> = caught_up.run.into_iter().map(Due::from).collect();
        self.catch_up(&runs, caught_up.coalesced.counted);
        self.correct_coalesced();
        if let Some(last) = last {
            self.advance(last, self.following(last));
        }
    }

    /// The first and the last of those that are missed, and of those that are coalesced.
    fn ends(&self, caught_up: &CaughtUp, first: Option<Due>, last: Option<Due>) -> (Ends, Ends) {
        let CatchUp { policy, window, .. } = self.situation.plan.catch_up;
        let timing = &self.situation.plan.timing;
        let oldest = window.and_then(|window| self.now().checked_sub(window).ok());
        let before = |at: Timestamp| timing.previous_before(at).map(Due::from);
        let last_missed = match (policy, oldest) {
            (Policy::None, _) => last,
            (_, Some(oldest)) => before(oldest),
            (_, None) => None,
        };
        let after_missed = last_missed.filter(|_| caught_up.missed.counted > 0);
        let first_coalesced = match after_missed {
            Some(missed) => timing.next_after(missed.effective).map(Due::from),
            None => first,
        };
        let last_coalesced = match caught_up.run.first() {
            Some(run) => before(run.effective),
            None => last,
        };
        (first.zip(last_missed), first_coalesced.zip(last_coalesced))
    }

    /// One row for many.
    fn record_many(&mut self, ends: Option<(Due, Due)>, count: Count, outcome: Outcome) {
        let Some((first, last)) = ends.filter(|_| count.counted > 0) else { return };
        let n = self.schedule.progress.n;
        self.schedule.progress.n += count.counted;
        let more = if count.more { "more than " } else { "" };
        let why = match outcome {
            Outcome::Missed => self.missed_reason(first).to_owned(),
            _ => self.coalesced_reason(),
        };
        self.decision.ledger.push(Entry {
            schedule: self.schedule.id,
            n,
            count: count.counted,
            nominal: first.nominal,
            last_nominal: last.nominal,
            effective: first.effective,
            decided_at: self.now(),
            outcome,
            reason: format!("{more}{} occurrences: {why}", count.counted).into(),
            run: None,
        });
    }

    /// The occurrences that run although others were due after them, oldest first.
    fn catch_up(&mut self, runs: &[Due], merged: u64) {
        if let [only] = runs {
            let occurrence = self.number_with_days_off(*only, merged);
            return self.offer(Numbered { made_up: true, ..occurrence });
        }
        let pace = self.situation.plan.catch_up.pace;
        let mut place = 0;
        for due in runs {
            let merged = if place == 0 { merged } else { 0 };
            let occurrence = self.number_with_days_off(*due, merged);
            if !self.is_set_aside(&occurrence) && !self.is_beyond_limit(&occurrence) {
                self.enqueue_paced(occurrence, place, pace);
                place += 1;
            }
        }
    }

    /// The one that was to stand for others may not run either: then their reasons say so. It was the last to get a
    /// number.
    fn correct_coalesced(&mut self) {
        let latest = self.schedule.progress.n.saturating_sub(1);
        let decided = self.decision.ledger.iter().rev().find(|entry| entry.n == latest);
        let what = match decided.map(|entry| entry.outcome) {
            Some(Outcome::Skipped) => "was skipped",
            Some(Outcome::Coalesced) => "was merged into another",
            Some(Outcome::Failed) => "failed",
            _ => return,
        };
        let correct = format!("only the latest one is made up for, and that {what}");
        for entry in &mut self.decision.ledger {
            if entry.n != latest && entry.reason.contains(STANDS_FOR_IT) {
                entry.reason = entry.reason.replace(STANDS_FOR_IT, &correct).into();
            }
        }
    }

    /// Puts an occurrence behind the others, not to start before the pace allows.
    pub(super) fn enqueue_paced(
        &mut self,
        occurrence: Numbered,
        place: usize,
        pace: Option<SignedDuration>,
    ) {
        let wait = pace.map(|pace| pace.saturating_mul(i32::try_from(place).unwrap_or(i32::MAX)));
        let not_before = wait.and_then(|wait| self.now().checked_add(wait).ok());
        let occurrence = Numbered { made_up: true, ..occurrence };
        self.schedule.progress.queued.push(Queued { occurrence, not_before });
        let why = match occurrence.backfilled {
            true => "asked for by a backfill; it waits for its turn",
            false => "waits for its turn to be made up for",
        };
        self.record(&occurrence, Outcome::Queued, why, None);
    }

    /// Gives the occurrence its number.
    pub(super) fn number(&mut self, due: Due, merged: u64) -> Numbered {
        let progress = &mut self.schedule.progress;
        let occurrence = Numbered { n: progress.n, due, merged, made_up: false, backfilled: false };
        progress.n += 1;
        occurrence
    }

    /// Skips the occurrence if those that are active or wait may be the last that the repeat limit allows.
    fn is_beyond_limit(&mut self, occurrence: &Numbered) -> bool {
        let is_beyond = self.schedule.remaining() == Some(0);
        if is_beyond {
            let reason = "no repeat is left unless one that is active or waits does not succeed";
            self.record(occurrence, Outcome::Skipped, reason, None);
        }
        is_beyond
    }

    /// One occurrence meets the override for it, the repeat limit and the overlap policy.
    fn offer(&mut self, occurrence: Numbered) {
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
                let reason = format!("the queue is full: {queued} occurrences wait already");
                self.record(&occurrence, Outcome::Skipped, reason, None);
            }
            Verdict::Skip => {
                let mut reason = self.busy_reason();
                if declared.overlap == Overlap::Error {
                    reason.push_str(
                        "; no error of the schedule, because others are being made up for after downtime",
                    );
                }
                self.record(&occurrence, Outcome::Skipped, reason, None);
            }
            Verdict::Queue => self.enqueue(occurrence),
            Verdict::Coalesce => {
                self.record(&occurrence, Outcome::Coalesced, "one is already waiting", None);
            }
            Verdict::Replace => self.replace(occurrence),
            Verdict::Fail => self.fail(occurrence),
        }
    }

    /// Skips the occurrence if the workflow is paused or someone said so.
    fn is_set_aside(&mut self, occurrence: &Numbered) -> bool {
        if let Some(reason) = self.situation.hold {
            self.record(occurrence, Outcome::Skipped, reason, None);
            return true;
        }
        let skip = self.upcoming().of(occurrence.due.nominal).and_then(|over| match over.action {
            OverrideAction::Skip => Some(format!("skipped by {}", over.by)),
            _ => None,
        });
        let Some(reason) = skip else { return false };
        self.record(occurrence, Outcome::Skipped, reason, None);
        true
    }

    fn start_now(&mut self, occurrence: Numbered) {
        let run = self.start(occurrence, 0);
        let (outcome, reason) = self.started_reason(&occurrence);
        self.record(&occurrence, outcome, reason, Some(run));
    }

    /// `started` if it happens when the rule says, `moved` if not; the spread is no move.
    fn started_reason(&self, occurrence: &Numbered) -> (Outcome, String) {
        let due = occurrence.due;
        let plan = self.situation.plan;
        let plain = due.effective.checked_sub(plan.timing.moved_by()).unwrap_or(due.effective);
        let merged = match occurrence.merged {
            0 => String::new(),
            n => format!("; stands for {n} more that were missed"),
        };
        let over = self.upcoming().of(due.nominal);
        match over.map(|over| (&over.action, &over.by)) {
            Some((OverrideAction::Move(_), by)) => {
                return (Outcome::Moved, format!("moved by {by}{merged}"));
            }
            Some((OverrideAction::Payload(_), by)) if whole_millisecond(plain) == due.nominal => {
                return (Outcome::Started, format!("due, with a payload given by {by}{merged}"));
            }
            _ if whole_millisecond(plain) == due.nominal => {}
            _ => {
                let why = match plan.timing.fate(due.nominal) {
                    Fate::Moved { reason, .. } => reason.to_string(),
                    _ => "off".to_owned(),
                };
                return (Outcome::Moved, format!("moved by the calendar ({why}){merged}"));
            }
        }
        let why = match self.was_missed(due) {
            _ if occurrence.backfilled => "asked for by a backfill",
            true if due.effective < self.schedule.created_at => {
                "made up for: its time had passed when it was declared"
            }
            true => "made up for: due while no node was running",
            false => "due",
        };
        (Outcome::Started, format!("{why}{merged}"))
    }

    fn enqueue(&mut self, occurrence: Numbered) {
        self.schedule.progress.queued.push(Queued { occurrence, not_before: None });
        self.record(&occurrence, Outcome::Queued, self.busy_reason(), None);
    }

    fn replace(&mut self, occurrence: Numbered) {
        self.drop_queued("a later one took its place");
        // A retry that was to start in this very moment does not.
        let unborn = std::mem::take(&mut self.decision.starts);
        let is_unborn = |run: RunKey| unborn.iter().any(|start| start.run == run);
        self.schedule.progress.active.retain(|active| !active.run().is_some_and(is_unborn));
        let runs = self.schedule.progress.active.iter().filter_map(Active::run);
        self.decision.cancels.extend(runs);
        // One that waits to be retried has no run to end: it is over now.
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

    /// Who is in the way.
    fn busy_reason(&self) -> String {
        match self.schedule.progress.active.first() {
            Some(Active::Running { occurrence, .. }) => {
                format!("occurrence {} has not ended", occurrence.n)
            }
            Some(Active::Retrying { occurrence, at, .. }) => {
                format!("occurrence {} failed and is tried again at {at}", occurrence.n)
            }
            Some(Active::ByHand { .. }) => "a run started by hand has not ended".to_owned(),
            None => "others are waiting to be made up for".to_owned(),
        }
    }

    /// This one was the last that is due: what comes next?
    fn advance(&mut self, decided: Due, following: Option<Due>) {
        self.pass(decided);
        if self.schedule.status != Status::Active {
            return;
        }
        let after_completion = self.follows_completion();
        let progress = &self.schedule.progress;
        // An interval from completion goes on when the run has ended; if none started, from here.
        let idle = progress.active.is_empty() && progress.queued.is_empty();
        let following = match after_completion && idle {
            true => self.situation.plan.timing.next_after(self.now()).map(Due::from),
            false => following,
        };
        let is_over = self.schedule.has_reached_its_limit();
        self.schedule.progress.next = following.filter(|_| !is_over);
    }

    /// Starts what waits, if nothing is active any more and its time has come.
    pub(super) fn start_queued(&mut self) {
        self.give_up_if_held();
        let now = self.now();
        while self.schedule.progress.active.is_empty() {
            let ready = |queued: &&Queued| queued.not_before.is_none_or(|at| at <= now);
            let Some(queued) = self.schedule.progress.queued.first().filter(ready).copied() else {
                return;
            };
            if let Some(reason) = self.situation.hold {
                return self.drop_queued(reason);
            }
            self.schedule.progress.queued.remove(0);
            let run = self.start(queued.occurrence, 0);
            let (outcome, reason) = self.started_reason(&queued.occurrence);
            let reason = format!("{reason}; it had to wait for its turn");
            self.record(&queued.occurrence, outcome, reason, Some(run));
        }
    }

    /// Rows for the nominal times before `due` that fall on days off, and for those that land with it.
    fn record_days_off(&mut self, due: Due) {
        let timing = &self.situation.plan.timing;
        let never_off = matches!(timing.rule(), Rule::WorkingDay(_) | Rule::AfterCompletion(_));
        if timing.calendar().is_none() || never_off {
            return;
        }
        let from = self.schedule.progress.mark.checked_sub(timing.moved_by());
        let from = from.unwrap_or(self.schedule.progress.mark);
        let plain = due.effective.checked_sub(timing.moved_by()).unwrap_or(due.effective);
        let rows = timing.preview(from, if timing.roll() == Roll::Skip { 1 } else { 8 });
        for row in rows.into_iter().take(DAYS_OFF) {
            let nominal = whole_millisecond(row.nominal);
            // It is no longer at the time that the rule gives it.
            if self.upcoming().is_moved(nominal) {
                continue;
            }
            let (outcome, reason) = match row.fate {
                Fate::Skipped { reason } if nominal < plain => {
                    (Outcome::Skipped, format!("{reason}"))
                }
                Fate::Moved { to, reason } if to == plain && nominal != due.nominal => {
                    (Outcome::Coalesced, format!("{reason}: moved onto the same time as another"))
                }
                Fate::Kept if nominal == plain && nominal != due.nominal => {
                    (Outcome::Coalesced, "another was moved onto the same time".to_owned())
                }
                _ => continue,
            };
            let occurrence = self.number(Due { nominal, effective: due.effective }, 0);
            self.record(&occurrence, outcome, reason, None);
        }
    }

    /// Rows for those that were moved by hand onto the instant of `due`.
    fn record_landing_with(&mut self, due: Due) {
        let others: Vec<Due> = self.upcoming().landing_with(due).collect();
        for other in others {
            let occurrence = self.number(other, 0);
            let reason = "moved by hand onto the same time as another";
            self.record(&occurrence, Outcome::Coalesced, reason, None);
        }
    }
}

fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at)
}
