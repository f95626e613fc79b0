//! Secrets that arrive in payloads: nothing that people read shows them.

use serde_json::json;
use server::Secrets;

use crate::harness::Node;

const ASKING: &str = "
name: ask
topics: [orders]
outputs: [{ name: given, source: '{{ input.key }}' }]
steps:
  - id: sure
    type: human_approval
    title: 'Use {{ input.key }}?'
    description: 'It is {{ input.key }}.'
  - id: child
    type: sub_process
    workflow: echo
    input_mapping: { key: '{{ input.key }}' }
";
const ECHO: &str = "
name: echo
outputs: [{ name: key, source: '{{ input.key }}' }]
steps: [{ id: a, type: noop }]
";

#[tokio::test]
async fn a_secret_in_a_payload_is_shown_nowhere() {
    let node = Node::start_with(|options| {
        let secret = ("PUNCTUAL_SECRET_KEY".into(), "hunter22".into());
        options.secrets = Secrets::read(None, [secret]).unwrap().into();
    })
    .await;
    node.publish(ECHO).await;
    node.publish(ASKING).await;
    let body = json!({"payload": {"key": "hunter22"}});
    let run = node.post("/api/v1/workflows/ask/runs", body).await.expect(201);
    let run = run["id"].as_str().unwrap().to_owned();
    let waits =
        |list: &serde_json::Value| list["items"].as_array().is_some_and(|all| all.len() == 1);
    node.until("/api/v1/approvals", waits).await;
    let event = json!({"message_id": "m", "title": "hunter22", "payload": {"key": "hunter22"}});
    node.post("/api/v1/topics/orders/events", event).await.expect(201);
    let check = async |paths: &[String]| {
        for path in paths {
            let shown = node.get(path).await;
            assert!(shown.text.contains("***"), "{path}: {}", shown.text);
            assert!(!shown.text.contains("hunter22"), "{path}: {}", shown.text);
        }
    };
    check(
        &["/api/v1/approvals", "/approvals", "/api/v1/runs", "/api/v1/topics/orders/events"]
            .map(str::to_owned),
    )
    .await;
    check(&[format!("/api/v1/runs/{run}"), format!("/runs/{run}")]).await;
    let approve = format!("/api/v1/approvals/{run}/sure/approve");
    node.post(&approve, json!({"by": "ada"})).await.expect(200);
    let ended = node.ended(&run).await;
    assert_eq!(ended["output"], json!({"given": "***"}));
    check(&[format!("/api/v1/runs/{run}"), format!("/runs/{run}"), "/api/v1/runs".to_owned()])
        .await;
}

#[tokio::test]
async fn a_secret_in_a_reason_an_id_or_an_override_is_shown_nowhere() {
    let node = Node::start_with(|options| {
        let secret = ("PUNCTUAL_SECRET_KEY".into(), "hunter22".into());
        options.secrets = Secrets::read(None, [secret]).unwrap().into();
    })
    .await;
    let text = "name: told\ntopics: {orders: {external: true}}\ntriggers: [{ id: e, type: event, \
                topic: orders }]\nsteps: [{ id: a, type: noop }]\n";
    node.publish(text).await;
    let event = json!({"message_id": "order-hunter22", "causes": ["hunter22"]});
    let published = node.post("/api/v1/topics/orders/events", event).await;
    assert!(!published.text.contains("hunter22"), "{}", published.text);
    let runs = node.until("/api/v1/runs", |list| list["items"][0]["status"] == "succeeded").await;
    assert_eq!(runs["items"][0]["by"], "event order-***");
    let run = runs["items"][0]["id"].as_str().unwrap();
    let cron = json!({"name": "s", "workflow_id": "told", "cron": "0 9 * * *"});
    let schedule = node.schedule(cron).await;
    let coming = node.get(&format!("{schedule}/next")).await.expect(200);
    let nominal = coming["items"][0]["nominal_at"].as_str().unwrap().to_owned();
    let occurrence = format!("{schedule}/occurrences/{nominal}");
    let own = json!({"payload": {"key": "hunter22"}});
    let put = node.send(reqwest::Method::PUT, &occurrence, own).await;
    assert!(put.status == 200 && !put.text.contains("hunter22"), "{}", put.text);
    let page = schedule.trim_start_matches("/api/v1");
    assert!(node.get(page).await.text.contains("Its payload"));
    let why = json!({"reason": "leaked hunter22"});
    let paused = node.post("/api/v1/workflows/told/pause", why).await.expect(200);
    assert_eq!(paused["paused_reason"], "leaked ***");
    for path in [
        "/",
        "/workflows",
        "/workflows/told",
        "/api/v1/workflows",
        "/api/v1/workflows/told",
        "/api/v1/topics/orders/events",
        "/api/v1/runs",
        "/runs",
        page,
        &format!("/runs/{run}"),
        &format!("/api/v1/runs/{run}"),
    ] {
        let shown = node.get(path).await;
        assert!(shown.status == 200 && !shown.text.contains("hunter22"), "{path}: {}", shown.text);
    }
}

#[tokio::test]
async fn what_a_definition_names_and_nobody_knows_is_told_when_it_is_published() {
    let node = Node::start_with(|options| {
        let secret = ("PUNCTUAL_SECRET_KEY".into(), "hunter22".into());
        options.secrets = Secrets::read(None, [secret]).unwrap().into();
    })
    .await;
    let text = "
name: names
on_failure: { start: nowhere }
deadline: { within: 2h, actions: [{ at: deadline, start: nobody }] }
steps:
  - { id: a, type: exec, command: [echo, '{{ secrets.nope }}', '{{ secrets.KEY }}'] }
  - { id: b, type: sub_process, workflow: nothing, depends_on: a }
  - { id: c, type: notification, to: [{ email: a@example.com }], message: m, depends_on: a }
";
    let saved = node.yaml("/api/v1/workflows?publish=true", text).await.expect(201);
    let problems = saved["problems"].as_array().unwrap();
    let mut told: Vec<(&str, &str)> = problems
        .iter()
        .map(|one| (one["code"].as_str().unwrap(), one["path"].as_str().unwrap()))
        .collect();
    told.sort_unstable();
    let expected = [
        ("channel-not-set-up", "steps[2].to"),
        ("unknown-secret", "steps[0].type"),
        ("unknown-workflow", "deadline"),
        ("unknown-workflow", "on_failure"),
        ("unknown-workflow", "steps[1].workflow"),
    ];
    assert_eq!(told, expected, "{saved}");
    let run = node.run("names").await;
    let ended = node.ended(&run).await;
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("no secret nope"), "{message}");
}
