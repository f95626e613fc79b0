//! Decides several occurrences that are due at once: after downtime, or because the node was busy.

use calendar::{CatchUp, CaughtUp, Count, MOST_CAUGHT_UP, Policy};
use jiff::{SignedDuration, Timestamp};
use language::policy::overlap::Overlap;
use language::schedule::LARGEST_QUEUE;

use super::upcoming::{Due, just_before};
use super::{Decider, Numbered, Queued};
use crate::ledger::{Entry, Outcome};

/// Up to this many missed occurrences get a ledger row each. More share one row.
const ROWS: usize = 100;
/// Up to this many due occurrences are decided one by one. Of more, only the latest are.
const LISTED: usize = 1_000;
/// The rule cannot count occurrences that were moved by hand, so more are listed if there are
/// overrides.
const LISTED_WITH_OVERRIDES: usize = 100_000;

/// Part of the reason of a coalesced occurrence. `correct_coalesced` replaces it with the number of
/// the occurrence that runs in its stead.
const STANDS_FOR_IT: &str = "the latest one stands for it";
const MISSED: &str = "missed: ";
const MISSED_IN_PAUSE: &str = "missed while the schedule was paused: ";

/// The first and the last of several occurrences.
type Ends = Option<(Due, Due)>;

impl Decider<'_, '_> {
    pub(super) fn missed_reason(&self, due: Due) -> &'static str {
        match self.context.plan.catch_up.policy {
            Policy::None if self.was_over(due) => {
                "its time had passed when it was declared, and catch_up is none"
            }
            _ if self.was_over(due) => {
                "its time had passed when it was declared, longer ago than the catch-up window"
            }
            Policy::None if self.was_paused(due) => {
                "due while the schedule was paused, and catch_up is none"
            }
            _ if self.was_paused(due) => {
                "due while the schedule was paused, longer ago than the catch-up window"
            }
            Policy::None if due.effective >= self.context.moment.awake_since => {
                "more were due at once than are looked at one by one, and catch_up is none"
            }
            Policy::None => "due while no node was running, and catch_up is none",
            _ => "due while no node was running, longer ago than the catch-up window",
        }
    }

    /// Why an occurrence inside the window does not run.
    fn coalesced_reason(&self, due: Due) -> String {
        let CatchUp { policy, limit, .. } = self.context.plan.catch_up;
        match policy {
            Policy::All if limit >= MOST_CAUGHT_UP => {
                format!("missed: catch_up makes up for the latest {limit} only, the most there is")
            }
            Policy::All => format!(
                "missed: catch_up makes up for the latest {limit} only; raise its limit, up to \
                 {MOST_CAUGHT_UP}, for more"
            ),
            Policy::Last | Policy::None => {
                let missed = if self.was_paused(due) { MISSED_IN_PAUSE } else { MISSED };
                format!("{missed}{STANDS_FOR_IT}")
            }
        }
    }

    /// Decides several due occurrences. The catch-up policy says which of them run.
    pub(super) fn several_due(&mut self) {
        let is_counted = self.context.overrides.is_empty();
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

    /// Decides listed due occurrences. The catch-up policy applies to those that were due while no
    /// node was running. Later ones are only late: each of them runs, and the latest one stands for
    /// the missed ones.
    fn listed_due(&mut self, listed: &[Due]) {
        let since = self.driven_since();
        let was_idle = self.is_idle();
        let (missed, late) = listed.split_at(listed.partition_point(|due| due.effective < since));
        let latest = late.iter().rposition(|due| !self.is_skipped_by_hand(*due));
        let merged = self.missed_due(missed, latest.is_some());
        for (index, due) in late.iter().enumerate() {
            let merged = if Some(index) == latest { merged } else { 0 };
            let occurrence = self.number_with_days_off(*due, merged);
            self.offer_late(Numbered { made_up: true, ..occurrence }, was_idle);
        }
        let stand_in = listed.iter().rfind(|due| !self.is_skipped_by_hand(**due));
        self.correct_coalesced(stand_in.copied());
        for due in listed {
            self.record_landing_with(*due);
        }
    }

    /// Since when a node has driven this schedule with its present declaration.
    fn driven_since(&self) -> Timestamp {
        let schedule = &self.schedule;
        let computed_again = schedule.progress.recomputed_at.unwrap_or(schedule.updated_at);
        self.context.moment.awake_since.max(schedule.updated_at).max(computed_again)
    }

    fn is_idle(&self) -> bool {
        let progress = &self.schedule.progress;
        progress.active.is_empty() && progress.queued.is_empty()
    }

    pub(super) fn is_skipped_by_hand(&self, due: Due) -> bool {
        self.skipped.contains_key(&due.nominal)
    }

    /// Applies the catch-up policy to missed occurrences. Those that a person skipped are recorded
    /// as skipped; the policy does not see them. Returns how many of the others the latest of the
    /// late occurrences must stand for.
    fn missed_due(&mut self, listed: &[Due], has_later: bool) -> u64 {
        let is_candidate = |due: &Due| !self.is_skipped_by_hand(*due);
        let candidates: Vec<Due> = listed.iter().copied().filter(is_candidate).collect();
        let (missed, coalesced) = self.split(&candidates, has_later);
        let first_run = candidates.get(missed + coalesced);
        let first_run = first_run.and_then(|run| listed.iter().position(|due| due == run));
        let (rest, runs) = listed.split_at(first_run.unwrap_or(listed.len()));
        self.record_not_run(rest, missed);
        if runs.is_empty() {
            return coalesced as u64;
        }
        self.catch_up(runs, coalesced as u64);
        0
    }

    /// Records occurrences that do not run: of those that nobody skipped, the first `missed` are
    /// missed, the others coalesced.
    fn record_not_run(&mut self, rest: &[Due], missed: usize) {
        let mut missed_left = missed;
        let mut decide = |due: Due| {
            if self.is_skipped_by_hand(due) {
                return (due, Outcome::Skipped);
            }
            let is_missed = missed_left > 0;
            missed_left = missed_left.saturating_sub(1);
            (due, if is_missed { Outcome::Missed } else { Outcome::Coalesced })
        };
        let decided: Vec<(Due, Outcome)> = rest.iter().map(|due| decide(*due)).collect();
        let shares_rows = rest.len() > ROWS;
        let shares_row = |(_, one): &(Due, Outcome), (_, other): &(Due, Outcome)| {
            shares_rows && one == other && *one != Outcome::Skipped
        };
        for part in decided.chunk_by(shares_row) {
            let ((first, outcome), (last, _)) = (part[0], part[part.len() - 1]);
            if part.len() > 1 {
                let count = Count { counted: part.len() as u64, more: false };
                self.record_many(Some((first, last)), count, outcome);
            } else {
                self.record_one_not_run(first, outcome, shares_rows);
            }
            self.pass(last);
        }
    }

    fn record_one_not_run(&mut self, due: Due, outcome: Outcome, shares_rows: bool) {
        // The days off among many occurrences get no rows of their own.
        let occurrence =
            if shares_rows { self.number(due, 0) } else { self.number_with_days_off(due, 0) };
        let reason = match outcome {
            Outcome::Skipped => self.skip_reason(due).unwrap_or_default(),
            Outcome::Missed => self.missed_reason(due).to_owned(),
            _ => self.coalesced_reason(due),
        };
        self.record(&occurrence, outcome, reason, None);
    }

    /// Offers an occurrence that comes late together with others. If the schedule was idle when the
    /// first of them was due, none is refused because of another: they run one after the other, or
    /// concurrently where the overlap policy allows it.
    fn offer_late(&mut self, occurrence: Numbered, was_idle: bool) {
        let is_first = self.is_idle();
        let has_room = self.schedule.progress.queued.len() < LARGEST_QUEUE as usize;
        let waits = was_idle && has_room && self.schedule.declared.overlap != Overlap::Allow;
        if is_first || !waits {
            self.offer(occurrence);
        } else if !self.is_set_aside(&occurrence) && !self.is_beyond_limit(&occurrence) {
            self.schedule.progress.queued.push(Queued { occurrence, not_before: None });
            let why = "due together with others because the node was late; it waits for its turn";
            self.record(&occurrence, Outcome::Queued, why, None);
        }
    }

    /// How many of the first occurrences are missed, and how many of the next are coalesced; the
    /// rest runs. If there are later occurrences that are only late, one of those is the latest,
    /// and no missed one runs in its place.
    fn split(&self, listed: &[Due], has_later: bool) -> (usize, usize) {
        let CatchUp { policy, window, limit, .. } = self.context.plan.catch_up;
        let awake = self.context.moment.awake_since;
        let awake = listed.iter().rev().take_while(|due| due.effective >= awake).count();
        let wanted = match policy {
            Policy::All => limit as usize,
            Policy::None | Policy::Last if has_later => 0,
            Policy::None => awake.min(1),
            Policy::Last => 1,
        };
        let oldest = window.and_then(|window| self.now().checked_sub(window).ok());
        let too_old = |due: &&Due| oldest.is_some_and(|oldest| due.effective < oldest);
        let too_old = listed.iter().take_while(too_old).count().min(listed.len() - awake);
        let not_run = listed.len() - wanted.min(listed.len() - too_old);
        match policy {
            Policy::None => (not_run, 0),
            _ => (too_old, not_run - too_old),
        }
    }

    /// Handles more due occurrences than are decided one by one: counts them, and finds the latest
    /// by searching backwards.
    fn too_many_due(&mut self) {
        let (mark, now) = (self.schedule.progress.mark, self.now());
        let plan = self.context.plan;
        let caught_up = plan.catch_up.decide(&plan.timing, mark, now);
        let first = self.schedule.progress.next;
        let last = plan.timing.previous_before(just_after(now)).map(Due::from).or(first);
        let (missed, coalesced) = self.ends(&caught_up, first, last);
        self.record_many(missed, caught_up.missed, Outcome::Missed);
        self.record_many(coalesced, caught_up.coalesced, Outcome::Coalesced);
        // The days off among so many occurrences get no rows of their own.
        if let Some(before) = caught_up.run.first().map(|run| just_before(run.effective)) {
            self.schedule.progress.mark = self.schedule.progress.mark.max(before);
        }
        let runs: Vec<Due> = caught_up.run.into_iter().map(Due::from).collect();
        self.catch_up(&runs, caught_up.coalesced.counted);
        self.correct_coalesced(runs.last().copied());
        if let Some(last) = last {
            self.advance(last, self.following(last));
        }
    }

    /// The first and last missed occurrence, and the first and last coalesced one.
    fn ends(&self, caught_up: &CaughtUp, first: Option<Due>, last: Option<Due>) -> (Ends, Ends) {
        let CatchUp { policy, window, .. } = self.context.plan.catch_up;
        let timing = &self.context.plan.timing;
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

    /// Writes one ledger row for many occurrences.
    fn record_many(&mut self, ends: Option<(Due, Due)>, count: Count, outcome: Outcome) {
        let Some((first, last)) = ends.filter(|_| count.counted > 0) else { return };
        let n = self.schedule.progress.n;
        self.schedule.progress.n += count.counted;
        let more = if count.more { "more than " } else { "" };
        let why = match outcome {
            Outcome::Missed => self.missed_reason(first).to_owned(),
            _ => self.coalesced_reason(first),
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

    /// Runs occurrences although later ones were due too, oldest first. Those among them that a
    /// person skipped are recorded as skipped.
    fn catch_up(&mut self, runs: &[Due], merged: u64) {
        let not_skipped = runs.iter().filter(|due| !self.is_skipped_by_hand(**due)).count();
        let pace = self.context.plan.catch_up.pace;
        let mut index = 0;
        for due in runs {
            let merged = if index == 0 { merged } else { 0 };
            let occurrence = self.number_with_days_off(*due, merged);
            if not_skipped == 1 {
                self.offer(Numbered { made_up: true, ..occurrence });
            } else if !self.is_set_aside(&occurrence) && !self.is_beyond_limit(&occurrence) {
                self.enqueue_paced(occurrence, index, pace);
                index += 1;
            }
        }
    }

    /// Names the occurrence that stands for the coalesced ones. If it does not run either, they are
    /// missed, unless it was itself merged into another.
    fn correct_coalesced(&mut self, stand_in: Option<Due>) {
        let Some(stand_in) = stand_in else { return };
        let ledger = &self.decision.ledger;
        let decided = ledger.iter().rev().find(|entry| entry.nominal == stand_in.nominal);
        let Some((latest, outcome)) = decided.map(|entry| (entry.n, entry.outcome)) else { return };
        let only = "only the latest one is made up for, and that";
        let (outcome, correct) = match outcome {
            Outcome::Skipped => (Outcome::Missed, format!("{only} was skipped")),
            Outcome::Failed => (Outcome::Missed, format!("{only} failed")),
            Outcome::Coalesced => {
                (Outcome::Coalesced, format!("missed: {only} was merged into another"))
            }
            _ => {
                for entry in &mut self.decision.ledger {
                    let them = if entry.count > 1 { "them" } else { "it" };
                    let named = format!("occurrence {latest} stands for {them}");
                    if entry.reason.contains(STANDS_FOR_IT) {
                        entry.reason = entry.reason.replace(STANDS_FOR_IT, &named).into();
                    }
                }
                return;
            }
        };
        for entry in &mut self.decision.ledger {
            for missed in [MISSED_IN_PAUSE, MISSED] {
                let told = format!("{missed}{STANDS_FOR_IT}");
                if entry.n != latest && entry.reason.contains(&told) {
                    entry.reason = entry.reason.replace(&told, &correct).into();
                    entry.outcome = outcome;
                }
            }
        }
    }

    /// Appends an occurrence to the queue. It does not start before the pace allows.
    pub(super) fn enqueue_paced(
        &mut self,
        occurrence: Numbered,
        index: usize,
        pace: Option<SignedDuration>,
    ) {
        let wait = pace.map(|pace| pace.saturating_mul(i32::try_from(index).unwrap_or(i32::MAX)));
        let not_before = wait.and_then(|wait| self.now().checked_add(wait).ok());
        let occurrence = Numbered { made_up: true, ..occurrence };
        self.schedule.progress.queued.push(Queued { occurrence, not_before });
        let why = if occurrence.backfilled {
            "asked for by a backfill; it waits for its turn"
        } else {
            "waits for its turn to be made up for"
        };
        self.record(&occurrence, Outcome::Queued, why, None);
    }
}

fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at)
}
