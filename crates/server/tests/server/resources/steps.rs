//! Steps that really do something.

use serde_json::{Value, json};

use crate::harness::Node;
use crate::lifeline::Lifeline;
use crate::peer::Peer;

#[tokio::test]
async fn a_failing_request_is_tried_again_until_it_succeeds() {
    let node = Node::start().await;
    let peer = Peer::failing(2).await;
    let url = peer.url();
    let text = format!(
        "name: t\nsteps: [{{id: ask, type: http, url: '{url}', method: POST, \
         retry: {{max: 5, delay: 10ms}}}}]\n"
    );
    node.publish(&text).await;
    let id = node.run("t").await;
    let run = node.ended(&id).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    let step = &run["steps"][0];
    assert_eq!((&step["attempts"], &step["status"]), (&json!(3), &json!("completed")));
    assert_eq!(peer.heard(), vec![format!("{id}/ask"); 3], "the same key each time");
    assert_eq!(run["output"], step["output"]);
    assert_eq!(run["output"]["status"], 200);
}

#[tokio::test]
async fn a_request_that_keeps_failing_fails_the_run() {
    let node = Node::start().await;
    let peer = Peer::failing(usize::MAX).await;
    let url = peer.url();
    let text = format!(
        "name: t\nsteps: [{{id: ask, type: http, url: '{url}', retry: {{max: 2, delay: 10ms}}}}]\n"
    );
    node.publish(&text).await;
    let run = node.ended(&node.run("t").await).await;
    assert_eq!((&run["status"], peer.heard().len()), (&json!("failed"), 2));
    assert_eq!(run["error"]["step"], "ask");
}

#[tokio::test]
async fn requests_go_only_where_they_may() {
    let node = Node::start_with(|options| options.runners.egress = Default::default()).await;
    let peer = Peer::failing(0).await;
    let url = peer.url();
    let text =
        format!("name: t\nsteps: [{{id: ask, type: http, url: '{url}', retry: {{max: 1}}}}]\n");
    node.publish(&text).await;
    let run = node.ended(&node.run("t").await).await;
    assert_eq!((&run["status"], peer.heard().len()), (&json!("failed"), 0));
}

#[tokio::test]
async fn a_command_runs_with_the_payload() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: exec, command: [cat]}]\n").await;
    let payload = json!({"payload": {"order": 7}});
    let run = node.post("/api/v1/workflows/t/runs", payload).await.expect(201);
    let run = node.ended(run["id"].as_str().unwrap()).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    assert!(run["output"].to_string().contains("order"), "{run}");
}

#[tokio::test]
async fn a_cancelled_command_ends_with_all_it_started() {
    let node = Node::start().await;
    let mut lifeline = Lifeline::new();
    let script = lifeline.endless_script();
    let text = format!("name: t\nsteps: [{{id: a, type: exec, command: [sh, -c, '{script}']}}]\n");
    node.publish(&text).await;
    let id = node.run("t").await;
    lifeline.held().await;
    let running = node.get(&format!("/api/v1/runs/{id}")).await.expect(200);
    assert_eq!(
        (&running["status"], &running["steps"][0]["status"]),
        (&json!("running"), &json!("running"))
    );
    let cancelled =
        node.post(&format!("/api/v1/runs/{id}/cancel"), json!({"reason": "enough"})).await;
    cancelled.expect(200);
    lifeline.released().await;
    let run = node.ended(&id).await;
    assert_eq!(
        (&run["status"], &run["steps"][0]["status"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(run["error"]["message"], "cancelled by anyone: enough");
    node.post(&format!("/api/v1/runs/{id}/cancel"), Value::Null).await.whole_problem(400);
}

#[tokio::test]
async fn what_a_step_says_is_cut_to_what_is_kept() {
    let node = Node::start().await;
    let text = "name: t\nsteps:
- {id: quotes, type: exec, shell: true, command: \"yes '\\\"' | head -c 262144\"}
- {id: after, type: exec, command: [cat], stdin: '{{ steps.quotes.output.stdout_truncated }}', depends_on: [quotes]}
";
    node.publish(text).await;
    let run = node.ended(&node.run("t").await).await;
    assert_eq!(run["status"], "succeeded", "{:.500}", run.to_string());
    assert_eq!(run["output"]["stdout"], "true");
}

#[tokio::test]
async fn a_list_of_much_work_does_not_fail_for_what_it_says() {
    let node = Node::start().await;
    let text = "name: t\ntopics: [{name: orders, external: true}]\nsteps:
- id: all
  type: for_each
  items: '{{ input.numbers }}'
  step: {type: publish, topic: orders, message_id: 'order-{{ item }}-with-a-name-that-is-rather-long'}
- {id: after, type: noop, depends_on: [all]}
";
    node.publish(text).await;
    let numbers: Vec<u32> = (0..5_000).collect();
    let body = json!({"payload": {"numbers": numbers}});
    let run = node.post("/api/v1/workflows/t/runs", body).await.expect(201);
    let run = node.ended(run["id"].as_str().unwrap()).await;
    assert_eq!(run["status"], "succeeded", "{:.500}", run.to_string());
    let step = &run["steps"][0];
    let kept = step["output"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[4_999]), (5_000, &Value::Null));
    assert!(kept[0].is_object(), "{}", kept[0]);
    assert!(step["reason"].as_str().unwrap().contains("are null here"), "{}", step["reason"]);
}

#[tokio::test]
async fn a_worker_that_says_too_much_may_say_less() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: worker, queue: q}]\n").await;
    let run = node.run("t").await;
    let claim = json!({"queues": ["q"], "wait_seconds": 30});
    let claimed = node.post("/api/v1/attempts/claim", claim).await.expect(200);
    let attempt = &claimed["attempts"][0];
    let path = format!("/api/v1/attempts/{}/complete", attempt["id"].as_str().unwrap());
    let done = |output: String| json!({"token": attempt["token"], "output": output});
    let said = node.post(&path, done("x".repeat(300_000))).await.problem(413);
    assert!(said.contains("262144"), "{said}");
    node.post(&path, done("x".repeat(200_000))).await.expect(200);
    assert_eq!(node.ended(&run).await["status"], "succeeded");
}
