//! Hostile definitions and calendars over HTTP: they are refused at little cost, and nothing is
//! stored.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Node, Reply};

/// Far longer than any of these takes: a request that hangs fails.
const SOON: Duration = Duration::from_secs(10);

/// Generates the text of a vector: from a Python expression in `gen`, or the text itself.
fn generated(input: &Value) -> Option<Vec<u8>> {
    if let Some(text) = input.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let expression = input.get("gen")?.as_str()?;
    let script = format!(
        "import sys, json\nx = {expression}\n\
         sys.stdout.buffer.write(x if isinstance(x, bytes) else x.encode())"
    );
    let output = Command::new("python3").args(["-c", &script]).output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn vectors() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/hostile.jsonl");
    let Ok(lines) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return Vec::new();
    };
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn in_time(reply: impl Future<Output = Reply>) -> Reply {
    tokio::time::timeout(SOON, reply).await.expect("there is no answer")
}

#[tokio::test]
async fn definitions_are_refused_and_nothing_is_stored() {
    let node = Node::start().await;
    let mut seen = 0;
    for case in vectors() {
        let id = case["id"].as_str().unwrap_or_default().to_owned();
        let area = case["area"].as_str().unwrap_or_default();
        // h069 is a calendar.
        if !["yaml", "definition"].contains(&area) || id == "h069" {
            continue;
        }
        let Some(bytes) = generated(&case["input"]) else { continue };
        seen += 1;
        let reply = in_time(node.yaml("/api/v1/workflows?publish=true", bytes)).await;
        let stored = node.get("/api/v1/workflows").await.expect(200)["total"].as_u64();
        match &*id {
            // A byte order mark, and a cron that never fires: both are accepted, the latter with a
            // warning.
            "h023" => drop(reply.expect(201)),
            "h057" => {
                let problem = &reply.expect(201)["problems"][0];
                assert_eq!(problem["severity"], "warning", "{problem}");
            }
            _ => {
                assert!([400, 413, 422].contains(&reply.status), "{id}: {reply:?}");
                reply.whole_problem(reply.status);
                assert!(stored <= Some(1), "{id} is stored");
            }
        }
    }
    eprintln!("{seen} vectors");
}

#[tokio::test]
async fn an_rrule_that_counts_too_far_is_refused() {
    let node = Node::start().await;
    let text = "name: t
triggers: [{id: t, type: schedule, rrule: 'FREQ=DAILY;COUNT=9223372036854775808'}]
steps: []
";
    let problem =
        in_time(node.yaml("/api/v1/workflows?publish=true", text)).await.whole_problem(422);
    assert_eq!(problem["errors"][0]["path"], "triggers[0].rrule", "{problem}");
    assert_eq!(problem["errors"][0]["line"], 2);
}

#[tokio::test]
async fn a_window_that_closes_before_it_opens_is_a_night_shift() {
    let node = Node::start().await;
    let spec = json!({"hours": {"mon": [["17:00", "09:00"]]}}).to_string();
    let put = node.send_as(Method::PUT, "/api/v1/calendars/night", "application/json", spec);
    assert_eq!(in_time(put).await.expect(201)["hours_per_day"], 16.0);
}

#[tokio::test]
async fn calendars_of_any_size_are_answered_soon() {
    let node = Node::start().await;
    for (dates, status) in [(200_000, 413), (60_000, 422)] {
        let holidays: Vec<String> =
            (0..dates).map(|at| format!("{}-01-01", 1900 + at % 200)).collect();
        let spec = json!({ "holidays": holidays }).to_string();
        let put = node.send_as(Method::PUT, "/api/v1/calendars/big", "application/json", spec);
        in_time(put).await.whole_problem(status);
    }
    // As many dates as are accepted, all different.
    let first: jiff::civil::Date = "1990-01-01".parse().unwrap();
    let days = std::iter::successors(Some(first), |date| date.tomorrow().ok());
    let holidays: Vec<String> = days.take(10_000).map(|date| date.to_string()).collect();
    let spec = json!({ "holidays": holidays }).to_string();
    let put = node.send_as(Method::PUT, "/api/v1/calendars/big", "application/json", spec);
    in_time(put).await.expect(201);
    let holidays = in_time(node.get("/api/v1/calendars/big/holidays?year=2000")).await.expect(200);
    assert_eq!(holidays["holidays"].as_array().unwrap().len(), 366);
    assert_eq!(node.get("/api/v1/calendars").await.expect(200)["total"], 1);
}
