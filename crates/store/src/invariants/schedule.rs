//! Checks that a schedule agrees with its declaration and with the rows stored beside it.

use std::collections::BTreeSet;

use engine::RunKey;
use engine::schedule::{Active, Override, Schedule, Status};
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::schedule::Plan;

use super::findings::Breach;
use crate::stored::ms;
use crate::words::words;

/// A mark is never later than now. A mark that is ahead by no more than this, and that nothing
/// contradicts, is tolerated: a clock that was wrong for a while is not damage.
const AHEAD: SignedDuration = SignedDuration::from_hours(31 * 24);

/// The rows stored beside a schedule.
#[derive(Debug, Default)]
pub(crate) struct BesideSchedule {
    /// Whether the stored wakeup is not later than the time at which the schedule must be woken.
    pub(crate) wakes: bool,
    /// Its next time may come from a calendar or zone database that has changed since.
    pub(crate) is_outdated: bool,
    /// One more than the greatest occurrence number in its ledger or its runs.
    pub(crate) next_number: u64,
    /// The latest time of an occurrence that was decided, in milliseconds.
    pub(crate) decided_to: Option<i64>,
    /// The open runs among those that its progress names.
    pub(crate) open: BTreeSet<RunKey>,
    pub(crate) overrides: Vec<Override>,
    /// The words by which search finds it.
    pub(crate) words: BTreeSet<String>,
    /// The calendar whose changes it is recomputed for.
    pub(crate) calendar: Option<String>,
}

impl BesideSchedule {
    fn decided(&self) -> Option<Timestamp> {
        self.decided_to.and_then(|at| Timestamp::from_millisecond(at).ok())
    }
}

/// A disagreement between a schedule, its declaration and the rows beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleBreach {
    Wakeup,
    /// The schedule waits for a run that has ended or is gone: it would skip or queue for ever.
    WaitsForNothing(RunKey),
    /// The schedule would give occurrence numbers that are taken.
    NumberBehind,
    /// The schedule would decide occurrences again that it has decided.
    MarkBehind,
    /// The schedule would decide nothing until its mark, which is ahead of now and of everything
    /// that could have moved it there.
    MarkAhead,
    /// The schedule is active, has no next time, and no run of it is open or queued.
    NoNextTime,
    /// The next time is not the one that the declaration yields.
    OtherNextTime,
    /// The stored flag that says whether the schedule has overrides is wrong.
    Overrides,
    /// The stored search words are not those of the name.
    Words,
    /// The stored calendar is not the declared one.
    Calendar,
    /// The declaration cannot be read with the current zones and calendars: a person has to look.
    Undecidable(String),
}

impl Breach for ScheduleBreach {
    fn code(&self) -> &'static str {
        match self {
            ScheduleBreach::Wakeup => "schedule-without-wakeup",
            ScheduleBreach::WaitsForNothing(_) => "schedule-waits-for-nothing",
            ScheduleBreach::NumberBehind => "schedule-number",
            ScheduleBreach::MarkBehind | ScheduleBreach::MarkAhead => "schedule-mark",
            ScheduleBreach::NoNextTime => "schedule-without-next-time",
            ScheduleBreach::OtherNextTime => "schedule-next-time",
            ScheduleBreach::Overrides => "schedule-overrides",
            ScheduleBreach::Words => "schedule-words",
            ScheduleBreach::Calendar => "schedule-calendar",
            ScheduleBreach::Undecidable(_) => "schedule-undecidable",
        }
    }

    fn message(&self, id: i64) -> String {
        match self {
            ScheduleBreach::Wakeup => format!("schedule {id} does not wake when it should"),
            ScheduleBreach::WaitsForNothing(run) => {
                format!("schedule {id} waits for run {}, which has ended or is gone", run.0)
            }
            ScheduleBreach::NumberBehind => {
                format!("schedule {id} would give numbers to occurrences that others have already")
            }
            ScheduleBreach::MarkBehind => {
                format!("schedule {id} would decide again what is decided: its mark was set back")
            }
            ScheduleBreach::MarkAhead => {
                format!(
                    "schedule {id} would decide nothing for long: its mark is ahead of the clock"
                )
            }
            ScheduleBreach::NoNextTime => {
                format!("schedule {id} is active, but has no next time and nothing is going on")
            }
            ScheduleBreach::OtherNextTime => {
                format!("schedule {id} has another next time than its declaration says")
            }
            ScheduleBreach::Overrides => {
                format!("schedule {id} does not know whether occurrences of it are overridden")
            }
            ScheduleBreach::Words => {
                format!("schedule {id} is not found by the words of its name")
            }
            ScheduleBreach::Calendar => {
                format!("schedule {id} is not listed under the calendar that it declares")
            }
            ScheduleBreach::Undecidable(why) => format!(
                "schedule {id} cannot be decided: {why} (edit it with `punctual schedule edit {id}`, or \
                 declare the calendar that it names)"
            ),
        }
    }

    fn can_be_mended(&self) -> bool {
        !matches!(self, ScheduleBreach::Undecidable(_))
    }
}

impl ScheduleBreach {
    /// Returns every breach, and mends the schedule in memory.
    pub(crate) fn all(
        schedule: &mut Schedule,
        beside: &BesideSchedule,
        rules: &Rules,
        now: Timestamp,
    ) -> Vec<ScheduleBreach> {
        let mut found = Vec::new();
        if !beside.wakes {
            found.push(ScheduleBreach::Wakeup);
        }
        let known: BTreeSet<String> = words(&schedule.declared.name).collect();
        if known != beside.words {
            found.push(ScheduleBreach::Words);
        }
        if schedule.declared.timing.calendar != beside.calendar {
            found.push(ScheduleBreach::Calendar);
        }
        if schedule.progress.has_overrides == beside.overrides.is_empty() {
            schedule.progress.has_overrides = !beside.overrides.is_empty();
            found.push(ScheduleBreach::Overrides);
        }
        mend_active(schedule, beside, &mut found);
        mend_numbers(schedule, beside, &mut found);
        mend_mark_ahead(schedule, beside, now, &mut found);
        // Only active schedules: resuming or reviving one moves its mark to that moment and
        // computes its next time anyway.
        if schedule.status == Status::Active {
            let key = schedule.spread_key();
            match schedule.declared.plan(rules, schedule.progress.anchor, &key) {
                Ok(plan) => {
                    mend_mark_behind(schedule, beside, &plan, &mut found);
                    mend_next(schedule, beside, &plan, now, &mut found);
                }
                Err(mistakes) => {
                    let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                    found.push(ScheduleBreach::Undecidable(all.join("; ")));
                }
            }
        }
        found
    }
}

/// Removes runs that have ended or are gone from those the schedule waits for.
fn mend_active(schedule: &mut Schedule, beside: &BesideSchedule, found: &mut Vec<ScheduleBreach>) {
    schedule.progress.active.retain(|active| match active.run() {
        Some(run) if !beside.open.contains(&run) => {
            found.push(ScheduleBreach::WaitsForNothing(run));
            false
        }
        _ => true,
    });
}

fn mend_numbers(schedule: &mut Schedule, beside: &BesideSchedule, found: &mut Vec<ScheduleBreach>) {
    let progress = &schedule.progress;
    let active = progress.active.iter().filter_map(|active| match active {
        Active::Running { occurrence, .. } | Active::Retrying { occurrence, .. } => {
            Some(occurrence.n)
        }
        Active::ByHand { .. } => None,
    });
    let numbers = active.chain(progress.queued.iter().map(|queued| queued.occurrence.n));
    let least = numbers.map(|n| n + 1).max().unwrap_or(0).max(beside.next_number);
    if progress.n < least {
        schedule.progress.n = least;
        found.push(ScheduleBreach::NumberBehind);
    }
}

/// Mends a mark that is ahead of now: far ahead, or ahead of the next time, which is always later
/// than the mark, or without a next time. If a clock that was ahead moved it there, other records
/// carry that time too: a decided occurrence, an edit, a resume. A mark without such a record is
/// damage, and is set back to the latest recorded time, so that the occurrences since then are
/// decided.
fn mend_mark_ahead(
    schedule: &mut Schedule,
    beside: &BesideSchedule,
    now: Timestamp,
    found: &mut Vec<ScheduleBreach>,
) {
    let progress = &schedule.progress;
    let occurrences = progress.active.iter().filter_map(|active| match active {
        Active::Running { occurrence, .. } | Active::Retrying { occurrence, .. } => {
            Some(occurrence.due.effective)
        }
        Active::ByHand { .. } => None,
    });
    let occurrences =
        occurrences.chain(progress.queued.iter().map(|queued| queued.occurrence.due.effective));
    let told = occurrences.chain(beside.decided()).chain(progress.renewed_at);
    let latest = told.fold(schedule.created_at.max(progress.anchor), Timestamp::max);
    // If the ledger has expired, the time of the last run still shows how far the schedule came. If
    // it has not, the mark is not set to that time: the last run may have been started by hand.
    let or_run = progress.last_run_at.map_or(latest, |at| latest.max(at));
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    let is_contradicted = match progress.next {
        Some(next) => ms(next.effective) <= ms(progress.mark),
        None => is_idle && schedule.status == Status::Active,
    };
    let ahead = progress.mark.duration_since(now);
    let is_damage = ahead > AHEAD || (ahead > SignedDuration::ZERO && is_contradicted);
    if is_damage && ms(progress.mark) > ms(or_run) {
        schedule.progress.mark = if beside.decided().is_some() { latest } else { or_run };
        found.push(ScheduleBreach::MarkAhead);
    }
}

fn mend_mark_behind(
    schedule: &mut Schedule,
    beside: &BesideSchedule,
    plan: &Plan,
    found: &mut Vec<ScheduleBreach>,
) {
    let mark = schedule.progress.mark;
    // A backfill may have decided occurrences beyond the mark. That is a breach only if these times
    // come again: they do not if the timing has changed since. A schedule that is not active
    // decides nothing before it is resumed.
    let is_active = schedule.status == Status::Active;
    let follows_completion = schedule.follows_completion(plan);
    let comes_again = |decided: &Timestamp| {
        let just_before = decided.checked_sub(SignedDuration::from_millis(1)).unwrap_or(mark);
        let after = if follows_completion { mark } else { mark.max(just_before) };
        let next = schedule.next_after(plan, &beside.overrides, after);
        let is_next = next.is_some_and(|next| next.effective <= *decided);
        is_active && ms(mark) < ms(*decided) && is_next
    };
    if let Some(decided) = beside.decided().filter(comes_again) {
        schedule.progress.mark = decided;
        found.push(ScheduleBreach::MarkBehind);
    }
}

fn mend_next(
    schedule: &mut Schedule,
    beside: &BesideSchedule,
    plan: &Plan,
    now: Timestamp,
    found: &mut Vec<ScheduleBreach>,
) {
    let progress = &schedule.progress;
    let is_idle = progress.active.is_empty() && progress.queued.is_empty();
    let follows_completion = schedule.follows_completion(plan);
    if progress.next.is_none() && is_idle {
        let after = if follows_completion { now } else { progress.mark };
        let next = schedule.next_after(plan, &beside.overrides, after);
        schedule.progress.next = next;
        if next.is_none() {
            // No occurrence is left, so the schedule is done.
            schedule.status = Status::Done;
        }
        found.push(ScheduleBreach::NoNextTime);
    } else if !follows_completion && !beside.is_outdated {
        let next = schedule.next_after(plan, &beside.overrides, progress.mark);
        let times = |due: engine::schedule::Due| (ms(due.nominal), ms(due.effective));
        if progress.next.map(times) != next.map(times) {
            schedule.progress.next = next;
            found.push(ScheduleBreach::OtherNextTime);
        }
    }
}
