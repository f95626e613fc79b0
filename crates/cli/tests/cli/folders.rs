//! Tests of folders whose definitions change while no node runs: what is live, what is trusted,
//! what is logged.

use serde_json::{Value, json};

use crate::node::{Home, Node};
use crate::punctual;

/// Starts a node on the same folder with a clock that is ahead by `seconds`.
fn later(home: &Home, seconds: i64, more: &[&str]) -> Node {
    let mut command = punctual();
    command.args(home.serve_args()).arg("--clock-offset").arg(seconds.to_string()).args(more);
    Node::start(command)
}

fn workflow(node: &Node, name: &str) -> Value {
    let (_, text) = node.get(&format!("/api/v1/workflows/{name}"));
    serde_json::from_str(&text).expect("JSON")
}

fn every_ten_minutes(says: &str) -> String {
    format!(
        "name: clock\ntriggers: [{{ id: tick, type: schedule, interval: 10m, catch_up: last }}]\n\
         steps: [{{ id: say, type: exec, command: [echo, {says}] }}]\n"
    )
}

#[test]
fn what_was_missed_runs_as_the_folder_says_now() {
    let home = Home::new().with("clock.yaml", &every_ten_minutes("old"));
    let node = home.serve();
    assert_eq!(workflow(&node, "clock")["revision"], 1);
    assert!(node.stop().success());
    let home = home.with("clock.yaml", &every_ten_minutes("new"));
    let node = later(&home, 3_600, &[]);
    let ended = |page: &Value| page["items"][0]["ended_at"].is_string();
    let page = node.wait_for(&["run", "list", "--workflow", "clock"], ended);
    let run = &page["items"][0];
    let facts = (&run["revision"], &run["status"], &run["triggered_by"]);
    assert_eq!(facts, (&json!(2), &json!("succeeded"), &json!("schedule")), "{run:#}");
    let schedules = node.json(&["schedule", "list"]);
    assert_eq!(schedules["items"][0]["status"], "active", "{schedules:#}");
    assert!(node.stop().success());
}

#[test]
fn a_run_that_began_on_an_earlier_version_of_the_file_ends_on_it() {
    let text = |says: &str| {
        format!(
            "name: patient\nsteps:\n  - {{ id: wait, type: timer, delay: 1h }}\n  \
             - {{ id: say, type: exec, command: [echo, {says}], depends_on: wait }}\n"
        )
    };
    let home = Home::new().with("patient.yaml", &text("old"));
    let node = home.serve();
    node.shown(&["run", "patient"]);
    node.wait_for(&["run", "list", "--status", "waiting"], |page| page["total"] == 1);
    assert!(node.stop().success());
    let home = home.with("patient.yaml", &text("new"));
    let node = later(&home, 7_200, &[]);
    let ended = |page: &Value| page["items"][0]["ended_at"].is_string();
    let page = node.wait_for(&["run", "list"], ended);
    let run = &page["items"][0];
    assert_eq!((&run["revision"], &run["status"]), (&json!(1), &json!("succeeded")), "{run:#}");
    assert_eq!(workflow(&node, "patient")["revision"], 2);
    assert!(node.stop().success());
}

#[test]
fn a_file_that_is_wrong_is_passed_over_and_told() {
    let says = |name: &str, says: &str| {
        format!("name: {name}\nsteps: [{{ id: x, type: exec, command: [echo, {says}] }}]\n")
    };
    let home = Home::new().with("a.yaml", &says("a", "old")).with("b.yaml", &says("b", "old"));
    let node = home.serve();
    assert!(node.stop().success());
    let home = home
        .with("a.yaml", "name: a\nsteps: [{ id: x, type: nop }]\n")
        .with("b.yaml", &says("b", "new"))
        .with("c.yaml", &says("b", "again"));
    std::fs::write(home.definitions().join("d.yaml"), [0xff, 0xfe, 0x00]).expect("written");
    let link = |name: &str| std::os::unix::fs::symlink("nowhere", home.definitions().join(name));
    link("e.yaml").expect("linked");
    // A lock file, as editors leave one beside an open file.
    link(".#a.yaml").expect("linked");
    let mut node = later(&home, 0, &["--prune"]);
    for expected in ["a.yaml:2:", "workflow b is in ", "d.yaml", "e.yaml: a link to nowhere"] {
        let line = node.logged(expected);
        let message = line["message"].as_str().unwrap_or_default();
        assert!(message.contains("this file is passed over"), "{line}");
    }
    node.logged("it is not archived while files are wrong");
    let live = |name: &str| workflow(&node, name)["revision"].clone();
    assert_eq!((live("a"), live("b")), (json!(1), json!(2)));
    // The last valid version of the file is still trusted.
    assert_eq!(node.json(&["run", "a", "--follow"])["status"], "succeeded");
    let log = node.stop_and_read();
    let names_lock = |line: &Value| line["message"].as_str().is_some_and(|m| m.contains(".#a"));
    assert!(!log.iter().any(names_lock), "{log:#?}");
}

#[test]
fn a_file_that_goes_while_another_is_wrong_is_missed_when_that_is_mended() {
    let good = "name: other\nsteps: [{ id: x, type: noop }]\n";
    let home = Home::new()
        .with("other.yaml", good)
        .with("gone.yaml", "name: gone\nsteps: [{ id: x, type: noop }]\n");
    let mut node = later(&home, 0, &["--watch", "--prune"]);
    let other = home.definitions().join("other.yaml");
    std::fs::write(&other, good.replace("noop", "nope")).expect("it is written");
    node.logged("nope");
    std::fs::remove_file(home.definitions().join("gone.yaml")).expect("it is removed");
    node.logged("is archived, as --prune asks, once all files are right");
    assert_eq!(workflow(&node, "gone")["status"], "published");
    std::fs::write(&other, good.replace("noop", "nape")).expect("it is written");
    node.logged("nape");
    std::fs::write(&other, good).expect("it is written");
    assert_eq!(node.logged("; it was archived")["workflow"], "gone");
    let told = "the file of workflow gone is gone from ";
    let is_told = |line: &&Value| line["message"].as_str().is_some_and(|m| m.contains(told));
    // Once while the other file was wrong, however often it changed, and once when it was archived.
    assert_eq!(node.stop_and_read().iter().filter(is_told).count(), 2);
}

/// A folder without a definition is rather one that is not mounted.
#[test]
fn an_empty_folder_archives_nothing() {
    let home = Home::new().with("kept.yaml", "name: kept\nsteps: [{ id: x, type: noop }]\n");
    assert!(home.serve().stop().success());
    std::fs::remove_file(home.definitions().join("kept.yaml")).expect("it is removed");
    let mut node = later(&home, 0, &["--prune"]);
    assert_eq!(node.logged("--prune archives nothing then")["workflow"], "kept");
    assert_eq!(workflow(&node, "kept")["status"], "published");
    assert!(node.stop().success());
}

#[test]
fn a_file_that_is_gone_is_told_and_its_workflow_archived_if_asked() {
    let home = Home::new()
        .with("kept.yaml", "name: kept\nsteps: [{ id: x, type: noop }]\n")
        .with("gone.yaml", "name: gone\nsteps: [{ id: x, type: noop }]\n");
    let node = home.serve();
    // A workflow that was applied through the API has no file, and needs none.
    node.shown(&["apply", &crate::file("api.yaml", "name: api\nsteps: [{ id: x, type: noop }]\n")]);
    assert!(node.stop().success());
    std::fs::remove_file(home.definitions().join("gone.yaml")).expect("it is removed");
    let mut node = home.serve();
    let told = node.logged("the file of workflow gone is gone from ");
    assert_eq!(told["workflow"], "gone");
    let message = told["message"].as_str().expect("a text");
    assert!(
        message.contains("`punctual workflow archive gone`, or a start with --prune"),
        "{told}"
    );
    assert_eq!(workflow(&node, "gone")["status"], "published");
    assert!(node.stop().success());
    let mut node = later(&home, 0, &["--prune"]);
    assert_eq!(node.logged("; it was archived")["workflow"], "gone");
    let status = |name: &str| workflow(&node, name)["status"].clone();
    assert_eq!(status("gone"), "archived");
    assert_eq!((status("kept"), status("api")), (json!("published"), json!("published")));
    assert!(node.stop().success());
}

#[test]
fn a_schedule_that_cannot_be_read_keeps_no_other_file_from_being_published() {
    let home = Home::new().with("b.yaml", &every_ten_minutes("old"));
    assert!(home.serve().stop().success());
    let broken = rusqlite::Connection::open(home.db()).expect("a store");
    broken.execute("UPDATE schedules SET declared = '{'", []).expect("it is broken");
    drop(broken);
    let noop = |name: &str| format!("name: {name}\nsteps: [{{ id: x, type: noop }}]\n");
    let home = home
        .with("a.yaml", &noop("a"))
        .with("b.yaml", &every_ten_minutes("new"))
        .with("c.yaml", &noop("c"));
    let mut node = home.serve();
    let line = node.logged("workflow clock cannot be published");
    let message = line["message"].as_str().unwrap_or_default();
    assert!(message.contains("b.yaml: ") && message.contains("punctual doctor"), "{line}");
    for name in ["a", "c"] {
        assert_eq!(workflow(&node, name)["revision"], 1, "{name}");
    }
    assert_eq!(workflow(&node, "clock")["revision"], 1);
    assert!(node.stop().success());
}
