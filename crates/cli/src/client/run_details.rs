//! Shows a run in full: steps with their items, what waits and why, deadlines and their effects.

use std::io::Write;

use serde_json::Value;

use super::shown::{self, distance, field, occurrence_time, plain, state, table, time, took};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM, OFF};

/// The most items of a step that are shown; the others are counted.
const MOST_ITEMS: usize = 20;

pub(super) fn show(run: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    head(run, out)?;
    let steps = run["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = steps.iter().flat_map(rows_of).collect();
    writeln!(out)?;
    table(out, &["STEP", "TYPE", "STATUS", "ATTEMPTS", "TOOK", "WHY", "DUE"], rows)?;
    let alerts = shown::items(&run["alerts"]);
    if alerts.is_empty() {
        return Ok(());
    }
    let rows = alerts.iter().map(|alert| {
        vec![
            Cell::plain(of_what(alert)),
            time(alert, "happened_at"),
            time(alert, "deadline"),
            Cell::plain(brought_about(alert)),
        ]
    });
    writeln!(out)?;
    table(out, &["DEADLINE OF", "AT", "DUE", "BROUGHT ABOUT"], rows.collect())
}

fn head(run: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let of = match run["handler"].as_str() {
        Some(handler) => format!("{handler} of {}", field(run, "workflow")),
        None => field(run, "workflow"),
    };
    let title = format!("run {} of {of}", field(run, "id"));
    let number = match run["n"].as_u64() {
        Some(n) => format!("occurrence {n} of schedule {}", field(run, "schedule_id")),
        None => String::new(),
    };
    shown::details(
        out,
        &title,
        vec![
            ("status", state(&field(run, "status"))),
            ("overdue", overdue(run)),
            ("error", Cell::plain(error(run))),
            ("started by", Cell::plain(field(run, "triggered_by"))),
            ("of", Cell::plain(number)),
            ("mutation", mutation(&run["mutation"])),
            ("parent", Cell::plain(field(run, "parent"))),
            ("retry of", Cell::plain(field(run, "retry_of"))),
            ("due", occurrence_time(run, "effective_at")),
            ("created", time(run, "created_at")),
            ("started", time(run, "started_at")),
            ("deadline", time(run, "deadline")),
            ("ended", time(run, "ended_at")),
            ("took", took(run, clock::instant())),
            ("input", Cell::plain(field(run, "input"))),
            ("output", Cell::plain(field(run, "output"))),
        ],
    )
}

/// The status of a consumer's mutation, and who reported it.
fn mutation(mutation: &Value) -> Cell {
    let status = field(mutation, "status");
    match mutation["said_by"].as_str() {
        Some(who) => Cell::plain(format!("{status} (says {who})")),
        None => state(&status),
    }
}

fn overdue(value: &Value) -> Cell {
    let is_overdue = value["overdue"] == true;
    Cell::styled(if is_overdue { "not done in time" } else { "" }, OFF)
}

/// The rows of a step, its compensation, and its items.
fn rows_of(step: &Value) -> Vec<Vec<Cell>> {
    let mut rows = vec![row(step, field(step, "id"), field(step, "type"))];
    rows.extend(earlier(step));
    let items = shown::items(&step["items"]);
    for item in items.iter().take(MOST_ITEMS) {
        rows.push(row(item, format!("  item {}", item["index"]), String::new()));
    }
    if items.len() > MOST_ITEMS {
        let more = format!("  and {} more items", items.len() - MOST_ITEMS);
        rows.push(vec![Cell::styled(more, DIM)]);
    }
    if step["reconcile"].is_object() {
        rows.push(row(&step["reconcile"], "  looked for".to_owned(), String::new()));
    }
    if step["compensation"].is_object() {
        rows.push(row(&step["compensation"], "  undone".to_owned(), String::new()));
    }
    rows
}

/// The rows of a step's earlier attempts.
fn earlier(step: &Value) -> Vec<Vec<Cell>> {
    let attempts = shown::items(&step["earlier"]);
    let passed_over = attempts.len().saturating_sub(MOST_ITEMS);
    let mut rows = Vec::new();
    if passed_over > 0 {
        rows.push(vec![Cell::styled(format!("  {passed_over} earlier attempts"), DIM)]);
    }
    for attempt in &attempts[passed_over..] {
        rows.push(vec![
            Cell::styled("  before", DIM),
            Cell::plain(""),
            state(&field(attempt, "status")),
            Cell::plain(field(attempt, "attempt")),
            took(attempt, clock::instant()),
            Cell::styled(error(attempt), DIM),
            Cell::plain(""),
        ]);
    }
    rows
}

fn row(part: &Value, name: String, kind: String) -> Vec<Cell> {
    let now = clock::instant();
    let due = if part["overdue"] == true { overdue(part) } else { distance(part, "deadline", now) };
    vec![
        Cell::plain(name),
        Cell::plain(kind),
        state(&field(part, "status")),
        Cell::plain(field(part, "attempts")),
        took(part, now),
        Cell::styled(why(part), DIM),
        due,
    ]
}

/// The reason for the state of a part, or its error.
pub(super) fn why(part: &Value) -> String {
    match part["reason"].as_str() {
        Some(reason) => reason.to_owned(),
        None => error(part),
    }
}

pub(super) fn error(value: &Value) -> String {
    let error = &value["error"];
    error["message"].as_str().map_or_else(|| plain(error), str::to_owned)
}

/// What a deadline belongs to: the run or a step.
pub(super) fn of_what(alert: &Value) -> String {
    alert["step"].as_str().map_or_else(|| "the run".to_owned(), |step| format!("step {step}"))
}

/// The effects of a deadline, in words.
pub(super) fn brought_about(alert: &Value) -> String {
    let runs: Vec<String> = shown::items(&alert["started"]).iter().map(plain).collect();
    let mut told = Vec::new();
    if !runs.is_empty() {
        told.push(format!("started {}", runs.join(", ")));
    }
    if let Some(end) = alert["ended"].as_str() {
        told.push(format!("ended it: {end}"));
    }
    if let Some(why) = alert["refused"].as_str() {
        told.push(format!("could not start anything: {why}"));
    }
    if told.is_empty() { "nothing else".to_owned() } else { told.join("; ") }
}
