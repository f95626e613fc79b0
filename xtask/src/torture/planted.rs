//! What is done to the store behind the nodes' backs, while they are stopped: rows that are lost or
//! doubled, which the judge has to notice, and rows that nobody can read, which nodes have to live
//! with and `punctual doctor` has to tell.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::history::{History, Work};
use super::judge::judge;
use super::observe::observe;
use super::world::World;
use crate::chaos::load::created;
use crate::chaos::until;
use crate::http::ask;
use crate::steps::Outcome;

/// What is changed in an embedded store, and the rule that the judge has to find broken.
const CHANGES: [(&str, &str, &str); 3] = [
    (
        "a run is deleted",
        "an occurrence that was started has no run, or one that was not has",
        "DELETE FROM runs WHERE key = (SELECT max(r.key) FROM runs r
            JOIN schedules s ON s.id = r.schedule WHERE r.n IS NOT NULL AND r.retry = 0
            AND r.status = 4)",
    ),
    (
        "a row of the ledger is deleted",
        "a run of an occurrence that the ledger does not have",
        "DELETE FROM ledger WHERE run = (SELECT max(l.run) FROM ledger l
            JOIN schedules s ON s.id = l.schedule)",
    ),
    (
        "a run is doubled",
        "a retry that follows no failure, or comes too early",
        "INSERT INTO runs SELECT (SELECT max(key) + 1 FROM runs), uuid, workflow, version, handler, schedule,
            n, retry + 1, triggered_by, by, nominal, effective, status, created_at, started_at, ended_at,
            timeout, state, owners, waits_for_slot, overdue, parent, parent_token, depth, root, hops,
            input, output, error, retry_of, trace
         FROM runs WHERE key = (SELECT max(key) FROM runs WHERE n IS NOT NULL AND status = 4)",
    ),
];

/// Changes the store of a stopped node in each way, on a copy, and asks a node about it: the judge
/// has to notice.
pub(super) fn change_rows(world: &mut World, history: &History) -> Outcome {
    let original = world.store();
    let copy = original.with_extension("original");
    let failed = |why: std::io::Error| format!("{}: {why}", original.display());
    std::fs::copy(&original, &copy).map_err(failed)?;
    for (name, rule, sql) in CHANGES {
        std::fs::copy(&copy, &original).map_err(failed)?;
        let changed = execute(&original, sql)?;
        if changed == 0 {
            return Err(format!("{name}: the store has nothing to do it to"));
        }
        world.start_node(0)?;
        let end = observe(&world.address(0)?)?;
        world.stop()?;
        let findings = judge(&History { end, ..history.clone() });
        if !findings.iter().any(|finding| finding.rule == rule) {
            return Err(format!("{name}: the judge did not notice: {findings:?}"));
        }
    }
    std::fs::copy(&copy, &original).map_err(failed)?;
    println!("{} changes of rows were made, and all noticed", CHANGES.len());
    Ok(())
}

/// How many rows it has changed.
fn execute(path: &Path, sql: &str) -> Result<usize, String> {
    let connection = Connection::open(path).map_err(|why| format!("{}: {why}", path.display()))?;
    connection.execute(sql, []).map_err(|why| format!("{sql}: {why}"))
}

/// Rows that cannot be read any more. A node has to live with them: it starts, what is not damaged
/// is due as ever, and `punctual doctor` tells of each.
pub(super) fn damage_rows(world: &mut World) -> Outcome {
    let mut victims = Vec::new();
    for name in ["declared", "progress", "run"] {
        let every = if name == "run" { "1h" } else { "1s" };
        victims.push(schedule(world, &format!("victim-{name}"), every)?);
    }
    let bystander = schedule(world, "bystander", "1s")?;
    let node = world.node(0)?;
    let path = format!("/api/v1/workflows/{}/runs", Work::Approval.name());
    let body = json!({ "payload": { "token": "victim" } }).to_string();
    let run = created(node, &path, &body)?;
    let run = run["id"].as_str().ok_or("a run without an id")?.to_owned();
    goes_on(world, &bystander)?;
    world.stop()?;
    let runs = if world.is_shared() { "open_runs" } else { "runs" };
    let damages = [
        format!("UPDATE schedules SET declared = '{{' WHERE id = {}", victims[0]),
        format!("UPDATE progress SET live = '{{' WHERE id = {}", victims[1]),
        format!("UPDATE {runs} SET state = '{{' WHERE status < 4 AND schedule IS NULL"),
    ];
    for sql in &damages {
        world.execute(sql)?;
    }
    world.start_node(0)?;
    goes_on(world, &bystander)?;
    // Somebody looks at what is damaged, and decides over it: the node refuses, and lives.
    for path in [format!("/api/v1/schedules/{}", victims[0]), format!("/api/v1/runs/{run}")] {
        let looked = ask(&world.address(0)?, "GET", &path, "");
        let (status, text) = looked.map_err(|why| format!("{path}: {why}"))?;
        println!("{path}: {status}");
        if status == 0 {
            return Err(format!("{path}: no answer: {text}"));
        }
    }
    goes_on(world, &bystander)?;
    world.stop()?;
    told(world, &victims, &run)
}

/// A schedule without an end; its id.
fn schedule(world: &World, name: &str, every: &str) -> Result<String, String> {
    let schedule = json!({
        "name": name,
        "workflow_id": Work::Quick.name(),
        "every": every,
        "overlap": "queue_all",
    });
    let answer = created(world.node(0)?, "/api/v1/schedules", &schedule.to_string())?;
    answer["id"].as_str().map(str::to_owned).ok_or_else(|| "a schedule without an id".to_owned())
}

/// Waits until a schedule has run twice more.
fn goes_on(world: &World, id: &str) -> Outcome {
    let count = || -> Result<u64, String> {
        let path = format!("/api/v1/schedules/{id}");
        let (status, text) =
            ask(&world.address(0)?, "GET", &path, "").map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        answer["run_count"].as_u64().ok_or_else(|| format!("{path}: {status}: {text}"))
    };
    let before = count()?;
    until("what is not damaged goes on", || Ok((count()? >= before + 2).then_some(())))
}

/// `punctual doctor` fails, and names each victim.
fn told(world: &World, schedules: &[String], run: &str) -> Outcome {
    let setup = world.setup();
    let mut command = Command::new(&setup.binary);
    command.args(["doctor", "--json"]).env("PUNCTUAL_DB", &setup.url);
    let output = command.output().map_err(|why| format!("punctual doctor: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: Value = serde_json::from_str(&said).unwrap_or_default();
    let messages: Vec<&str> = answer["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["message"].as_str())
        .collect();
    let has = |what: &str| messages.iter().any(|message| message.contains(what));
    let missing: Vec<String> = schedules[..2]
        .iter()
        .map(|id| format!("schedule {id}"))
        .chain([run.to_owned()])
        .filter(|what| !has(what))
        .collect();
    if missing.is_empty() && !output.status.success() {
        return Ok(());
    }
    let said = said + &String::from_utf8_lossy(&output.stderr);
    Err(format!("`punctual doctor` does not tell of {missing:?}: {said}"))
}
