//! Follows a run until it has ended.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::output::Said;
use super::run_details::{brought_about, error, of_what, why};
use super::shown::{field, items, plain, state, took};
use super::{Ask, Client};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, NOTE};

/// How often the run is polled: steps that take longer are shown while they run.
const LOOK: Duration = Duration::from_millis(200);
const ENDED: [&str; 4] = ["succeeded", "failed", "cancelled", "timed_out"];

/// Prints the steps of a run as they end, until the run has ended. Returns a failure if the run did
/// not succeed. With `json`, only the ended run is printed.
pub(super) fn follow(
    client: &Client,
    id: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut told, mut said) = (Told::new(), Said::default());
    loop {
        let run = client.ask(Ask::get(&["runs", id]))?;
        let status = field(&run, "status");
        if !json {
            for step in items(&run["steps"]) {
                said.tell(client, &run, step, out)?;
                tell_step(step, &mut told, out)?;
            }
            tell_alerts(&run, &mut told, out)?;
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
        client.wait(LOOK);
    }
}

/// The states that were already printed: the name of a part, and its state.
type Told = HashSet<(String, String)>;

fn tell_step(step: &Value, told: &mut Told, out: &mut dyn Write) -> Result<(), Failure> {
    let id = field(step, "id");
    tell_part(step, &id, told, out)?;
    for item in items(&step["items"]) {
        tell_part(item, &format!("{id}[{}]", item["index"]), told, out)?;
    }
    if step["compensation"].is_object() {
        tell_part(&step["compensation"], &format!("{id} undone"), told, out)?;
    }
    Ok(())
}

fn tell_alerts(run: &Value, told: &mut Told, out: &mut dyn Write) -> Result<(), Failure> {
    for alert in items(&run["alerts"]) {
        let (of, at) = (of_what(alert), format!("{}{}", field(alert, "at"), alert["started"]));
        if told.insert((of.clone(), at)) {
            writeln!(out, "  {NOTE}deadline of {of}{NOTE:#}: {}", brought_about(alert))?;
        }
    }
    Ok(())
}

/// Prints a line for a part whose state has changed.
fn tell_part(
    part: &Value,
    name: &str,
    told: &mut Told,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (status, attempts) = (field(part, "status"), field(part, "attempts"));
    if status.is_empty() || status == "pending" {
        return Ok(());
    }
    // The reason of a running part changes with time, so it is not part of the state.
    let why = if status == "running" { error(part) } else { why(part) };
    if !told.insert((name.to_owned(), format!("{status} {attempts} {why}"))) {
        return Ok(());
    }
    let time =
        if part["ended_at"].is_null() { Cell::plain("") } else { took(part, clock::instant()) };
    let tries = match attempts.parse().unwrap_or(1) {
        0 | 1 => String::new(),
        _ => format!(" (attempt {attempts})"),
    };
    let late = if part["overdue"] == true { " overdue" } else { "" };
    let why = if why.is_empty() { why } else { format!(" {why}") };
    let (name, status) = (Cell::plain(name).paint(16), state(&status).paint(0));
    Ok(writeln!(out, "  {name} {status}{tries}{late} {}{why}", time.paint(0))?)
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
