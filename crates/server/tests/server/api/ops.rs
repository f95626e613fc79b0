//! The files in `ops/` agree with the node.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::ground::Ground;
use crate::harness::{NOOP, Node};

fn ops(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "ops", file].iter().collect()
}

/// Every word in a text that has the form of our metrics' names.
fn named(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("punctual_")).collect()
}

/// The names of all series that a node exports.
fn series(metrics: &str) -> BTreeSet<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.flat_map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        endings.iter().map(move |ending| format!("{name}{ending}"))
    });
    names.collect()
}

#[tokio::test]
async fn every_metric_that_is_asked_for_is_there() {
    // A shared store has metrics that an embedded one has not.
    let node = Node::start_on(Ground::shared(), |_| {}).await;
    node.workflow(NOOP).await;
    let due = json!({"name": "s", "workflow_id": "nothing", "at": "2020-01-01T00:00:00Z"});
    let schedule = node.schedule(due).await;
    node.until(&schedule, |schedule| schedule["run_count"] == 1).await;
    let metrics = node.get("/metrics").await.text;
    let known = series(&metrics);
    for file in ["grafana-dashboard.json", "prometheus-alerts.yaml"] {
        let text = std::fs::read_to_string(ops(file)).unwrap();
        let asked = named(&text);
        assert!(asked.len() > 5, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}, which is not in {known:?}");
    }
}

#[test]
fn the_dashboard_is_json_and_its_panels_do_not_overlap() {
    let text = std::fs::read_to_string(ops("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for (x, y) in (0..at("w")).flat_map(|x| (0..at("h")).map(move |y| (x, y))) {
            assert!(at("x") + x < 24 && taken.insert((at("x") + x, at("y") + y)), "{panel}");
        }
    }
}

/// If systemd is installed, it accepts the unit. The program need not be installed here.
#[test]
fn systemd_understands_the_unit() {
    let unit = std::fs::read_to_string(ops("punctual.service")).unwrap();
    let here = std::env::current_exe().unwrap();
    let unit = unit.replace("/usr/local/bin/punctual", here.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.service");
    std::fs::write(&file, unit).unwrap();
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
        return;
    };
    let told = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !told.contains("punctual.service:"), "{told}");
}
