//! Checks the ledger: no occurrence is lost or doubled, and each has the outcome that the policies
//! give it.

use calendar::{Fate, Policy};
use engine::ledger::Outcome::{
    Coalesced, Dropped, Failed, Missed, Moved, Queued, Skipped, Started,
};
use engine::schedule::Status;
use engine::turn::Command;
use language::policy::overlap::Overlap;

use super::commit::Touched;
use super::{Cause, Checked, Kept, Violation, broken};
use crate::clock::instant;
use crate::watch::LedgerRow;

/// How many days off are remembered, so that none is recorded twice.
const DAYS_OFF: usize = 400;

/// One commit's ledger rows of one schedule.
struct Rows<'a> {
    now: i64,
    awake_since: i64,
    touched: &'a Touched,
    /// New rows, in the order of their numbers.
    new: Vec<&'a LedgerRow>,
}

impl Kept {
    /// Takes over new and changed rows. Returns how many occurrences the new rows stand for.
    pub(super) fn take_ledger(
        &mut self,
        cause: &Cause,
        now: i64,
        awake_since: i64,
        touched: &Touched,
    ) -> Result<u64, Violation> {
        let mut new = Vec::new();
        for (n, row) in &touched.ledger {
            match row {
                None => {
                    let message = format!("schedule {}: the row of {n} is gone", self.row.id);
                    return broken("ledger", message);
                }
                Some(row) if *n >= self.next_n => new.push(row),
                Some(row) => self.changed(now, row, touched)?,
            }
        }
        let rows = Rows { now, awake_since, touched, new };
        let first = self.next_n;
        for row in &rows.new {
            if row.n != self.next_n {
                let message =
                    format!("schedule {}: {} follows {}", self.row.id, row.n, self.next_n);
                return broken("ledger", message);
            }
            self.next_n += row.count;
        }
        match cause {
            Cause::Command(command) => match &**command {
                Command::Backfill { pace, .. } => {
                    let pace = pace.map(|pace| pace.as_millis() as i64);
                    self.made_up_for(&rows, pace)?;
                }
                _ => self.follow(&rows)?,
            },
            _ => self.follow(&rows)?,
        }
        Ok(self.next_n - first)
    }

    /// Checks a change to a row that existed before.
    fn changed(&mut self, now: i64, row: &LedgerRow, touched: &Touched) -> Checked {
        let (id, n) = (self.row.id, row.n);
        let was_queued = self.queued.remove(&n);
        match row.outcome {
            Started | Moved | Queued => {
                let early = was_queued.is_some_and(|not_before| not_before > now);
                let begins = self.active.get(&n).is_some_and(|going| going.run == row.run);
                if early || row.run.is_none() || (was_queued.is_none() && !begins) {
                    let message = format!("schedule {id}: {row:?} was queued {was_queued:?}");
                    return broken("queue", message);
                }
                self.check_name(row)
            }
            Dropped => {
                // A retry that it waited for is given up as well.
                let waited = self.active.get(&n).is_some_and(|going| going.run.is_none());
                if waited {
                    self.active.remove(&n);
                }
                Ok(())
            }
            Failed if touched.has_ended => Ok(()),
            Failed | Skipped | Coalesced | Missed => {
                broken("ledger", format!("schedule {id}: {row:?} was decided before"))
            }
        }
    }

    /// Checks that an occurrence is `started` at the rule's time, and `moved` at another.
    fn check_name(&self, row: &LedgerRow) -> Checked {
        let spread = self.timing.moved_by().as_millis() as i64;
        // The spread may have been edited while the run waited for capacity.
        let is_moved = row.nominal != row.effective && row.nominal + spread != row.effective;
        match row.outcome {
            Started if is_moved && !self.made_up.contains(&row.n) => {
                broken("ledger", format!("schedule {}: {row:?} was moved", self.row.id))
            }
            _ => Ok(()),
        }
    }

    /// Checks that new rows follow the rule: one for each occurrence, in order.
    fn follow(&mut self, rows: &Rows<'_>) -> Checked {
        let mut group: Vec<(i64, i64)> = Vec::new();
        let mut taken = Vec::new();
        // Others at one instant, which were moved there or skipped by hand, come last.
        let mut twins: Vec<(i64, i64)> = Vec::new();
        for row in &rows.new {
            if row.effective > rows.now && row.outcome != Coalesced && row.outcome != Skipped {
                return broken(
                    "early",
                    format!("schedule {}: {row:?} at {}", self.row.id, rows.now),
                );
            }
            if row.count > 1 {
                self.follow_many(row, &mut group, &mut twins)?;
                taken.push(*row);
                continue;
            }
            let due = (row.nominal, row.effective);
            let twin = if self.is_skipped_by_hand(row.nominal) { Skipped } else { Coalesced };
            if row.outcome == twin
                && let Some(index) = twins.iter().position(|twin| *twin == due)
            {
                twins.remove(index);
                continue;
            }
            let expected = if group.is_empty() { self.next_group() } else { Vec::new() };
            if expected.contains(&due) {
                group.clone_from(&expected);
            }
            match group.iter().position(|expected| *expected == due) {
                Some(index) => {
                    let is_skipped = |(nominal, _): (i64, i64)| self.is_skipped_by_hand(nominal);
                    if is_skipped(due) && !group.iter().all(|due| is_skipped(*due)) {
                        let message =
                            format!("schedule {}: {row:?} stands for {group:?}", self.row.id);
                        return broken("skipped", message);
                    }
                    group.remove(index);
                    twins.append(&mut group);
                    self.consume(row);
                    taken.push(*row);
                }
                None if self.is_day_off(row, rows) => self.day_off(row)?,
                None => {
                    let message = format!(
                        "schedule {}: {row:?}, expected {expected:?} {group:?}",
                        self.row.id
                    );
                    return broken("occurrences", message);
                }
            }
        }
        group.append(&mut twins);
        if !group.is_empty() {
            let message = format!("schedule {}: {group:?} have no row", self.row.id);
            return broken("occurrences", message);
        }
        self.judge(&taken, rows)
    }

    fn next_group(&self) -> Vec<(i64, i64)> {
        if self.follows_completion() {
            return self.next.into_iter().collect();
        }
        self.group_after(self.cursor)
    }

    /// Checks a row that stands for many occurrences.
    fn follow_many(
        &mut self,
        row: &LedgerRow,
        group: &mut Vec<(i64, i64)>,
        twins: &mut Vec<(i64, i64)>,
    ) -> Checked {
        let mut last = None;
        for index in 0..row.count {
            if group.is_empty() {
                *group = self.next_group();
            }
            if group.is_empty() || index == 0 && group[0].0 != row.nominal {
                let message = format!("schedule {}: {row:?}, expected {group:?}", self.row.id);
                return broken("occurrences", message);
            }
            let (nominal, effective) = group.remove(0);
            if self.is_skipped_by_hand(nominal) {
                let message =
                    format!("schedule {}: {nominal} was skipped, yet is in {row:?}", self.row.id);
                return broken("skipped", message);
            }
            twins.append(group);
            self.cursor = self.cursor.max(effective);
            last = Some(nominal);
        }
        if last != Some(row.last_nominal) || !matches!(row.outcome, Missed | Coalesced) {
            let message = format!("schedule {}: {row:?} ends with {last:?}", self.row.id);
            return broken("occurrences", message);
        }
        Ok(())
    }

    fn consume(&mut self, row: &LedgerRow) {
        self.cursor = self.cursor.max(row.effective);
        self.counts_from = None;
        self.been.retain(|nominal| *nominal > row.effective);
        if row.nominal > row.effective {
            self.been.insert(row.nominal);
        }
    }

    /// Whether the row is about a day off, or about an occurrence that lands on the time of
    /// another.
    fn is_day_off(&self, row: &LedgerRow, rows: &Rows<'_>) -> bool {
        if self.timing.calendar().is_none() || self.follows_completion() || row.run.is_some() {
            return false;
        }
        let spread = self.timing.moved_by().as_millis() as i64;
        let lands = |at: i64| {
            let with = |other: &&LedgerRow| other.n != row.n && other.effective == at + spread;
            rows.new.iter().any(with)
        };
        match (self.timing.fate(instant(row.nominal)), row.outcome) {
            (Fate::Skipped { .. }, Skipped) => true,
            (Fate::Moved { to, .. }, Coalesced) => lands(to.as_millisecond()),
            (Fate::Kept, Coalesced) => lands(row.nominal),
            _ => false,
        }
    }

    fn day_off(&mut self, row: &LedgerRow) -> Checked {
        let just_before = instant(row.nominal - 1);
        let is_ruled = self.timing.rule().next_after(just_before) == Some(instant(row.nominal));
        if !is_ruled || !self.days_off.insert(row.nominal) {
            let message = format!("schedule {}: {row:?} is not of the rule, or twice", self.row.id);
            return broken("occurrences", message);
        }
        if self.days_off.len() > DAYS_OFF {
            self.days_off.pop_first();
        }
        Ok(())
    }

    /// Checks past occurrences that someone asked for.
    fn made_up_for(&mut self, rows: &Rows<'_>, pace: Option<i64>) -> Checked {
        for (index, row) in rows.new.iter().enumerate() {
            let found = self.timing.next_after(instant(row.effective - 1));
            let found =
                found.map(|due| (due.nominal.as_millisecond(), due.effective.as_millisecond()));
            if found != Some((row.nominal, row.effective)) || row.effective > rows.now {
                let message = format!("schedule {}: {row:?}, the rule has {found:?}", self.row.id);
                return broken("occurrences", message);
            }
            self.made_up.insert(row.n);
            self.wait(row, pace.map_or(i64::MIN, |pace| rows.now + index as i64 * pace));
        }
        Ok(())
    }

    fn wait(&mut self, row: &LedgerRow, not_before: i64) {
        if row.outcome == Queued && row.run.is_none() {
            self.queued.insert(row.n, not_before);
        }
    }

    /// Checks the outcomes against the policies.
    fn judge(&mut self, taken: &[&LedgerRow], rows: &Rows<'_>) -> Checked {
        let runs = |row: &&&LedgerRow| matches!(row.outcome, Started | Moved | Queued);
        let missed = self.missed();
        let is_asleep = |row: &&&LedgerRow| self.is_asleep(row, rows);
        let asleep = taken.iter().filter(is_asleep).filter(runs).count();
        // Those that a person skipped are no candidates: the policy does not see them.
        let skipped =
            |row: &&&LedgerRow| row.outcome == Skipped && !self.is_skipped_by_hand(row.nominal);
        let candidates = match missed.policy {
            Policy::All => asleep + taken.iter().filter(is_asleep).filter(skipped).count(),
            _ => 0,
        };
        let mut index = 0;
        for row in taken {
            self.judge_lateness(row, taken, rows)?;
            self.judge_overlap(row, taken, rows)?;
            if runs(&row) {
                self.judge_limit(row, index as u64)?;
                let paced = missed.pace > 0 && candidates > 1 && self.is_asleep(row, rows);
                self.wait(row, if paced { rows.now + index * missed.pace } else { i64::MIN });
                index += 1;
                if row.run.is_some() {
                    self.check_name(row)?;
                }
            }
        }
        self.judge_stand_ins(taken)?;
        let most = if missed.policy == Policy::All { missed.limit } else { 1 };
        if asleep > most {
            let message = format!("schedule {}: {asleep} of {taken:?} run", self.row.id);
            return broken("catch-up", message);
        }
        Ok(())
    }

    /// Checks that an occurrence which stands for others tells how many: those that this commit
    /// coalesced because they were missed.
    fn judge_stand_ins(&self, taken: &[&LedgerRow]) -> Checked {
        let coalesced = taken.iter().filter(|row| {
            row.outcome == Coalesced && (row.count > 1 || row.reason.starts_with("missed"))
        });
        let coalesced: u64 = coalesced.map(|row| row.count).sum();
        let told = |row: &LedgerRow| {
            let (_, rest) = row.reason.split_once("; stands for ")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        };
        match taken.iter().find_map(|row| told(row)) {
            Some(told) if told != coalesced => {
                let message = format!("schedule {}: {coalesced} of {taken:?}", self.row.id);
                broken("catch-up", message)
            }
            _ => Ok(()),
        }
    }

    /// Whether no node drove the schedule, as it is now declared, when the occurrence was due.
    fn is_asleep(&self, row: &LedgerRow, rows: &Rows<'_>) -> bool {
        row.effective < rows.awake_since.max(self.told_at.unwrap_or(i64::MIN))
    }

    /// Whether a node did: the occurrence is then late, not missed.
    fn is_late(&self, row: &LedgerRow, rows: &Rows<'_>) -> bool {
        self.told_at.is_some() && !self.is_asleep(row, rows)
    }

    /// Checks that no more start or wait than the repeat limit allows. `taken` of this commit did
    /// so before this one.
    fn judge_limit(&self, row: &LedgerRow, taken: u64) -> Checked {
        let total = self.declared.total_repeats;
        let before = self.counted + self.counting().saturating_sub(taken);
        if total > 0 && before + taken >= total {
            let message =
                format!("schedule {}: {row:?} after {before} and {taken} of {total}", self.row.id);
            return broken("repeats", message);
        }
        Ok(())
    }

    fn judge_lateness(&self, row: &LedgerRow, taken: &[&LedgerRow], rows: &Rows<'_>) -> Checked {
        let missed = self.missed();
        let was_asleep = row.effective < rows.awake_since;
        let too_old = missed.window.is_some_and(|window| rows.now - row.effective > window);
        let is_given_up = was_asleep && (missed.policy == Policy::None || too_old);
        let id = self.row.id;
        // If the one that was to stand for the others does not run, they are missed as well.
        let nobody_skipped = |row: &&&LedgerRow| !self.is_skipped_by_hand(row.nominal);
        let latest = taken.iter().filter(nobody_skipped).max_by_key(|row| row.n);
        let none_ran = latest.is_some_and(|row| matches!(row.outcome, Skipped | Failed));
        let is_for_latest = missed.policy == Policy::Last && none_ran;
        if row.count == 1 && row.outcome != Skipped && self.is_skipped_by_hand(row.nominal) {
            return broken("skipped", format!("schedule {id}: {row:?} was skipped by hand"));
        }
        match row.outcome {
            Missed if row.count == 1 && self.is_late(row, rows) => broken(
                "catch-up",
                format!("schedule {id}: {row:?}, awake since {}", rows.awake_since),
            ),
            Coalesced
                if row.count == 1
                    && row.reason.starts_with("missed")
                    && self.is_late(row, rows) =>
            {
                broken("catch-up", format!("schedule {id}: {row:?} was only late"))
            }
            Missed
                if missed.policy != Policy::None && missed.window.is_none() && !is_for_latest =>
            {
                broken("catch-up", format!("schedule {id}: {row:?} without a window"))
            }
            Started | Moved | Queued if is_given_up => {
                let since = rows.awake_since;
                broken(
                    "catch-up",
                    format!("schedule {id}: {row:?} at {}, awake since {since}", rows.now),
                )
            }
            _ => Ok(()),
        }
    }

    fn judge_overlap(&mut self, row: &LedgerRow, taken: &[&LedgerRow], rows: &Rows<'_>) -> Checked {
        let touched = rows.touched;
        let overlap = self.declared.overlap;
        let is_busy =
            touched.was_busy || touched.has_ended || !touched.created.is_empty() || taken.len() > 1;
        let skipped_by_hand = self.is_skipped_by_hand(row.nominal);
        // If only one is left of many, it is treated like any other occurrence.
        let is_made_up = |row: &&&LedgerRow| {
            !matches!(row.outcome, Missed | Coalesced) && !self.is_skipped_by_hand(row.nominal)
        };
        let several = taken.iter().filter(is_made_up).count() > 1;
        let makes_up = self.missed().policy == Policy::All && several;
        let waits_for_place = row.run.is_some();
        let fits = match row.outcome {
            Skipped => {
                let by_policy = matches!(overlap, Overlap::Skip | Overlap::QueueAll) && is_busy;
                // A producer's run that waits for its workflow stands for the occurrences that are
                // due meanwhile.
                let produces = self.row.is_of_producer();
                let waits = produces && row.reason.contains("waits for its workflow") && is_busy;
                // A handler that fails pauses its workflow in the middle of a commit.
                let on_hold = touched.on_hold || touched.was_held && produces;
                let no_error = overlap == Overlap::Error && row.reason.contains("made up for");
                let total = self.declared.total_repeats;
                let beyond = total > 0 && row.reason.contains("no repeat is left");
                let while_busy = by_policy || no_error || beyond;
                let held = on_hold || self.is_held(touched) || skipped_by_hand;
                held || waits || while_busy && is_busy
            }
            Queued if !waits_for_place => {
                let keeps = matches!(overlap, Overlap::Queue | Overlap::QueueAll | Overlap::Cancel);
                let full = overlap == Overlap::Queue && !self.queued.is_empty() && !makes_up;
                // Several occurrences that are late together are queued and run one after the
                // other.
                let late = taken.iter().filter(|row| !self.is_asleep(row, rows)).count() > 1
                    && !self.is_asleep(row, rows);
                // An occurrence that is made up for is late, which is no error of the schedule.
                let is_late = overlap == Overlap::Error && row.effective < rows.now;
                ((keeps || is_late) && is_busy && !full) || makes_up || late
            }
            Failed => overlap == Overlap::Error && is_busy && touched.after == Status::Dead,
            Coalesced if taken.len() == 1 => overlap == Overlap::Queue && !self.queued.is_empty(),
            Dropped => !self.is_idle() || touched.after != Status::Active,
            _ => true,
        };
        if !fits {
            let message = format!("schedule {}: {row:?} under {}", self.row.id, overlap.name());
            return broken("overlap", message);
        }
        if row.outcome == Failed {
            self.error_count += 1;
        }
        if overlap == Overlap::Cancel
            && !makes_up
            && matches!(row.outcome, Started | Moved | Queued)
        {
            // The occurrence that waited for its retry makes way.
            self.active.retain(|_, going| going.run.is_some());
        }
        Ok(())
    }

    /// Whether the status changed in this very commit: either outcome is right then.
    fn is_held(&self, touched: &Touched) -> bool {
        touched.before != touched.after
    }
}
