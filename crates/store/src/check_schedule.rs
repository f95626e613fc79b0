//! Whether a schedule agrees with its declaration and with what is stored beside it, in every store alike.

use std::collections::{BTreeMap, BTreeSet};

use engine::RunKey;
use engine::schedule::{Active, Override, Schedule, Status};
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::schedule::Plan;

use crate::check_run::{TOLD, more};
use crate::stored::ms;
use crate::view::Finding;
use crate::words::words;

/// A mark is never later than now. Clocks that were wrong for a while are no damage: so much is let pass.
const AHEAD: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What is stored beside a schedule.
#[derive(Debug, Default)]
pub(crate) struct BesideSchedule {
    /// Its next time may be of a calendar or zone database that has changed since.
    pub(crate) is_outdated: bool,
    /// The number after the greatest one that its ledger or one of its runs has.
    pub(crate) next_number: u64,
    /// The latest time of an occurrence that was decided, in milliseconds.
    pub(crate) decided_to: Option<i64>,
    /// The runs that its progress names and that have not ended.
    pub(crate) open: BTreeSet<RunKey>,
    pub(crate) overrides: Vec<Override>,
    /// What it is found by.
    pub(crate) words: BTreeSet<String>,
}

impl BesideSchedule {
    fn decided(&self) -> Option<Timestamp> {
        self.decided_to.and_then(|at| Timestamp::from_millisecond(at).ok())
    }
}

/// Something about a schedule that does not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleBreach {
    /// It waits for a run that has ended or is gone: it would skip or queue for ever.
    WaitsForNothing(RunKey),
    /// It would give numbers of occurrences that others have.
    NumberBehind,
    /// It would decide again what is decided.
    MarkBehind,
    /// It would decide nothing until its mark, which is long after now and after everything that can have moved it.
    MarkAhead,
    /// It is active, has no next time, and nothing is going on.
    NoNextTime,
    /// Its next time is not what its declaration says.
    OtherNextTime,
    /// Whether it has overrides.
    Overrides,
    /// The words it is found by.
    Words,
    /// Its declaration cannot be read with the zones and calendars that there are: a person has to look.
    Undecidable(String),
}

impl ScheduleBreach {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            ScheduleBreach::WaitsForNothing(_) => "schedule-waits-for-nothing",
            ScheduleBreach::NumberBehind => "schedule-number",
            ScheduleBreach::MarkBehind | ScheduleBreach::MarkAhead => "schedule-mark",
            ScheduleBreach::NoNextTime => "schedule-without-next-time",
            ScheduleBreach::OtherNextTime => "schedule-next-time",
            ScheduleBreach::Overrides => "schedule-overrides",
            ScheduleBreach::Words => "schedule-words",
            ScheduleBreach::Undecidable(_) => "schedule-undecidable",
        }
    }

    pub(crate) fn message(&self, id: i64) -> String {
        match self {
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
                    "schedule {id} would decide nothing for more than a month: its mark is ahead of the clock"
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
            ScheduleBreach::Undecidable(why) => format!(
                "schedule {id} cannot be decided: {why} (edit it with `punctual schedule edit {id}`, or \
                 declare the calendar that it names)"
            ),
        }
    }

    pub(crate) fn can_be_mended(&self) -> bool {
        !matches!(self, ScheduleBreach::Undecidable(_))
    }
}

/// Everything that does not agree. Afterwards the schedule is as it should be.
pub(crate) fn breaches(
    schedule: &mut Schedule,
    beside: &BesideSchedule,
    rules: &Rules,
    now: Timestamp,
) -> Vec<ScheduleBreach> {
    let mut found = Vec::new();
    let known: BTreeSet<String> = words(&schedule.declared.name).collect();
    if known != beside.words {
        found.push(ScheduleBreach::Words);
    }
    if schedule.progress.has_overrides == beside.overrides.is_empty() {
        schedule.progress.has_overrides = !beside.overrides.is_empty();
        found.push(ScheduleBreach::Overrides);
    }
    mend_active(schedule, beside, &mut found);
    mend_numbers(schedule, beside, &mut found);
    mend_mark_ahead(schedule, beside, now, &mut found);
    // Resuming or reviving moves the mark to that moment, and computes the next time.
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

/// What has ended or is gone is not waited for.
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

/// A mark that is long after now was moved there by a clock that was ahead, and then something else tells of that
/// time: an occurrence that was decided, an edit, a resume. A mark that nothing tells of is damage. It is set back to the
/// latest time that something tells of, so that what came since is decided.
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
    // The ledger may have expired, and the last run is known all the same. It may be one by hand: with a ledger, it does
    // not say how far the schedule has come.
    let or_run = progress.last_run_at.map_or(latest, |at| latest.max(at));
    if progress.mark.duration_since(now) > AHEAD && ms(progress.mark) > ms(or_run) {
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
    // What a backfill has decided may lie beyond the mark, without coming again: not if the times of the schedule are
    // others since. While the schedule is not active nothing comes: it decides nothing before it is resumed.
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
            // Nothing comes any more: that is how it ends.
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

/// What is said of breaches, by their kind.
pub(crate) fn findings(found: &[(i64, ScheduleBreach)], repair: bool) -> Vec<Finding> {
    let mut kinds: BTreeMap<&'static str, (usize, Vec<Finding>)> = BTreeMap::new();
    for (id, breach) in found {
        let (count, told) = kinds.entry(breach.code()).or_default();
        *count += 1;
        if *count <= TOLD {
            let (code, repaired) = (breach.code(), repair && breach.can_be_mended());
            told.push(Finding { code, message: breach.message(*id), repaired });
        }
    }
    let mut findings = Vec::new();
    for (code, (count, told)) in kinds {
        let repaired = told.first().is_some_and(|finding| finding.repaired);
        findings.extend(told);
        findings.extend(more(count, code).map(|message| Finding { code, message, repaired }));
    }
    findings
}
