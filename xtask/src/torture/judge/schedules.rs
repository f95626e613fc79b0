//! Rules about schedules and their ledgers.

use std::collections::{BTreeMap, BTreeSet};

use super::{CLOCK_SLACK, Case, Finding, Rule};
use crate::torture::history::{self, Millis, Occurrence, Reply, Schedule, What, Wish, Work};

pub(super) fn judge(case: &Case<'_>, findings: &mut Vec<Finding>) {
    stored(case, findings);
    batches(case, findings);
    for schedule in &case.history.end.schedules {
        let Some((ask, wish)) = case.wishes.get(&*schedule.name) else {
            Rule("a schedule that nobody asked for", findings)
                .wrong_if(true, || format!("{schedule:?}"));
            continue;
        };
        Rule("a schedule that was refused is there", findings)
            .wrong_if(!ask.reply.may_be_done(), || format!("{schedule:?}: {:?}", ask.reply));
        Rule("the time of a creation lies outside of its request", findings).wrong_if(
            schedule.created + CLOCK_SLACK < ask.sent
                || schedule.created > ask.done + CLOCK_SLACK && ask.reply == Reply::Acknowledged,
            || format!("{schedule:?}: asked at {}, answered at {}", ask.sent, ask.done),
        );
        let mut rows = case.history.end.ledger.get(&schedule.id).cloned().unwrap_or_default();
        rows.sort_by_key(|row| row.n);
        ledger(case, schedule, &rows, findings);
        times(case, schedule, wish, &rows, findings);
        ended(case, schedule, wish, &rows, findings);
    }
    deletions(case, findings);
}

/// What was acknowledged is there once, unless somebody has deleted it.
fn stored(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("an acknowledged schedule is not there exactly once", findings);
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for schedule in &case.history.end.schedules {
        *count.entry(&schedule.name).or_default() += 1;
    }
    for (token, (ask, _)) in &case.wishes {
        let count = count.get(token).copied().unwrap_or(0);
        let deletion = case.deletions.get(token).map(|ask| &ask.reply);
        let may_be_gone = deletion.is_some_and(Reply::may_be_done);
        let is_lost = count == 0 && ask.reply == Reply::Acknowledged && !may_be_gone;
        rule.wrong_if(is_lost || count > 1, || format!("{token} is there {count} times"));
        let is_gone = deletion == Some(&Reply::Acknowledged);
        rule.wrong_if(is_gone && count > 0, || format!("{token} was deleted"));
    }
}

/// All schedules of a batch are there, or none.
fn batches(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("a part of a batch", findings);
    let there: BTreeSet<&str> = case.history.end.schedules.iter().map(|s| &*s.name).collect();
    for ask in &case.history.asks {
        let What::Create(wishes) = &ask.what else { continue };
        let count = wishes.iter().filter(|wish| there.contains(&*wish.token)).count();
        // Single schedules may be deleted; batches are not.
        let is_torn = wishes.len() > 1 && count != 0 && count != wishes.len();
        rule.wrong_if(is_torn, || format!("{count} of {} of {}", wishes.len(), wishes[0].token));
    }
}

/// Each occurrence has one row, numbers have no gaps, and whatever was started has its run.
fn ledger(case: &Case<'_>, schedule: &Schedule, rows: &[Occurrence], findings: &mut Vec<Finding>) {
    let name = &schedule.name;
    let mut next = 0;
    for row in rows {
        Rule("numbers of occurrences have gaps, or come twice", findings)
            .wrong_if(row.n != next, || format!("{name}: {} instead of {next}", row.n));
        next = row.n + row.count;
    }
    let mut by_number: BTreeMap<u64, Vec<&history::Run>> = BTreeMap::new();
    for run in
        case.history.end.runs.iter().filter(|run| run.schedule.as_ref() == Some(&schedule.id))
    {
        if let Some(n) = run.n {
            by_number.entry(n).or_default().push(run);
        }
    }
    for row in rows {
        let runs = by_number.remove(&row.n).unwrap_or_default();
        let is_started = matches!(&*row.outcome, "started" | "moved" | "failed");
        Rule("an occurrence that was started has no run, or one that was not has", findings)
            .wrong_if(is_started == runs.is_empty(), || format!("{name}: {row:?}, {runs:?}"));
        let is_named = runs.iter().any(|run| Some(&run.id) == row.run.as_ref());
        Rule("the ledger names another run", findings)
            .wrong_if(is_started && !is_named, || format!("{name}: {row:?}, {runs:?}"));
    }
    Rule("a run of an occurrence that the ledger does not have", findings)
        .wrong_if(!by_number.is_empty(), || format!("{name}: {by_number:?}"));
}

/// Occurrences are at the times that were asked for.
fn times(
    case: &Case<'_>,
    schedule: &Schedule,
    wish: &Wish,
    rows: &[Occurrence],
    findings: &mut Vec<Finding>,
) {
    let mut rule = Rule("an occurrence at another time than was asked for", findings);
    let name = &schedule.name;
    let apart = |rule: &mut Rule<'_>, every: Millis| {
        for pair in rows.windows(2) {
            let (a, b) = (pair[0].nominal, pair[1].nominal);
            let is_apart = b - a == every * i64::try_from(pair[0].count).unwrap_or(0);
            rule.wrong_if(!is_apart, || format!("{name}: {a}, then {b}, every {every}"));
        }
    };
    match wish.rule {
        history::Rule::Every(every) => {
            apart(&mut rule, every);
            let first = rows.first().map_or(schedule.created + every, |row| row.nominal);
            rule.wrong_if(first != schedule.created + every, || {
                format!("{name}: created at {}, first at {first}, every {every}", schedule.created)
            });
        }
        history::Rule::Cron(every) => {
            apart(&mut rule, every);
            for row in rows {
                rule.wrong_if(row.nominal % every != 0, || format!("{name}: {row:?}"));
            }
        }
        history::Rule::At(at) => {
            let edits = case.edits.get(&**name).map_or(&[][..], Vec::as_slice);
            let may = |(ask, at): &(&history::Ask, Millis)| ask.reply.may_be_done().then_some(*at);
            let allowed: Vec<Millis> =
                [at].into_iter().chain(edits.iter().filter_map(may)).collect();
            for row in rows {
                rule.wrong_if(!allowed.contains(&row.nominal), || format!("{name}: {row:?}"));
            }
            once_each(rows, name, findings);
            replaced(at, edits, rows, name, findings);
        }
    }
}

fn once_each(rows: &[Occurrence], name: &str, findings: &mut Vec<Finding>) {
    let distinct: BTreeSet<Millis> = rows.iter().map(|row| row.nominal).collect();
    Rule("one due time has two occurrences", findings)
        .wrong_if(distinct.len() != rows.len(), || format!("{name}: {rows:?}"));
}

/// A time that was replaced before it came does not come.
fn replaced(
    at: Millis,
    edits: &[(&history::Ask, Millis)],
    rows: &[Occurrence],
    name: &str,
    findings: &mut Vec<Finding>,
) {
    let mut rule = Rule("an occurrence at a time that had been replaced", findings);
    let mut before = at;
    for (ask, at) in edits {
        let is_replaced = ask.reply == Reply::Acknowledged && ask.done < before && *at != before;
        let comes = rows.iter().any(|row| row.nominal == before);
        rule.wrong_if(is_replaced && comes, || format!("{name}: {before} although {ask:?}"));
        if ask.reply.may_be_done() {
            before = *at;
        }
    }
}

/// Schedules come to their end with all their occurrences.
fn ended(
    case: &Case<'_>,
    schedule: &Schedule,
    wish: &Wish,
    rows: &[Occurrence],
    findings: &mut Vec<Finding>,
) {
    let name = &schedule.name;
    let wanted = if wish.work == Work::Failing { "dead" } else { "done" };
    let rejected = wish.work == Work::Approval && schedule.status == "dead";
    let may_fail = wish.work == Work::Failing || rejected;
    let has_started = |row: &&Occurrence| match &*row.outcome {
        "started" => true,
        "failed" => may_fail,
        _ => false,
    };
    let started = rows.iter().filter(has_started).count();
    Rule("a schedule that has not come to its end", findings)
        .wrong_if(schedule.status != wanted && !rejected, || {
            format!("{schedule:?}, {:?}: {rows:?}", wish.rule)
        });
    let edits = case.edits.get(&**name).map_or(&[][..], Vec::as_slice);
    let latest = edits.iter().rev().find(|(ask, _)| ask.reply.may_be_done());
    let is_enough = match (wish.rule, latest) {
        // Whatever is created or edited too late is never due.
        (history::Rule::At(at), None) => started == 1 || (schedule.created >= at && started == 0),
        (history::Rule::At(_), Some((ask, at))) => {
            let runs_then = rows.iter().any(|row| row.nominal == *at);
            // One that had been due before the edit may have come to its end.
            let is_late = ask.done >= *at || rows.iter().any(|row| row.nominal <= ask.done);
            let is_certain = ask.reply == Reply::Acknowledged && !is_late;
            if is_certain { runs_then } else { started >= 1 || is_late }
        }
        _ => started as u64 == wish.repeats,
    };
    // While the last ones that may succeed have not ended, what falls due is passed over.
    let last = rows.iter().filter(has_started).map(|row| row.n).max();
    let is_beyond = |row: &&Occurrence| row.outcome == "skipped" && Some(row.n) > last;
    let beyond = match wish.rule {
        history::Rule::At(_) => 0,
        _ => rows.iter().filter(is_beyond).count(),
    };
    Rule("a schedule without the occurrences that were asked for", findings)
        .wrong_if(!is_enough || started + beyond != rows.len(), || {
            format!("{schedule:?}, {:?}, {latest:?}: {rows:?}", wish.rule)
        });
}

/// Nothing starts after a deletion was acknowledged.
fn deletions(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let mut rule = Rule("a run of a schedule that had been deleted", findings);
    for run in case.history.end.runs.iter().filter(|run| run.schedule.is_some()) {
        let Some(token) = &run.token else { continue };
        let Some(ask) = case.deletions.get(&**token) else { continue };
        let is_late = ask.reply == Reply::Acknowledged && run.created > ask.done + CLOCK_SLACK;
        rule.wrong_if(is_late, || format!("{run:?}: deleted at {}", ask.done));
    }
}
