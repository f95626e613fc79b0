//! Definitions, versions, and starts by hand.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Node, send};

const HOURLY: &str = "name: report
version: 3
description: The hourly report
timezone: Europe/Berlin
concurrency: 2
triggers:
  - {id: hourly, type: schedule, cron: '0 * * * *'}
  - {id: hand, type: manual}
steps: [{id: a, type: noop}]
";

#[tokio::test]
async fn a_definition_is_saved_published_and_shown() {
    let node = Node::start().await;
    let reply = node.yaml("/api/v1/workflows", HOURLY).await;
    let saved = reply.expect(201);
    let id = saved["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), Some(&*format!("/api/v1/workflows/{id}")));
    assert_eq!(
        saved,
        json!({"id": id, "name": "report", "version": 3, "revision": 1, "status": "draft",
            "changed": true, "problems": []})
    );
    assert_eq!(node.yaml("/api/v1/workflows", HOURLY).await.expect(200)["changed"], false);
    let published = node.post("/api/v1/workflows/report/publish", Value::Null).await.expect(200);
    assert_eq!(published["status"], "published");

    for path in [format!("/api/v1/workflows/{id}"), "/api/v1/workflows/report".to_owned()] {
        let shown = node.get(&path).await.expect(200);
        for (key, value) in [
            ("id", json!(id)),
            ("name", json!("report")),
            ("version", json!(3)),
            ("revision", json!(1)),
            ("live_revision", json!(1)),
            ("versions", json!(1)),
            ("concurrency", json!(2)),
            ("active", json!(0)),
            ("paused", json!(false)),
            ("schedules", json!(1)),
            ("source", json!(HOURLY)),
        ] {
            assert_eq!(shown[key], value, "{key}");
        }
        let triggers = shown["triggers"].as_array().unwrap();
        assert_eq!(
            (&triggers[0]["id"], &triggers[0]["status"]),
            (&json!("hourly"), &json!("active"))
        );
        let next = triggers[0]["next_run_at"].as_str().unwrap();
        assert!(next.contains(":00:00+0"), "in Berlin: {next}");
        assert_eq!(triggers[1]["schedule_id"], Value::Null);
        assert_eq!(shown["definition"]["steps"][0]["id"], "a");
    }
    let list = node.get("/api/v1/workflows?limit=1").await.expect(200);
    assert_eq!((&list["total"], &list["items"][0]["name"]), (&json!(1), &json!("report")));
}

#[tokio::test]
async fn json_is_taken_as_well_and_the_key_answers_again() {
    let node = Node::start().await;
    let definition =
        json!({"name": "j", "version": "1.10", "steps": [{"id": "a", "type": "noop"}]});
    let request = || {
        let request = node.request(Method::POST, "/api/v1/workflows?publish=true");
        send(request.header("idempotency-key", "k").json(&definition))
    };
    let first = request().await;
    let saved = first.expect(201);
    assert_eq!((&saved["version"], &saved["status"]), (&json!("1.10"), &json!("published")));
    let again = request().await;
    assert_eq!(again.json()["id"], saved["id"]);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn each_change_is_a_version() {
    let node = Node::start().await;
    let id = node.publish(HOURLY).await;
    for number in 4..8 {
        node.publish(&HOURLY.replace("version: 3", &format!("version: {number}"))).await;
    }
    let mut seen = Vec::new();
    let mut path = format!("/api/v1/workflows/{id}/versions?limit=2");
    loop {
        let page = node.get(&path).await.expect(200);
        assert_eq!(page["total"], 5);
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["version"].as_u64().unwrap()));
        match page["next_cursor"].as_str() {
            Some(cursor) => {
                path = format!("/api/v1/workflows/{id}/versions?limit=2&cursor={cursor}")
            }
            None => break,
        }
    }
    assert_eq!(seen, [7, 6, 5, 4, 3]);
    let old = node.get(&format!("/api/v1/workflows/{id}?revision=1")).await.expect(200);
    assert_eq!((&old["version"], &old["live_revision"]), (&json!(3), &json!(5)));
    assert_eq!(old["source"], HOURLY);
    node.get(&format!("/api/v1/workflows/{id}?revision=9")).await.whole_problem(404);
    node.get(&format!("/api/v1/workflows/{id}?revision=0")).await.whole_problem(400);
}

#[tokio::test]
async fn a_dry_run_and_a_validation_store_nothing() {
    let node = Node::start().await;
    let planned =
        node.yaml("/api/v1/workflows?publish=true&dry_run=true", HOURLY).await.expect(200);
    assert_eq!((&planned["id"], &planned["revision"]), (&Value::Null, &json!(1)));
    let validity = node.yaml("/api/v1/workflows/validate", HOURLY).await.expect(200);
    assert_eq!(validity, json!({"valid": true, "problems": []}));
    let never = "name: n\ntriggers: [{id: t, type: schedule, cron: '0 0 31 2 *'}]\nsteps: []\n";
    let validity = node.yaml("/api/v1/workflows/validate", never).await.expect(200);
    assert_eq!(validity["valid"], true);
    let warning = &validity["problems"][0];
    assert_eq!((&warning["severity"], &warning["line"]), (&json!("warning"), &json!(2)));
    let bad = "name: n\nsteps: [{id: a, type: nop}, {id: a, type: noop}]\n";
    let validity = node.yaml("/api/v1/workflows/validate", bad).await.expect(200);
    assert_eq!(validity["valid"], false);
    assert_eq!(validity["problems"][0]["severity"], "error");
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 0);

    node.publish(HOURLY).await;
    let planned =
        node.yaml("/api/v1/workflows?publish=true&dry_run=true", HOURLY).await.expect(200);
    assert_eq!((&planned["changed"], &planned["revision"]), (&json!(false), &json!(1)));
}

#[tokio::test]
async fn all_flaws_are_told_with_their_places() {
    let node = Node::start().await;
    let text = "name: Bad Name
triggers: [{id: t, type: schedule, cron: '61 * * * *'}]
steps:
  - {id: a, type: nop}
  - {id: b, type: noop, depends_on: [c]}
";
    let problem = node.yaml("/api/v1/workflows?publish=true", text).await.whole_problem(422);
    let errors = problem["errors"].as_array().unwrap();
    let places: Vec<(&str, u64)> = errors
        .iter()
        .map(|error| (error["path"].as_str().unwrap(), error["line"].as_u64().unwrap()))
        .collect();
    for place in [("name", 1), ("triggers[0].cron", 2), ("steps[0].type", 4)] {
        assert!(places.contains(&place), "{place:?} is missing in {places:?}");
    }
    assert!(errors.iter().all(|error| error["column"].as_u64().unwrap() > 0));
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn wrong_requests_are_refused() {
    let node = Node::start().await;
    for (content_type, body, status) in [
        ("text/plain", "name: t\nsteps: []\n", 415),
        ("application/xml", "<a/>", 415),
        ("application/json", "{", 422),
        ("application/json", "", 422),
        ("application/yaml", "", 422),
        ("text/yaml; charset=utf-8", "name: t\nstep: []\n", 422),
        ("application/x-yaml", "[]", 422),
    ] {
        let reply = node.send_as(Method::POST, "/api/v1/workflows", content_type, body).await;
        reply.whole_problem(status);
    }
    for path in ["/api/v1/workflows?publish=yes", "/api/v1/workflows?publsh=true"] {
        node.yaml(path, HOURLY).await.whole_problem(400);
    }
    for path in [
        "/api/v1/workflows/nobody",
        "/api/v1/workflows/99",
        "/api/v1/workflows/%2e%2e",
        "/api/v1/workflows/a/versions",
    ] {
        node.get(path).await.whole_problem(404);
    }
    for verb in ["publish", "archive", "pause", "resume", "runs"] {
        node.post(&format!("/api/v1/workflows/nobody/{verb}"), Value::Null)
            .await
            .whole_problem(404);
    }
    for query in ["limit=0", "cursor=x", "offset=3"] {
        node.get(&format!("/api/v1/workflows?{query}")).await.whole_problem(400);
    }
}

#[tokio::test]
async fn states_change_only_where_they_may() {
    let node = Node::start().await;
    let id = node.publish(HOURLY).await;
    for (verb, status, paused, workflow_status) in [
        ("resume", 400, false, "published"),
        ("pause", 200, true, "published"),
        ("pause", 400, true, "published"),
        ("resume", 200, false, "published"),
        ("archive", 200, false, "archived"),
        ("archive", 400, false, "archived"),
        ("publish", 200, false, "published"),
    ] {
        let reply = node.post(&format!("/api/v1/workflows/{id}/{verb}"), Value::Null).await;
        assert_eq!(reply.status, status, "{verb}: {}", reply.text);
        let shown = node.get(&format!("/api/v1/workflows/{id}")).await.expect(200);
        assert_eq!((&shown["paused"], &shown["status"]), (&json!(paused), &json!(workflow_status)));
    }
    node.post(&format!("/api/v1/workflows/{id}/archive"), Value::Null).await.expect(200);
    let problem =
        node.post(&format!("/api/v1/workflows/{id}/runs"), Value::Null).await.whole_problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("no published version"));
    node.post(&format!("/api/v1/workflows/{id}/pause"), json!({"now": true}))
        .await
        .whole_problem(422);
}

#[tokio::test]
async fn commands_are_published_only_where_the_host_allows_them() {
    let node = Node::start_with(|options| options.runners.allow_exec = false).await;
    let text = "name: t
steps:
  - {id: last, type: exec, command: ['true'], depends_on: [first]}
  - {id: first, type: noop}
";
    let problem = node.yaml("/api/v1/workflows?publish=true", text).await.whole_problem(422);
    let error = &problem["errors"][0];
    assert_eq!((&error["path"], &error["line"]), (&json!("steps[0].type"), &json!(3)));
    assert_eq!(error["code"], "exec-not-allowed");
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 0);
    node.yaml("/api/v1/workflows", text).await.expect(201);
    node.post("/api/v1/workflows/t/publish", Value::Null).await.whole_problem(422);
    assert_eq!(node.get("/api/v1/workflows/t").await.expect(200)["status"], "draft");
}

#[tokio::test]
async fn calendars_of_a_definition_are_known_when_it_is_published() {
    let node = Node::start().await;
    let text = |hours: &str| {
        format!(
            "name: t
timezone: Europe/Berlin
calendars:
  - {{id: office, hours: {{mon-fri: ['{hours}']}}}}
triggers: [{{id: t, type: schedule, cron: '0 12 * * *', calendar: office}}]
steps: []
"
        )
    };
    node.yaml("/api/v1/workflows", text("09:00-17:00")).await.expect(201);
    node.get("/api/v1/calendars/office").await.whole_problem(404);
    node.publish(&text("09:00-17:00")).await;
    let calendar = node.get("/api/v1/calendars/office").await.expect(200);
    let shown = (&calendar["timezone"], &calendar["hours_per_day"]);
    assert_eq!(shown, (&json!("Europe/Berlin"), &json!(8.0)));
    node.publish(&text("10:00-12:00")).await;
    assert_eq!(node.get("/api/v1/calendars/office").await.expect(200)["hours_per_day"], 2.0);
    node.send_as(Method::DELETE, "/api/v1/calendars/office", "application/json", "")
        .await
        .whole_problem(409);
}

#[tokio::test]
async fn a_start_by_hand_gives_a_run_waits_its_turn_or_names_the_one_in_its_way() {
    let node = Node::start().await;
    let mut lifeline = crate::lifeline::Lifeline::new();
    let script = lifeline.endless_script();
    let steps = format!("steps: [{{id: a, type: exec, command: [sh, -c, '{script}']}}]\n");
    node.publish(&format!("name: t\nconcurrency: 1\n{steps}")).await;
    let payload = r#"{"payload": {"big": 9007199254740993, "exact": 1.10}}"#;
    let reply =
        node.send_as(Method::POST, "/api/v1/workflows/t/runs", "application/json", payload).await;
    let run = reply.expect(201);
    let id = run["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), Some(&*format!("/api/v1/runs/{id}")));
    assert!(reply.text.contains(r#"{"big": 9007199254740993, "exact": 1.10}"#), "{}", reply.text);
    lifeline.held().await;
    let refuse = json!({"if_busy": "refuse"});
    let busy = node.post("/api/v1/workflows/t/runs", refuse).await.whole_problem(409);
    assert_eq!(busy["run_id"], id);
    assert!(busy["detail"].as_str().unwrap().contains(id));
    let mut waiting = Vec::new();
    for position in 1..=2 {
        let waits = node.post("/api/v1/workflows/t/runs", json!({})).await.expect(202);
        assert_eq!((&waits["status"], &waits["position"]), (&json!("pending"), &json!(position)));
        let id = waits["id"].as_str().unwrap().to_owned();
        let told = node.get(&format!("/api/v1/runs/{id}/explain")).await.expect(200);
        let said =
            format!("It waits its turn, at position {position}: t runs at most 1 at a time.");
        assert_eq!(told["sentences"][1], said);
        waiting.push(id);
    }
    for id in waiting {
        node.post(&format!("/api/v1/runs/{id}/cancel"), Value::Null).await.expect(200);
    }
    for (body, status) in [
        (json!({"payloda": 1}), 422),
        (json!({"if_busy": "sometimes"}), 422),
        (json!([]), 422),
        (json!({"payload": "x".repeat(300_000)}), 422),
        (json!({"payload": "x".repeat(2_000_000)}), 413),
    ] {
        node.post("/api/v1/workflows/t/runs", body).await.whole_problem(status);
    }
    node.post(&format!("/api/v1/runs/{id}/cancel"), Value::Null).await.expect(200);
    lifeline.released().await;
    node.ended(id).await;
}

#[tokio::test]
async fn a_hundred_starts_without_a_limit_are_a_hundred_runs() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: noop}]\n").await;
    let mut runs = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let run = node.post("/api/v1/workflows/t/runs", json!({})).await.expect(201);
        runs.insert(run["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(runs.len(), 100);
    for id in runs {
        node.ended(&id).await;
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_become_of_triggers_and_versions_say_which_is_live() {
    let node = Node::start().await;
    let text = "name: t\nsteps: [{id: a, type: noop}]\ntriggers:\n- {id: stays, type: schedule, cron: daily}\n\
                - {id: moves, type: schedule, cron: '0 9 * * *'}\n- {id: goes, type: schedule, interval: 1h}\n";
    node.publish(text).await;
    let after = text.replace("0 9", "0 10").replace("id: goes", "id: comes");
    let path = "/api/v1/workflows?publish=true&dry_run=true";
    let planned = node.yaml(path, after.clone()).await.expect(200);
    let triggers = planned["triggers"].as_array().unwrap();
    let changes: Vec<_> = triggers
        .iter()
        .map(|told| (told["id"].as_str().unwrap(), told["change"].as_str().unwrap()))
        .collect();
    let expected =
        [("stays", "unchanged"), ("moves", "changed"), ("comes", "new"), ("goes", "removed")];
    assert_eq!(changes, expected, "{planned}");
    assert!(triggers.iter().all(|told| told["next_run_at"].is_string()), "{planned}");
    let counts = |at: usize| {
        let times = &triggers[at]["next_30_days"];
        ["added", "moved", "lost"].map(|kind| times[kind].as_u64().unwrap())
    };
    assert_eq!(counts(0), [0, 0, 0]);
    assert_eq!(counts(1), [30, 0, 30]);
    assert_eq!((counts(2), counts(3)), ([720, 0, 0], [0, 0, 720]));
    let first = triggers[1]["next_30_days"]["first"].as_array().unwrap();
    let hours: Vec<_> = first.iter().map(|one| &one["at"].as_str().unwrap()[11..16]).collect();
    assert_eq!(hours, [["09:00"; 5], ["10:00"; 5]].concat());
    let words = triggers[0]["words"].as_str().unwrap();
    assert!(words.contains("(0 0 * * *)"), "a preset is shown with its expansion: {words}");
    let versions = node.get("/api/v1/workflows/t/versions").await.expect(200);
    assert_eq!(versions["items"][0]["live"], true, "nothing was published: {versions}");
    node.yaml("/api/v1/workflows", after).await.expect(201);
    let versions = node.get("/api/v1/workflows/t/versions").await.expect(200);
    let live: Vec<_> = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (&version["revision"], &version["live"]))
        .collect();
    assert_eq!(live, [(&json!(2), &json!(false)), (&json!(1), &json!(true))]);
    // The plan for a draft that is to go live is the same.
    let path = "/api/v1/workflows/t/publish";
    let draft = node.post(&format!("{path}?dry_run=true"), json!({})).await.expect(200);
    assert_eq!((&draft["revision"], &draft["changed"]), (&json!(2), &json!(true)), "{draft}");
    let drafted = draft["triggers"].as_array().unwrap().iter();
    let drafted: Vec<_> = drafted
        .map(|told| (told["id"].as_str().unwrap(), told["change"].as_str().unwrap()))
        .collect();
    assert_eq!(drafted, expected, "{draft}");
    let versions = node.get("/api/v1/workflows/t/versions").await.expect(200);
    assert_eq!(versions["items"][1]["live"], true, "nothing went live: {versions}");
    node.post(path, json!({})).await.expect(200);
    let again = node.post(&format!("{path}?dry_run=true"), json!({})).await.expect(200);
    assert_eq!(again["changed"], false, "{again}");
}

/// The calendars of the definition apply in its plan, even where they replace a stored one.
#[tokio::test]
async fn a_dry_run_reads_triggers_with_the_calendars_of_the_definition() {
    let node = Node::start().await;
    let text = |day: &str| {
        format!(
            "name: t\nsteps: [{{id: a, type: noop}}]\n\
             calendars: [{{id: own, timezone: UTC, hours: {{{day}: ['09:00-17:00']}}}}]\n\
             triggers: [{{id: s, type: schedule, cron: '0 9 * * *', calendar: own, roll: next}}]\n"
        )
    };
    let path = "/api/v1/workflows?publish=true&dry_run=true";
    let planned = node.yaml(path, text("mon")).await.expect(200);
    assert_eq!(planned["triggers"][0]["change"], "new");
    assert!(planned["triggers"][0]["next_run_at"].is_string(), "{planned}");
    node.publish(&text("mon")).await;
    let planned = node.yaml(path, text("tue")).await.expect(200);
    let times = &planned["triggers"][0]["next_30_days"];
    assert!(times["moved"].as_u64().unwrap() + times["added"].as_u64().unwrap() > 0, "{planned}");
}

/// A calendar belongs to whoever declared it last. Dry run and publish warn if other workflows use
/// it.
#[tokio::test]
async fn a_calendar_that_others_use_is_warned_about() {
    let node = Node::start().await;
    let text = |name: &str, day: &str| {
        format!(
            "name: {name}\nsteps: [{{id: a, type: noop}}]\n\
             calendars: [{{id: office, timezone: UTC, hours: {{{day}: ['09:00-17:00']}}}}]\n\
             triggers: [{{id: s, type: schedule, cron: '0 9 * * *', calendar: office}}]\n"
        )
    };
    let warnings = |saved: &Value| -> Vec<String> {
        let problems = saved["problems"].as_array().unwrap().iter();
        let of_others = problems.filter(|problem| problem["code"] == "calendar-of-others");
        of_others.map(|problem| problem["message"].as_str().unwrap().to_owned()).collect()
    };
    node.publish(&text("first", "mon")).await;
    let publish = "/api/v1/workflows?publish=true";
    let same = node.yaml(publish, text("second", "mon")).await.expect(201);
    assert!(warnings(&same).is_empty(), "{same}");
    assert_eq!(same["triggers"][0]["change"], "new", "a publish says what becomes of triggers");
    for path in [format!("{publish}&dry_run=true"), publish.to_owned()] {
        let reply = node.yaml(&path, text("second", "tue")).await;
        let [warning] = &warnings(&reply.json())[..] else { panic!("{}", reply.text) };
        assert!(warning.contains("a schedule of another workflow uses it (first)"), "{warning}");
    }
    // A calendar that only its own workflow uses gives no warning.
    let own = text("third", "mon").replace("office", "own");
    node.publish(&own).await;
    let changed = node.yaml(publish, own.replace("mon:", "tue:")).await;
    assert!(warnings(&changed.json()).is_empty(), "{}", changed.text);
}

#[tokio::test]
async fn a_producer_shows_its_rule() {
    let node = Node::start().await;
    node.publish(
        "name: t\ntopics: [{name: o, external: true}]\nproducers: {p: {schedule: {interval: 1d}, handler: {type: worker, queue: q}}}\n",
    )
    .await;
    let shown = node.get("/api/v1/workflows/t").await.expect(200);
    let producer = &shown["producers"][0];
    assert_eq!(producer["schedule"], json!({"interval": "1d"}));
    assert!(producer["words"].as_str().unwrap().starts_with("every 1d"), "{producer}");
}
