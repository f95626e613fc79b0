//! Runs: lists, states, cancel, retry, resolve.

use engine::Moment;
use engine::run::RunStatus;
use engine::turn::{Answer, Capacity, Command, NewRun, Starter};
use jiff::SignedDuration;
use language::definition::ReadContext;
use runners::Supervisor;
use serde_json::{Value, json};
use store::{CommandRequest, TurnRequest};

use crate::ground::Ground;
use crate::harness::Node;

const QUICK: &str = "name: quick\nversion: 7\nsteps: [{id: a, type: noop}, {id: b, type: noop}]\n";
const BAD: &str = "name: bad
steps:
  - {id: a, type: noop}
  - {id: b, type: exec, command: ['false'], retry: {max: 1}, depends_on: a}
  - {id: c, type: noop, depends_on: b}
";

#[tokio::test]
async fn a_run_is_shown_with_its_steps() {
    let node = Node::start().await;
    let workflow = node.publish(QUICK).await;
    let id = node.run("quick").await;
    let run = node.ended(&id).await;
    for (key, value) in [
        ("id", json!(id)),
        ("workflow_id", json!(workflow)),
        ("workflow", json!("quick")),
        ("version", json!(7)),
        ("schedule_id", Value::Null),
        ("n", Value::Null),
        ("retry", json!(0)),
        ("triggered_by", json!("manual")),
        ("nominal_at", Value::Null),
        ("effective_at", Value::Null),
        ("status", json!("succeeded")),
        ("overdue", json!(false)),
        ("input", json!({"payload": null})),
        ("output", Value::Null),
        ("error", Value::Null),
        ("retry_of", Value::Null),
    ] {
        assert_eq!(run.get(key), Some(&value), "{key}");
    }
    for key in ["created_at", "started_at", "ended_at"] {
        run[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    let steps = run["steps"].as_array().unwrap();
    let shown: Vec<Value> = steps
        .iter()
        .map(|step| json!([step["id"], step["type"], step["status"], step["attempts"]]))
        .collect();
    assert_eq!(shown, [json!(["a", "noop", "completed", 1]), json!(["b", "noop", "completed", 1])]);
}

#[tokio::test]
async fn a_failed_run_says_where_and_is_tried_again() {
    let node = Node::start().await;
    node.publish(BAD).await;
    let id = node.run("bad").await;
    let run = node.ended(&id).await;
    assert_eq!((&run["status"], &run["error"]["step"]), (&json!("failed"), &json!("b")));
    let statuses = |run: &Value| -> Vec<String> {
        let steps = run["steps"].as_array().unwrap().iter();
        steps.map(|step| step["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&run), ["completed", "failed", "cancelled"]);
    assert!(run["steps"][1]["reason"].as_str().is_some());

    for (body, is_kept) in
        [(Value::Null, true), (json!({"from": "failed"}), true), (json!({"from": "start"}), false)]
    {
        let reply = node.post(&format!("/api/v1/runs/{id}/retry"), body).await;
        let again = reply.expect(201);
        let new = again["id"].as_str().unwrap();
        assert_eq!(reply.header("location"), Some(&*format!("/api/v1/runs/{new}")));
        assert_eq!((&again["retry_of"], &again["triggered_by"]), (&json!(id), &json!("retry")));
        let again = node.ended(new).await;
        assert_eq!(statuses(&again), ["completed", "failed", "cancelled"]);
        let started = |run: &Value| run["steps"][0]["started_at"].clone();
        assert_eq!(started(&again) == started(&run), is_kept, "what was done is done once");
    }
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let node = Node::start().await;
    let quick = node.publish(QUICK).await;
    node.publish(BAD).await;
    let mut ids = Vec::new();
    for name in ["quick", "bad", "quick"] {
        let id = node.run(name).await;
        node.ended(&id).await;
        ids.insert(0, id);
    }
    let created = node.get(&format!("/api/v1/runs/{}", ids[0])).await.json()["created_at"].clone();
    let since = created.as_str().unwrap().to_owned();
    for (query, expected) in [
        (String::new(), vec![0, 1, 2]),
        ("workflow=quick".to_owned(), vec![0, 2]),
        (format!("workflow_id={quick}"), vec![0, 2]),
        ("status=failed".to_owned(), vec![1]),
        ("status=failed,succeeded".to_owned(), vec![0, 1, 2]),
        ("status=running".to_owned(), vec![]),
        ("triggered_by=manual&workflow=bad".to_owned(), vec![1]),
        ("triggered_by=schedule".to_owned(), vec![]),
        ("schedule_id=5".to_owned(), vec![]),
        (format!("since={since}"), vec![0]),
    ] {
        for limit in [1, 50] {
            let mut found = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = node
                    .get(&format!("/api/v1/runs?limit={limit}&{query}{cursor}"))
                    .await
                    .expect(200);
                let items = page["items"].as_array().unwrap();
                found.extend(items.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            let expected: Vec<&String> =
                expected.iter().map(|place: &usize| &ids[*place]).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        }
    }
    for query in [
        "status=done",
        "status=failed,",
        "triggered_by=me",
        "since=yesterday",
        "limit=1001",
        "schedule_id=-1",
        "cursor=zzz",
        "stauts=failed",
    ] {
        node.get(&format!("/api/v1/runs?{query}")).await.whole_problem(400);
    }
    node.get("/api/v1/runs?workflow=nobody").await.whole_problem(404);
}

#[tokio::test]
async fn wrong_states_and_unknown_runs() {
    let node = Node::start().await;
    node.publish(QUICK).await;
    let id = node.run("quick").await;
    node.ended(&id).await;
    for (verb, body, status, detail) in [
        ("cancel", Value::Null, 400, "Cannot cancel run with status 'succeeded'."),
        ("retry", Value::Null, 400, "Cannot retry run with status 'succeeded'."),
        (
            "resolve",
            json!({"resolution": "applied"}),
            400,
            "Cannot resolve run with status 'succeeded'.",
        ),
        ("resolve", json!({"resolution": "perhaps"}), 422, "unknown variant"),
        ("resolve", json!({}), 422, "missing field"),
        ("retry", json!({"from": "middle"}), 422, "unknown variant"),
        ("cancel", json!({"why": "x"}), 422, "unknown field"),
        ("cancel", json!({"reason": "x".repeat(2_000)}), 422, "too long"),
    ] {
        let problem =
            node.post(&format!("/api/v1/runs/{id}/{verb}"), body).await.whole_problem(status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    for run in ["sched-9-n0-rc0", "nobody", "%00", "019a8f00-1234-7abc-8def-0123456789ab"] {
        node.get(&format!("/api/v1/runs/{run}")).await.whole_problem(404);
        let body = json!({"resolution": "applied"});
        node.post(&format!("/api/v1/runs/{run}/resolve"), body).await.whole_problem(404);
        node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.whole_problem(404);
    }
}

/// Leaves a run behind whose node died in the middle of a step that must not be repeated.
async fn abandoned(ground: &Ground) -> String {
    let text = "name: once\nsteps:\n  - {id: a, type: noop, idempotent: false}\n  \
        - {id: b, type: noop, depends_on: a}\n";
    let store = ground.open_with(|options| options.lease = SignedDuration::from_secs(1)).await;
    let now = server::Clock::now(&server::SystemClock);
    let moment = Moment::new(now, now);
    let node = store.join("gone", moment).await.unwrap().node;
    let rules = store.rules();
    let context = ReadContext { zones: rules.zones(), now, known_calendar: &|_| None };
    let definition = language::definition::read(text, &context).unwrap().into();
    let command = |command| CommandRequest {
        command,
        moment,
        node,
        idempotency: None,
        audit: None,
        traced: false,
    };
    let save =
        Command::SaveWorkflow { source: text.to_owned(), definition, publish: true, folder: None };
    let Answer::Workflow { id, .. } = store.command(command(save)).await.unwrap().answer else {
        panic!("not saved");
    };
    let run = NewRun {
        id: 1,
        payload: None,
        by: Starter::Caller("test".to_owned()),
        trace: None,
        if_busy: Default::default(),
    };
    let start = Command::StartWorkflow { id, run };
    let Answer::Run(run) = store.command(command(start)).await.unwrap().answer else {
        panic!("not started");
    };
    let capacity = Capacity::new(10);
    let turn = TurnRequest {
        moment,
        node,
        reports: vec![],
        limit: 10,
        begin: None,
        held: Default::default(),
        capacity,
        performed: None,
        traced: false,
    };
    assert_eq!(store.turn(turn).await.unwrap().effects.len(), 1);
    run
}

#[tokio::test]
async fn the_end_of_a_lost_command_is_unknown_if_it_must_not_be_repeated() {
    // The supervisor is killed as soon as it has its order.
    let killed = Supervisor::new("sh", &["-c", "read -r order; kill -KILL $$"]);
    let node = Node::start_with(|options| options.runners.supervisor = Some(killed)).await;
    for (name, idempotent) in [("once", false), ("again", true)] {
        node.publish(&format!(
            "name: {name}\nsteps:\n  - {{id: a, type: exec, command: [\"true\"], \
             retry: {{max: 1}}, idempotent: {idempotent}}}\n"
        ))
        .await;
        let id = node.run(name).await;
        let is_over = |status: RunStatus| status == RunStatus::Suspended || status.has_ended();
        let run = node.run_until(&id, is_over).await;
        let (status, code, message) = if idempotent {
            ("failed", "exec_wait", "the command was lost: its supervisor was killed")
        } else {
            let message = "the command was lost: its supervisor was killed, and the step must not \
                           be repeated";
            ("suspended", "unknown_outcome", message)
        };
        assert_eq!(run["status"], status, "{run}");
        assert_eq!(
            (&run["error"]["code"], &run["error"]["message"]),
            (&json!(code), &json!(message))
        );
    }
}

#[tokio::test]
async fn a_person_says_what_became_of_an_unknown_end() {
    for (resolution, status, first) in [
        ("applied", "succeeded", "completed"),
        ("did_not_happen", "succeeded", "completed"),
        ("failed", "failed", "failed"),
    ] {
        let ground = Ground::new();
        let id = abandoned(&ground).await;
        let node = Node::start_on(ground, |_| {}).await;
        let run = node.run_until(&id, |status| status == RunStatus::Suspended).await;
        assert_eq!(run["steps"][0]["status"], "waiting");
        assert!(run["steps"][0]["reason"].as_str().unwrap().contains("must not be repeated"));
        let body = json!({"resolution": resolution});
        node.post(&format!("/api/v1/runs/{id}/resolve"), body).await.expect(200);
        let run = node.ended(&id).await;
        assert_eq!((&run["status"], &run["steps"][0]["status"]), (&json!(status), &json!(first)));
        node.server.stop().await.unwrap();
    }
}
