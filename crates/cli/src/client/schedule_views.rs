//! Schedules and their occurrences, as people see them.

use std::io::Write;

use serde_json::Value;

use super::shown::{self, distance, field, plain, state, table, time};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM, NOTE};

/// A page of schedules.
pub(super) fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|schedule| {
        vec![
            Cell::plain(field(schedule, "id")),
            Cell::plain(field(schedule, "name")),
            Cell::plain(workflow(schedule)),
            state(&field(schedule, "status")),
            distance(schedule, "next_run_at", clock::now()),
            state(&field(schedule, "last_outcome")),
            Cell::styled(field(schedule, "words"), DIM),
        ]
    });
    let headings = ["ID", "NAME", "WORKFLOW", "STATUS", "NEXT", "LAST", "WHEN"];
    table(out, &headings, rows.collect())?;
    shown::more(out, page)
}

/// One schedule.
pub(super) fn show(schedule: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let title = format!("schedule {}: {}", field(schedule, "id"), field(schedule, "name"));
    let counts = format!(
        "{} succeeded, {} failed",
        field(schedule, "run_count"),
        field(schedule, "error_count")
    );
    shown::sheet(
        out,
        &title,
        vec![
            ("for", Cell::plain(field(schedule, "description"))),
            ("starts", Cell::plain(workflow(schedule))),
            ("when", Cell::plain(field(schedule, "words"))),
            ("status", state(&field(schedule, "status"))),
            ("next", time(schedule, "next_run_at")),
            ("", distance(schedule, "next_run_at", clock::now())),
            ("last run", time(schedule, "last_run_at")),
            ("last outcome", state(&field(schedule, "last_outcome"))),
            ("last error", Cell::plain(field(schedule, "last_error"))),
            ("runs", Cell::plain(counts)),
            ("overlap", Cell::plain(field(schedule, "overlap"))),
            ("catch-up", Cell::plain(plain(&schedule["catch_up"]))),
            ("payload", Cell::plain(field(schedule, "payload"))),
        ],
    )
}

/// One schedule in one line, after a change.
pub(super) fn line(schedule: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let next = match schedule["next_run_at"].as_str() {
        Some(_) => format!(", next {}", time(schedule, "next_run_at").paint(0)),
        None => String::new(),
    };
    let (id, name) = (field(schedule, "id"), field(schedule, "name"));
    let status = state(&field(schedule, "status")).paint(0);
    Ok(writeln!(out, "schedule {id} ({name}): {status}{next}")?)
}

fn workflow(schedule: &Value) -> String {
    let name = field(schedule, "workflow_name");
    if name.is_empty() { field(schedule, "workflow_id") } else { name }
}

/// Coming times.
pub(super) fn next(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(answer).iter().map(|due| {
        vec![
            time(due, "nominal_at"),
            time(due, "effective_at"),
            distance(due, "effective_at", clock::now()),
            Cell::styled(field(due, "outcome"), NOTE),
            Cell::styled(field(due, "reason"), DIM),
        ]
    });
    table(out, &["BY THE RULE", "HAPPENS", "", "", ""], rows.collect())
}

/// A page of the ledger.
pub(super) fn occurrences(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|row| {
        vec![
            Cell::plain(field(row, "n")),
            time(row, "nominal_at"),
            state(&field(row, "outcome")),
            Cell::plain(field(row, "run_id")),
            Cell::styled(field(row, "reason"), DIM),
        ]
    });
    table(out, &["N", "BY THE RULE", "OUTCOME", "RUN", "WHY"], rows.collect())?;
    shown::more(out, page)
}

/// What an edit would change: fields before and after.
pub(super) fn difference(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let (before, after) = (&answer["before"], &answer["after"]);
    let names = after.as_object().into_iter().flatten().map(|(name, _)| name);
    let rows: Vec<Vec<Cell>> = names
        .filter(|name| before[name.as_str()] != after[name.as_str()] && *name != "updated_at")
        .map(|name| {
            vec![
                Cell::styled(name.clone(), DIM),
                Cell::plain(field(before, name)),
                Cell::plain("→"),
                Cell::plain(field(after, name)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "nothing would change")?);
    }
    Ok(write!(out, "{}", crate::terminal::columns(&rows))?)
}

/// What became of an override.
pub(super) fn overridden(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    if answer.is_null() {
        return Ok(writeln!(out, "nothing special any more")?);
    }
    let at = time(answer, "nominal_at").paint(0);
    let what = match field(answer, "action").as_str() {
        "move" => format!("moved to {}", time(answer, "to").paint(0)),
        "payload" => format!("with payload {}", field(answer, "payload")),
        other => other.to_owned(),
    };
    Ok(writeln!(out, "the occurrence of {at}: {what}")?)
}

/// What will run, or would.
pub(super) fn backfilled(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let is_plan = answer["dry_run"] == true;
    let times = answer["occurrences"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = times.iter().map(|due| vec![time(due, "nominal_at")]);
    write!(out, "{}", crate::terminal::columns(&rows.collect::<Vec<_>>()))?;
    let count = answer["count"].as_u64().unwrap_or(times.len() as u64);
    let verb = if is_plan { "would run" } else { "will run" };
    Ok(writeln!(out, "{} {verb}", crate::validate::counted(count as usize, "occurrence"))?)
}
