//! What the API says in the end: every schedule with its ledger, every run, every event.

use serde_json::Value;

use super::history::{Event, Millis, Mutation, Observed, Occurrence, Run, Schedule, Work};
use super::work::ORDERS;
use crate::http::ask;

/// Asks the node at this address for everything.
pub(super) fn observe(address: &str) -> Result<Observed, String> {
    let mut seen = Observed::default();
    for item in all(address, "/api/v1/schedules?")? {
        let schedule = Schedule {
            id: text(&item, "id")?,
            name: text(&item, "name")?,
            status: text(&item, "status")?,
            created: instant(&item, "created_at")?.ok_or("a schedule without created_at")?,
        };
        let path = format!("/api/v1/schedules/{}/occurrences?", schedule.id);
        let rows: Result<Vec<_>, _> = all(address, &path)?.iter().map(occurrence).collect();
        seen.ledger.insert(schedule.id.clone(), rows?);
        seen.schedules.push(schedule);
    }
    for item in all(address, "/api/v1/runs?")? {
        let mut run = run(&item)?;
        if matches!(Work::named(&run.workflow), Some(Work::Approval | Work::Timer)) {
            details(address, &mut run)?;
        }
        seen.runs.push(run);
    }
    for item in all(address, &format!("/api/v1/topics/{ORDERS}/events?"))? {
        seen.events.push(Event {
            id: text(&item, "message_id")?,
            state: text(&item, "state")?,
            run: item["run_id"].as_str().map(str::to_owned),
        });
    }
    for item in all(address, &format!("/api/v1/workflows/{ORDERS}/mutations?"))? {
        seen.mutations
            .push(Mutation { run: text(&item, "run_id")?, status: text(&item, "status")? });
    }
    for item in all(address, "/api/v1/approvals?")? {
        seen.approvals.push(text(&item, "run_id")?);
    }
    Ok(seen)
}

/// How much is still to come, in words; nothing when everything has ended.
pub(super) fn unfinished(address: &str) -> Result<Option<String>, String> {
    let runs = "/api/v1/runs?status=pending,running,waiting,suspended&limit=1";
    let lists = [
        ("runs", total(address, runs)?),
        ("schedules", total(address, "/api/v1/schedules?status=active&limit=1")?),
    ];
    let topic = get(address, &format!("/api/v1/topics/{ORDERS}"))?;
    let events = topic["pending"].as_u64().zip(topic["reserved"].as_u64());
    let (pending, reserved) = events.ok_or("a topic without figures")?;
    let left: Vec<String> = lists
        .into_iter()
        .chain([("events", pending + reserved)])
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    Ok((!left.is_empty()).then(|| left.join(", ")))
}

fn total(address: &str, path: &str) -> Result<u64, String> {
    let answer = get(address, path)?;
    answer["total"].as_u64().ok_or_else(|| format!("{path}: no total in {answer}"))
}

fn get(address: &str, path: &str) -> Result<Value, String> {
    let (status, text) =
        ask(address, "GET", path, "").map_err(|error| format!("{path}: {error}"))?;
    match status {
        200 => serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}")),
        _ => Err(format!("{path}: {status}: {text}")),
    }
}

/// All pages of a list. `path` ends where parameters may follow.
fn all(address: &str, path: &str) -> Result<Vec<Value>, String> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(address, &format!("{path}&limit=1000{cursor}").replace("?&", "?"))?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(items),
        }
    }
}

fn occurrence(item: &Value) -> Result<Occurrence, String> {
    let number = |name: &str| item[name].as_u64().ok_or_else(|| format!("no {name} in {item}"));
    Ok(Occurrence {
        n: number("n")?,
        count: number("count")?,
        nominal: instant(item, "nominal_at")?.ok_or("no nominal_at")?,
        outcome: text(item, "outcome")?,
        run: item["run_id"].as_str().map(str::to_owned),
    })
}

fn run(item: &Value) -> Result<Run, String> {
    let optional = |name: &str| item[name].as_str().map(str::to_owned);
    Ok(Run {
        id: text(item, "id")?,
        workflow: text(item, "workflow")?,
        handler: optional("handler"),
        revision: item["revision"].as_u64().ok_or("a run without a revision")?,
        schedule: optional("schedule_id"),
        n: item["n"].as_u64(),
        retry: item["retry"].as_u64().unwrap_or(0),
        status: text(item, "status")?,
        effective: instant(item, "effective_at")?,
        created: instant(item, "created_at")?.ok_or("a run without created_at")?,
        ended: instant(item, "ended_at")?,
        token: token(&item["input"]).map(str::to_owned),
        parent: optional("parent"),
        approved: None,
        waited: None,
    })
}

/// The token in what a run works on, as its payload or beside it.
fn token(input: &Value) -> Option<&str> {
    input["token"].as_str().or_else(|| input["payload"]["token"].as_str())
}

/// What only the steps of a run know.
fn details(address: &str, run: &mut Run) -> Result<(), String> {
    let whole = get(address, &format!("/api/v1/runs/{}", run.id))?;
    for step in whole["steps"].as_array().into_iter().flatten() {
        match step["id"].as_str() {
            Some("ask") => {
                run.approved = match step["status"].as_str() {
                    Some("completed") => Some(true),
                    Some("failed") => Some(false),
                    _ => None,
                };
            }
            Some("wait") if step["status"] == "completed" => {
                let span = instant(step, "started_at")?.zip(instant(step, "ended_at")?);
                run.waited = span.map(|(from, to)| to - from);
            }
            _ => {}
        }
    }
    Ok(())
}

fn text(item: &Value, name: &str) -> Result<String, String> {
    item[name].as_str().map(str::to_owned).ok_or_else(|| format!("no {name} in {item}"))
}

fn instant(item: &Value, name: &str) -> Result<Option<Millis>, String> {
    let Some(text) = item[name].as_str() else { return Ok(None) };
    let at: jiff::Timestamp = text.parse().map_err(|error| format!("{name}: {error}"))?;
    Ok(Some(at.as_millisecond()))
}
