//! A run as it goes on.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::shown::{field, plain, state, took};
use super::{Ask, Client};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// How often a run is looked at: steps that take longer are seen as they happen.
const LOOK: Duration = Duration::from_millis(200);
const ENDED: [&str; 4] = ["succeeded", "failed", "cancelled", "timed_out"];

/// Shows the steps of a run as they end, until the run has ended. Gives the run as it ended, or a
/// failure if it did not succeed. With `json`, the run is shown once, at its end.
pub(super) fn follow(
    client: &Client,
    id: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut told = HashSet::new();
    let mut last_status = String::new();
    loop {
        let run = client.ask(Ask::get(&["runs", id]))?;
        let status = field(&run, "status");
        if !json {
            tell_steps(&run, &mut told, out)?;
            if status != last_status && (status == "waiting" || status == "suspended") {
                writeln!(out, "  {DIM}{status}{DIM:#}")?;
            }
            out.flush()?;
        }
        if ENDED.contains(&status.as_str()) {
            return ended(&run, &status, json, out);
        }
        if status == "suspended" {
            let error = plain(&run["error"]["message"]);
            return Err(Failure::Mistake(format!(
                "run {id} is suspended: {error}\n  try: punctual run resolve {id} applied|did-not-happen|failed"
            )));
        }
        last_status = status;
        client.wait(LOOK);
    }
}

fn tell_steps(
    run: &Value,
    told: &mut HashSet<(String, String, String)>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for step in run["steps"].as_array().into_iter().flatten() {
        let status = field(step, "status");
        if status.is_empty() || status == "pending" {
            continue;
        }
        let attempts = field(step, "attempts");
        let known = (field(step, "id"), status.clone(), attempts.clone());
        if !told.insert(known) {
            continue;
        }
        let time =
            if step["ended_at"].is_null() { Cell::plain("") } else { took(step, clock::instant()) };
        let tries = if attempts.parse().unwrap_or(1) > 1 {
            format!(" (attempt {attempts})")
        } else {
            String::new()
        };
        writeln!(
            out,
            "  {} {}{tries} {}{}",
            Cell::plain(field(step, "id")).paint(16),
            state(&status).paint(0),
            time.paint(0),
            step["error"]["message"].as_str().map(|why| format!(" {why}")).unwrap_or_default()
        )?;
    }
    Ok(())
}

fn ended(run: &Value, status: &str, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        super::shown::json(out, run)?;
    } else {
        let time = took(run, clock::instant());
        writeln!(out, "{} in {}", state(status).paint(0), time.paint(0))?;
    }
    out.flush()?;
    if status == "succeeded" {
        return Ok(());
    }
    let why =
        run["error"]["message"].as_str().or(run["error"].as_str()).unwrap_or("no reason told");
    Err(Failure::Mistake(format!("run {} {status}: {why}", field(run, "id"))))
}
