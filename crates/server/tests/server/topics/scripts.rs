//! Definitions that are scripts.

use reqwest::Method;
use serde_json::json;

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
    let node = Node::start().await;
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
