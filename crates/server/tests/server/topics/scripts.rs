//! Definitions that are scripts.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use runners::script::{ScriptHost, Scripts};
use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::{Node, Reply};

pub(super) async fn javascript(node: &Node, path: &str, text: &str) -> Reply {
    node.send_as(Method::POST, path, "application/javascript", text.to_owned()).await
}

const PUBLISH: &str = "/api/v1/workflows?publish=true";
const VALIDATE: &str = "/api/v1/workflows/validate";

#[tokio::test]
async fn a_script_is_a_definition() {
    let node = Node::start().await;
    let text = "const steps = ['a', 'b'].map((id) => ({ id, type: 'noop' }));\n\
                export default workflow({ name: 'made', steps });\n";
    assert_eq!(javascript(&node, VALIDATE, text).await.expect(200)["valid"], true);
    let planned = javascript(&node, "/api/v1/workflows?dry_run=true", text).await.expect(200);
    assert_eq!((&planned["changed"], &planned["id"]), (&json!(true), &json!(null)));
    javascript(&node, PUBLISH, text).await.expect(201);
    let again = node.send_as(Method::POST, PUBLISH, "text/javascript; charset=utf-8", text).await;
    assert_eq!(again.expect(200)["changed"], false);
    let workflow = node.get("/api/v1/workflows/made").await.expect(200);
    assert_eq!(
        (&workflow["source"], &workflow["definition"]["steps"][1]["id"]),
        (&json!(text), &json!("b"))
    );
    let run = node.run("made").await;
    assert_eq!(node.ended(&run).await["status"], "succeeded");
}

#[tokio::test]
async fn mistakes_have_their_place_in_the_script() {
    // A script that never ends is stopped soon, even on a busy machine.
    let node = Node::start_with(|options| {
        let mut host = ScriptHost::new(env!("CARGO_BIN_EXE_server-script-child"), &[]);
        host.limits.cpu = Duration::from_millis(200);
        options.scripts = Some(Arc::new(Scripts::new(host)));
    })
    .await;
    for (text, line, said) in [
        ("export default workflow({\n  name: 'x',\n  steps: [;\n});\n", 3, ""),
        ("const a = 1;\n\nthrow new Error('no way');\n", 3, "no way"),
        ("export default workflow({ name: 'x', steps: missing });\n", 1, "missing"),
    ] {
        let problem = javascript(&node, PUBLISH, text).await.whole_problem(422);
        let error = &problem["errors"][0];
        assert_eq!((&error["line"], &error["code"]), (&json!(line), &json!("script")), "{problem}");
        assert!(error["column"].as_u64().is_some_and(|column| column > 0), "{problem}");
        assert!(error["message"].as_str().unwrap().contains(said), "{problem}");
        let checked = javascript(&node, VALIDATE, text).await.expect(200);
        assert_eq!(
            (&checked["valid"], &checked["problems"][0]["line"]),
            (&json!(false), &json!(line))
        );
    }
    for text in [
        "1",
        "export default 7;",
        "export default workflow({ name: 'Not A Name', steps: [{ id: 'a', type: 'noop' }] });",
        "export default workflow({ name: 'x', steps: [{ id: 'a', type: 'nop' }] });",
        "import fs from 'fs'; export default workflow({ name: 'x' });",
        "await fetch('http://127.0.0.1/'); export default workflow({ name: 'x' });",
        "while (true) {}",
        "const a = []; for (;;) a.push(new Array(10000).fill(a));",
        "await new Promise(() => {}); export default workflow({ name: 'x' });",
    ] {
        javascript(&node, PUBLISH, text).await.problem(422);
        assert_eq!(javascript(&node, VALIDATE, text).await.expect(200)["valid"], false, "{text}");
    }
    let long = format!("//{}", "x".repeat(1024 * 1024));
    javascript(&node, PUBLISH, &long).await.problem(413);
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn a_node_without_scripts_says_so() {
    let node = Node::start_with(|options| options.scripts = None).await;
    let text = "export default workflow({ name: 'x', steps: [{ id: 'a', type: 'noop' }] });";
    assert!(javascript(&node, PUBLISH, text).await.problem(503).contains("evaluates no scripts"));
    javascript(&node, VALIDATE, text).await.problem(503);
}

#[tokio::test]
async fn editors_are_told_what_scripts_see() {
    let node = Node::start_with(|options| options.token = Some("sesame".to_owned())).await;
    let anyone = node.client.get(node.url("/punctual.d.ts"));
    let types = crate::harness::send(anyone).await;
    assert_eq!(types.status, 200);
    assert!(types.text.contains("declare function workflow"), "{}", types.text);
}

#[tokio::test]
async fn a_script_ends_when_its_step_may_take_no_longer_and_is_tried_again() {
    let node = Node::start().await;
    node.publish(
        "name: slow\nsteps: [{id: s, type: script, timeout: 300ms, retry: {max: 2, delay: 10ms}, \
         source: 'while (true) {}'}]\n",
    )
    .await;
    let run = node.run("slow").await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["error"]["code"], "timeout", "{ended}");
    assert_eq!(ended["error"]["message"], "the script was not done within 300ms");
    let step = &ended["steps"][0];
    assert_eq!((&step["attempts"], &step["earlier"][0]["attempt"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn scripts_that_wait_for_answers_keep_nobody_waiting() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let node = Node::start_with(|options| {
        let program = env!("CARGO_BIN_EXE_server-script-child");
        let host = ScriptHost { children: 2, ..ScriptHost::new(program, &[]) };
        options.scripts = Some(Arc::new(Scripts::new(host)));
    })
    .await;
    let waits = format!(
        "name: waits\nconcurrency: 10\nsteps:\n\
         - {{id: a, type: script, script: \"await ctx.fetch('http://127.0.0.1:{port}/')\"}}\n"
    );
    node.publish(&waits).await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        node.run("waits").await;
        asked.push(silent.accept().await.unwrap());
    }
    node.publish("name: quick\nsteps: [{id: a, type: script, script: 'return 1'}]\n").await;
    assert_eq!(node.ended(&node.run("quick").await).await["output"], 1);
    let text = "export default workflow({ name: 'made', steps: [{ id: 'a', type: 'noop' }] });\n";
    javascript(&node, PUBLISH, text).await.expect(201);
    drop(asked);
}

#[tokio::test]
async fn scripts_in_a_definition_are_read_before_it_is_published() {
    let node = Node::start().await;
    let text = "name: t\ntopics: [{name: o, external: true}]\nsteps:\n- id: a\n  type: script\n  script: |\n    \
                const x = 1;\n    return x +;\n- {id: b, type: for_each, items: [1], step: {type: script, source: 'return )'}}\n\
                producers:\n  p:\n    schedule: {interval: 1d}\n    publishes: o\n    handler: 'if (state) {'\n";
    let problem = node.yaml(PUBLISH, text).await.whole_problem(422);
    let places: Vec<_> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            let place = (error["line"].as_u64().unwrap(), error["column"].as_u64().unwrap());
            assert_eq!(error["code"], "script", "{problem}");
            (error["path"].as_str().unwrap(), place)
        })
        .collect();
    assert_eq!(
        places,
        [
            ("steps[0].script", (8, 15)),
            ("steps[1].step.source", (9, 76)),
            ("producers.p.handler", (14, 27)),
        ],
        "{problem}"
    );
    let good = text.replace("x +;", "x;").replace("return )", "return 1").replace("{'", "{}'");
    node.yaml(PUBLISH, good).await.expect(201);
    let described = "export default workflow({\n  name: 'd',\n  steps: [{ id: 'a', type: 'script', script: 'return (' }],\n});\n";
    let problem = javascript(&node, PUBLISH, described).await.whole_problem(422);
    assert_eq!(problem["errors"][0]["line"], 3, "{problem}");
}
