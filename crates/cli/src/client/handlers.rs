//! Shows the producers, consumers, topics and mutations of a workflow.

use std::io::Write;

use serde_json::Value;

use super::shown::{self, distance, field, state, table};
use super::topics;
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Prints the producers, consumers and topics of a workflow, each as a table.
pub(super) fn show(workflow: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let producers: Vec<_> = shown::items(&workflow["producers"]).iter().map(producer).collect();
    if !producers.is_empty() {
        writeln!(out)?;
        let headings = ["PRODUCER", "NOW", "NEXT", "LAST", "OUTCOME", "PUBLISHES", "WHEN"];
        table(out, &headings, producers)?;
    }
    let consumers: Vec<_> = shown::items(&workflow["consumers"]).iter().map(consumer).collect();
    if !consumers.is_empty() {
        writeln!(out)?;
        let headings = ["CONSUMER", "NOW", "WAKES", "ON", "PENDING", "LAST", "OUTCOME"];
        table(out, &headings, consumers)?;
    }
    let found: Vec<_> = shown::items(&workflow["topics"]).iter().map(topics::row).collect();
    if !found.is_empty() {
        writeln!(out)?;
        table(out, &topics::HEADINGS, found)?;
    }
    Ok(())
}

fn producer(producer: &Value) -> Vec<Cell> {
    let now = clock::instant();
    let doing = match (producer["run_id"].as_str(), producer["queued"] == true) {
        (Some(run), _) => state_of("running", run),
        (None, true) => Cell::plain("queued"),
        (None, false) => Cell::plain("waits"),
    };
    vec![
        Cell::plain(field(producer, "name")),
        doing,
        distance(producer, "next_run_at", now),
        distance(producer, "last_run_at", now),
        outcome(producer),
        Cell::plain(names(&producer["publishes"])),
        Cell::styled(field(producer, "words"), DIM),
    ]
}

fn consumer(consumer: &Value) -> Vec<Cell> {
    let now = clock::instant();
    let doing = field(consumer, "state");
    let doing = match consumer["run_id"].as_str() {
        Some(run) => state_of(&doing, run),
        None => state(&doing),
    };
    vec![
        Cell::plain(field(consumer, "name")),
        doing,
        distance(consumer, "wake_at", now),
        Cell::plain(names(&consumer["wake_on"])),
        Cell::plain(field(consumer, "pending")),
        distance(consumer, "last_run_at", now),
        outcome(consumer),
    ]
}

fn state_of(what: &str, run: &str) -> Cell {
    Cell::plain(format!("{what} ({run})"))
}

/// How the last run ended, and how many runs in a row have failed.
fn outcome(handler: &Value) -> Cell {
    let last = field(handler, "last_outcome");
    match handler["failures"].as_u64().unwrap_or(0) {
        0 | 1 => state(&last),
        failures => Cell::plain(format!("{last} ({failures} in a row)")),
    }
}

fn names(list: &Value) -> String {
    let names: Vec<String> = shown::items(list).iter().map(shown::plain).collect();
    names.join(", ")
}

/// Prints the changes that consumers have made outside.
pub(super) fn mutations(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let now = clock::instant();
    let rows = shown::items(page).iter().map(|mutation| {
        vec![
            Cell::plain(field(mutation, "run_id")),
            Cell::plain(field(mutation, "handler")),
            state(&field(mutation, "status")),
            distance(mutation, "started_at", now),
            Cell::plain(field(mutation, "said_by")),
            Cell::plain(field(mutation, "note")),
        ]
    });
    let headings = ["RUN", "CONSUMER", "STATUS", "BEGAN", "SAID BY", "NOTE"];
    table(out, &headings, rows.collect())?;
    shown::more(out, page)
}
