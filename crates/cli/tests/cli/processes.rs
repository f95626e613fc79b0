//! Tests of runs that wait for workers, people and time, as the command line shows them.

use std::process::Stdio;

use serde_json::json;

use crate::node::Home;
use crate::worker::Worker;
use crate::{finished, punctual};

const BUY: &str = "name: buy
deadline: { within: 1h }
steps:
  - id: each
    type: for_each
    items: '{{ input }}'
    max_parallel: 1
    step: { type: worker, queue: q, input: '{{ item }}' }
  - id: may-i
    type: human_approval
    title: Buy {{ steps.each.output | length }} things?
    assignees: [ann]
    depends_on: each
    deadline: { within: 1s, actions: [{ at: deadline, start: told }] }
";
const TOLD: &str = "name: told\nsteps: [{ id: a, type: noop }]\n";

#[test]
fn what_waits_is_shown_with_its_reason_and_people_decide() {
    let home = Home::new().with("buy.yaml", BUY).with("told.yaml", TOLD);
    let node = home.serve();
    let following = punctual()
        .args(["run", "buy", "--payload", "[3, 4]", "--follow"])
        .env("PUNCTUAL_URL", &node.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let runs = node
        .wait_for(&["run", "list", "--workflow", "buy"], |page| page["items"][0]["id"].is_string());
    let run = runs["items"][0]["id"].as_str().expect("an id").to_owned();
    node.wait_for(&["run", "get", &run], |run| run["steps"][0]["items"][0]["status"] == "ready");
    let waiting = node.shown(&["run", "get", &run]);
    for said in ["0 of 2 items are done", "item 0", "it waits for a worker of queue q", "deadline "]
    {
        assert!(waiting.contains(said), "{said}: {waiting}");
    }
    let mut command = punctual();
    command.args(["worker", "--queue", "q", "--", "cat"]);
    let _worker = Worker::spawn(command, &node.url);
    let asked = node.wait_for(&["approval", "list"], |page| page["total"] == 1);
    assert_eq!(asked["items"][0]["title"], "Buy 2 things?");
    node.wait_for(&["run", "get", &run], |run| run["alerts"][0].is_object());
    let overdue = node.shown(&["run", "get", &run]);
    for said in ["it waits for ann to decide", "not done in time", "DEADLINE OF", "started "] {
        assert!(overdue.contains(said), "{said}: {overdue}");
    }
    let listed = node.shown(&["approval", "list", "--assignee", "ann"]);
    assert!(listed.contains("Buy 2 things?") && listed.contains(&run), "{listed}");
    assert!(node.shown(&["approval", "list", "--assignee", "eve"]).contains("nobody is asked"));
    let refused = node.refused(&["approval", "approve", &run, "may-i", "--by", "eve"]);
    assert!(refused.contains("for ann to decide"), "{refused}");
    assert!(refused.contains("try: --by with the name of somebody who is asked"), "{refused}");
    let decided = ["approval", "approve", &run, "may-i", "--by", "ann", "--comment", "fine"];
    let said = node.shown(&decided);
    assert!(said.contains("is approved by ann (the run is succeeded)"), "{said}");
    let refused = node.refused(&["approval", "reject", &run, "may-i", "--by", "ann"]);
    assert!(refused.contains("not waiting for that"), "{refused}");
    let (code, told, err) = finished(following.wait_with_output().expect("it ends"));
    assert_eq!((code, err.as_str()), (0, ""), "{told}");
    for line in ["each[0]", "each[1]", "it waits for ann to decide", "deadline of step may-i"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let children = node.json(&["run", "list", "--parent", &run]);
    assert_eq!(children["items"][0]["workflow"], "told");
    assert_eq!(children["items"][0]["triggered_by"], "deadline");
}

#[test]
fn a_rejection_fails_the_run() {
    let definition = "name: ask\nsteps: [{ id: may-i, type: human_approval, title: May I? }]\n";
    let home = Home::new().with("ask.yaml", definition);
    let node = home.serve();
    let run = node.json(&["run", "ask"])["id"].as_str().expect("an id").to_owned();
    node.wait_for(&["approval", "list"], |page| page["total"] == 1);
    let without = punctual()
        .args(["approval", "reject", &run, "may-i"])
        .env("PUNCTUAL_URL", &node.url)
        .env_remove("USER")
        .output();
    let (code, _, err) = finished(without.expect("the binary starts"));
    assert!(code == 1 && err.contains("try: --by NAME"), "{err}");
    let rejected = node.json(&["approval", "reject", &run, "may-i", "--by", "ann"]);
    assert_eq!(
        (&rejected["status"], &rejected["error"]["code"]),
        (&json!("failed"), &json!("rejected"))
    );
}
