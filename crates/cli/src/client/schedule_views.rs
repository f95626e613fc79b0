//! Prints schedules and their occurrences.

use std::io::Write;

use jiff::SignedDuration;
use serde_json::Value;

use super::shown::{self, distance, field, occurrence_time, plain, state, table, time};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM, NOTE, columns, duration};
use crate::validate::counted;

/// Prints a page of schedules.
pub(super) fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|schedule| {
        vec![
            Cell::plain(field(schedule, "id")),
            Cell::plain(field(schedule, "name")),
            Cell::plain(workflow(schedule)),
            state(&field(schedule, "status")),
            coming(schedule),
            state(&field(schedule, "last_outcome")),
            Cell::styled(field(schedule, "words"), DIM),
        ]
    });
    let headings = ["ID", "NAME", "WORKFLOW", "STATUS", "NEXT", "LAST", "WHEN"];
    table(out, &headings, rows.collect())?;
    shown::more(out, page)
}

pub(super) fn show(schedule: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let title = format!("schedule {}: {}", field(schedule, "id"), field(schedule, "name"));
    let counts = format!(
        "{} succeeded, {} failed",
        field(schedule, "run_count"),
        field(schedule, "error_count")
    );
    let lives_again = if schedule["lives_again"] == true { "lives again" } else { "" };
    shown::details(
        out,
        &title,
        vec![
            ("for", Cell::plain(field(schedule, "description"))),
            ("starts", Cell::plain(workflow(schedule))),
            ("when", Cell::plain(field(schedule, "words"))),
            ("status", state(&field(schedule, "status"))),
            ("", Cell::styled(lives_again, NOTE)),
            ("next", occurrence_time(schedule, "next_run_at")),
            ("", coming(schedule)),
            ("last run", time(schedule, "last_run_at")),
            ("last outcome", state(&field(schedule, "last_outcome"))),
            ("last error", Cell::plain(field(schedule, "last_error"))),
            ("runs", Cell::plain(counts)),
            ("overlap", Cell::plain(field(schedule, "overlap"))),
            ("catch-up", Cell::plain(plain(&schedule["catch_up"]))),
            ("timeout", timeout(schedule)),
            ("payload", Cell::plain(field(schedule, "payload"))),
        ],
    )?;
    for warning in shown::items(&schedule["warnings"]) {
        writeln!(out, "{NOTE}! {}{NOTE:#}", field(warning, "message"))?;
    }
    Ok(())
}

/// The timeout of its runs; 0 means no limit.
fn timeout(schedule: &Value) -> Cell {
    match schedule["timeout_seconds"].as_i64() {
        None | Some(0) => Cell::plain(""),
        Some(seconds) => Cell::plain(duration(SignedDuration::from_secs(seconds))),
    }
}

/// Prints one schedule in one line, after a change.
pub(super) fn line(schedule: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let next = match schedule["next_run_at"].as_str() {
        Some(_) => format!(", next {}", occurrence_time(schedule, "next_run_at").paint(0)),
        None => String::new(),
    };
    let (id, name) = (field(schedule, "id"), field(schedule, "name"));
    let status = state(&field(schedule, "status")).paint(0);
    let lives_again = if schedule["lives_again"] == true { ", lives again" } else { "" };
    Ok(writeln!(out, "schedule {id} ({name}): {status}{lives_again}{next}")?)
}

/// The time until the next run, or why there is none.
pub(super) fn coming(schedule: &Value) -> Cell {
    if schedule["workflow_paused"] == true && field(schedule, "status") == "active" {
        Cell::styled("workflow paused", NOTE)
    } else {
        distance(schedule, "next_run_at", clock::instant())
    }
}

fn workflow(schedule: &Value) -> String {
    field(schedule, "workflow")
}

/// Prints the next times.
pub(super) fn next(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(answer).iter().map(|due| {
        vec![
            occurrence_time(due, "nominal_at"),
            occurrence_time(due, "effective_at"),
            distance(due, "effective_at", clock::instant()),
            Cell::styled(field(due, "fate").replace("kept", ""), NOTE),
            Cell::styled(field(due, "reason"), DIM),
        ]
    });
    table(out, &["BY THE RULE", "HAPPENS", "", "", ""], rows.collect())
}

/// Prints a page of the ledger.
pub(super) fn occurrences(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|row| {
        vec![
            Cell::plain(field(row, "n")),
            occurrence_time(row, "nominal_at"),
            state(&field(row, "outcome")),
            Cell::plain(field(row, "run_id")),
            Cell::styled(field(row, "reason"), DIM),
        ]
    });
    table(out, &["N", "BY THE RULE", "OUTCOME", "RUN", "WHY"], rows.collect())?;
    shown::more(out, page)
}

/// Prints what an edit would change: fields and next times, before and after.
pub(super) fn difference(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let changes = answer["changes"].as_object().into_iter().flatten();
    let rows: Vec<Vec<Cell>> = changes
        .map(|(name, change)| {
            vec![
                Cell::styled(name.clone(), DIM),
                Cell::plain(field(change, "before")),
                Cell::plain("→"),
                Cell::plain(field(change, "after")),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "nothing would change")?);
    }
    write!(out, "{}", columns(&rows))?;
    let (before, after) = (shown::items(&answer["before"]), shown::items(&answer["after"]));
    if before == after {
        return Ok(());
    }
    let cell = |times: &[Value], at: usize| match times.get(at) {
        Some(due) => occurrence_time(due, "nominal_at"),
        None => Cell::plain(""),
    };
    let rows = (0..before.len().max(after.len()))
        .map(|at| vec![cell(before, at), Cell::plain("→"), cell(after, at)]);
    writeln!(out)?;
    table(out, &["TIMES BEFORE", "", "TIMES AFTER"], rows.collect())
}

/// Prints the result of an override.
pub(super) fn overridden(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let at = occurrence_time(answer, "nominal_at").paint(0);
    let what = if answer["skip"] == true {
        "is skipped".to_owned()
    } else if answer["move_to"].is_string() {
        format!("is moved to {}", occurrence_time(answer, "move_to").paint(0))
    } else if !answer["payload"].is_null() {
        format!("has the payload {}", field(answer, "payload"))
    } else {
        return Ok(writeln!(out, "nothing is overridden there any more")?);
    };
    Ok(writeln!(out, "the occurrence of {at} {what}")?)
}

/// Prints the occurrences that a backfill will run, or would.
pub(super) fn backfilled(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let items = shown::items(answer);
    let rows = items.iter().map(|due| vec![occurrence_time(due, "nominal_at")]);
    write!(out, "{}", columns(&rows.collect::<Vec<_>>()))?;
    let verb = if answer["dry_run"] == true { "would run" } else { "will run" };
    writeln!(out, "{} {verb}", counted(items.len(), "occurrence"))?;
    match answer["passed_over"].as_u64() {
        None | Some(0) => Ok(()),
        Some(count) => {
            let count = counted(usize::try_from(count).unwrap_or(usize::MAX), "occurrence");
            Ok(writeln!(out, "{count} ran already or will; --again runs them once more")?)
        }
    }
}
