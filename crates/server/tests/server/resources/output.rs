//! The output of steps, live and stored.

use std::sync::Arc;
use std::time::Duration;

use engine::run::RunStatus;
use engine::turn::Notice;
use serde_json::{Value, json};
use server::Secrets;

use crate::ground::Ground;
use crate::harness::{Node, PATIENCE};

/// A step that writes output, and goes on only when the file exists.
fn workflow(folder: &std::path::Path) -> String {
    let go = folder.join("go").display().to_string();
    format!(
        "name: talk\nsteps:\n  - id: say\n    type: exec\n    command: [sh, -c, \
         'echo one; echo two >&2; printf hunt; sleep 0.2; printf er22; \
         while [ ! -e {go} ]; do sleep 0.05; done; echo; echo three']\n"
    )
}

fn secrets() -> Arc<Secrets> {
    let secret = ("PUNCTUAL_SECRET_KEY".into(), "hunter22".into());
    Arc::new(Secrets::read(None, [secret]).unwrap())
}

/// The output of the step, once it is as wanted.
async fn until(node: &Node, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let said = node.get(path).await.expect(200);
            if wanted(&said) {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap()
}

#[tokio::test]
async fn a_command_is_heard_while_it_runs_and_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with(|options| {
        options.secrets = secrets();
        options.node = "ada".to_owned();
    })
    .await;
    node.publish(&workflow(folder.path())).await;
    let mut notices = node.server.hub().listen();
    let run = node.run("talk").await;
    let path = format!("/api/v1/runs/{run}/steps/say/output");
    let said = until(&node, &path, |said| {
        let text = said["text"].as_str().unwrap();
        assert!(!text.contains("hunter22"), "{text}");
        text.contains("***")
    })
    .await;
    let text = said["text"].as_str().unwrap();
    assert!(text.contains("one\n") && text.contains("two\n") && text.ends_with("***"), "{text}");
    assert_eq!((&said["is_live"], &said["attempt"]), (&json!(true), &json!(1)));
    assert_eq!((&said["node"], &said["truncated"]), (&json!("ada"), &json!(false)));
    let about = |notice: &Notice| matches!(notice, Notice::Output { run: of, step } if of.to_string() == run && step == "say");
    while !notices.recv().await.unwrap().iter().any(about) {}

    std::fs::write(folder.path().join("go"), "").unwrap();
    node.ended(&run).await;
    let said = node.get(&path).await.expect(200);
    assert_eq!((&said["is_live"], &said["offset"]), (&json!(false), &json!(0)));
    assert!(said["text"].as_str().unwrap().ends_with("***\nthree\n"), "{said}");

    // After a restart, the node shows the stored output.
    let node = node.restart().await;
    let said = node.get(&path).await.expect(200);
    assert_eq!(said["text"], "one\n***\nthree\ntwo\n");
    assert_eq!((&said["is_live"], &said["attempt"]), (&json!(false), &json!(1)));
}

#[tokio::test]
async fn of_much_that_is_said_the_last_is_heard() {
    let node = Node::start().await;
    node.publish(
        "name: much\nsteps: [{id: a, type: exec, command: [sh, -c, 'seq 1 20000; sleep 600']}]\n",
    )
    .await;
    let run = node.run("much").await;
    let path = format!("/api/v1/runs/{run}/steps/a/output");
    let said =
        until(&node, &path, |said| said["text"].as_str().unwrap().ends_with("20000\n")).await;
    let (text, offset) = (said["text"].as_str().unwrap(), said["offset"].as_u64().unwrap());
    assert!(text.len() <= 64 * 1024 && said["truncated"] == true);
    let all: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(text, &all[usize::try_from(offset).unwrap()..]);
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    node.ended(&run).await;
}

#[tokio::test]
async fn a_script_is_heard_line_by_line() {
    let node = Node::start().await;
    node.publish(
        "name: js\nsteps: [{id: s, type: script, source: 'ctx.log(\"working\"); while (true) {}'}]\n",
    )
    .await;
    let run = node.run("js").await;
    let path = format!("/api/v1/runs/{run}/steps/s/output");
    let said = until(&node, &path, |said| said["text"] != "").await;
    assert_eq!(said["text"], "working\n");
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    node.ended(&run).await;
}

#[tokio::test]
async fn what_says_nothing_is_empty_and_what_is_unknown_is_not_found() {
    let node = Node::start().await;
    node.publish(crate::harness::NOOP).await;
    let run = node.run("nothing").await;
    node.ended(&run).await;
    let said = node.get(&format!("/api/v1/runs/{run}/steps/a/output")).await.expect(200);
    assert_eq!((&said["text"], &said["attempt"]), (&json!(""), &json!(1)));
    for path in [format!("{run}/steps/zzz"), format!("{}/steps/a", uuid::Uuid::nil())] {
        node.get(&format!("/api/v1/runs/{path}/output")).await.problem(404);
    }
    node.get(&format!("/api/v1/runs/{run}/steps/a/output?index=x")).await.problem(400);
}

#[tokio::test]
async fn another_node_says_who_performs_it() {
    let ground = Ground::shared();
    let (one, folder) = (ground.clone(), tempfile::tempdir().unwrap());
    let one = Node::start_on(one, |options| options.node = "one".to_owned()).await;
    let two = Node::start_on(ground, |options| {
        options.node = "two".to_owned();
        options.capacity = 0;
    })
    .await;
    one.publish(&workflow(folder.path())).await;
    let run = one.run("talk").await;
    one.run_until(&run, |status| status == RunStatus::Running).await;
    let path = format!("/api/v1/runs/{run}/steps/say/output");
    let said = two.get(&path).await.expect(200);
    assert_eq!((&said["node"], &said["is_live"]), (&json!("one"), &json!(true)));
    assert_eq!(said["text"], "");
    std::fs::write(folder.path().join("go"), "").unwrap();
    one.ended(&run).await;
}
