//! The pages of schedules.

use reqwest::redirect::Policy;
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::harness::{NOOP, Node, Reply, SLOW, send};

const SCRIPT: &str = "<script>alert(1)</script>";

/// Requests a page as a browser does.
async fn page(node: &Node, path: &str) -> Reply {
    send(node.request(reqwest::Method::GET, path).header("accept", "text/html")).await
}

/// Insists that the page exists, and returns it.
#[track_caller]
fn shown(reply: Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(reply.header("content-type").unwrap().starts_with("text/html"));
    assert!(!reply.text.contains(SCRIPT), "not escaped: {}", reply.text);
    assert_eq!(reply.text.matches("<h1>").count(), 1);
    assert!(reply.text.len() < 150_000, "{} bytes", reply.text.len());
    reply.text
}

/// Sends a form as a browser does: with the cookie and the key from a page.
async fn submit(node: &Node, path: &str, fields: &[(&str, &str)]) -> Reply {
    let client = runners::http_client().redirect(Policy::none()).build().unwrap();
    let mut request = client.post(node.url(path)).header("accept", "text/html");
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    match &node.token {
        Some(token) => request = request.bearer_auth(token),
        None => {
            let form = page(node, "/schedules/new").await;
            let cookie = form.header("set-cookie").unwrap().split(';').next().unwrap();
            request = request.header("cookie", cookie);
            let (_, key) = form.text.split_once("name=\"_key\" value=\"").unwrap();
            body.append_pair("_key", key.split('"').next().unwrap());
        }
    }
    let body = body.extend_pairs(fields).finish();
    send(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
}

fn daily(name: &str) -> Value {
    json!({"name": name, "workflow_id": "nothing", "cron": "0 9 * * *", "timezone": "Europe/Berlin"})
}

#[tokio::test]
async fn the_list_is_searched_filtered_and_paged() {
    let node = Node::start().await;
    assert!(shown(page(&node, "/schedules").await).contains("There are no schedules yet"));
    node.workflow(NOOP).await;
    node.workflow(SLOW).await;
    node.schedule(daily("Morning report")).await;
    let paused = node.schedule(daily("Evening report")).await;
    node.post(&format!("{paused}/pause"), Value::Null).await.expect(200);
    let hostile = json!({"name": SCRIPT, "workflow_id": "slow", "interval": "1h"});
    node.schedule(hostile).await;
    let all = shown(page(&node, "/schedules").await);
    for words in ["Morning report", "at 09:00 every day, Berlin time", "Europe/Berlin", "every 1h"]
    {
        assert!(all.contains(words), "{words}");
    }
    for (query, there, gone) in [
        ("q=even", "Evening report", "Morning report"),
        ("status=paused", "Evening report", "Morning report"),
        ("status=active&workflow_id=nothing", "Morning report", "Evening report"),
        ("workflow_id=slow", "every 1h", "Morning report"),
        ("workflow_id=unknown", "No schedule is like that", "Morning report"),
        ("limit=1", "Next page", "Evening report"),
    ] {
        let listed = shown(page(&node, &format!("/schedules?{query}")).await);
        assert!(listed.contains(there), "{query}: {there}");
        assert!(!listed.contains(gone), "{query}: {gone}");
    }
    let first = shown(page(&node, "/schedules?limit=1&status=active").await);
    let (_, next) = first.split_once("rel=\"next\" href=\"").unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    assert!(next.contains("status=active") && next.contains("cursor="), "{next}");
    assert!(shown(page(&node, &next).await).contains("every 1h"));
    assert_eq!(page(&node, "/schedules?status=nonsense").await.status, 400);
}

#[tokio::test]
async fn buttons_do_what_they_say() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path = node.schedule(daily("a")).await;
    let next = ("_next", "/schedules/1");
    let status = async || node.get(&path).await.expect(200)["status"].clone();
    for (action, expected) in [("pause", "paused"), ("resume", "active")] {
        let reply = submit(&node, &format!("/forms/schedules/1/{action}"), &[next]).await;
        assert_eq!((reply.status, reply.header("location")), (303, Some("/schedules/1")));
        assert_eq!(status().await, expected);
    }
    let many = [("schedule_ids:list", "1"), ("schedule_ids:list", "9"), ("action", "pause"), next];
    assert_eq!(submit(&node, "/forms/schedules/batch-control", &many).await.status, 303);
    assert_eq!(status().await, "paused");
    let reply = submit(&node, "/forms/schedules/1/pause", &[next]).await;
    assert_eq!(reply.status, 400);
    assert!(reply.text.contains("Cannot pause schedule"), "{}", reply.text);
    let many = [("schedule_ids:list", "1"), next];
    assert_eq!(submit(&node, "/forms/schedules/batch-delete", &many).await.status, 303);
    assert_eq!(page(&node, "/schedules/1").await.status, 404);
}

#[tokio::test]
async fn a_rule_is_previewed_while_it_is_written() {
    let node = Node::start().await;
    for (query, expected) in [
        ("", "Say when it is due"),
        ("cron=0+9+*+*+MON-FRI&timezone:null=Europe/Berlin", "Berlin time"),
        (
            "cron=0+25+*+*+*",
            "hour 25 is out of range (character 3); allowed: 0-23; try: 0 23 * * *",
        ),
        ("cron=30+2+*+*+*&timezone:null=Europe/Berlin", "02:30 falls in a DST gap"),
        ("cron=0+0+30+2+*", "never fires"),
        ("interval=5m", "every 5m"),
        ("interval=5x", "<code>interval</code>"),
        ("daily.at:parts=09:00,+17:00&daily.days:parts=MON-FRI", "09:00"),
        ("monthly.working_day:number=-1&monthly.at:parts=17:00&calendar:null=DE-BY", "working day"),
        ("cron=0+9+*+*+*&calendar:null=DE-BY", "Saturday"),
        ("cron=0+9+*+*+*&roll:null=next", "roll needs a calendar"),
        ("cron=0+9+*+*+*&payload:json-or-null={", "is not JSON"),
        ("cron=0+9+*+*+*&timezone:null=Europe/Berln", "Europe/Berlin"),
        ("at=2999-01-01T09:00", "2999"),
        ("rrule=FREQ%3DDAILY&dtstart=2026-03-01T09:00", "every day"),
        ("rules:json=[{\"cron\":\"0 9 * * *\"},{\"interval\":\"5m\"}]", "every 5m"),
        ("cron=%3Cscript%3Ealert(1)%3C/script%3E", "cron"),
    ] {
        let reply = page(&node, &format!("/schedules/preview?{query}")).await;
        assert_eq!(reply.status, 200, "{query}");
        assert!(reply.text.contains("id=\"preview\""), "{query}");
        assert!(reply.text.contains(expected), "{query}: {expected}: {}", reply.text);
        assert!(!reply.text.contains(SCRIPT), "{query}");
    }
    let reply = page(&node, "/schedules/preview?cron=@daily").await;
    assert_eq!(reply.text.matches(">kept<").count(), 10);
    let linked = shown(page(&node, "/schedules/new?cron=0+9+*+*+*&workflow_id=nothing").await);
    assert!(linked.contains("value=\"0 9 * * *\"") && linked.contains("at 09:00 every day"));
}

#[tokio::test]
async fn a_form_creates_and_changes() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    assert!(shown(page(&node, "/schedules/new").await).contains("New schedule"));
    let fields = [
        ("_next", "/schedules/{id}"),
        ("name:text", "Nightly"),
        ("workflow_id", "nothing"),
        ("_rule", "cron"),
        ("cron", "30 2 * * *"),
        ("timezone:null", "Europe/Berlin"),
        ("calendar:null", ""),
        ("overlap", "queue"),
        ("retry:json", "{}"),
        ("retry.delay", "10s"),
        ("max_retries:number-or-null", "5"),
        ("pause_on_failure:flag", "false"),
        ("pause_on_failure:flag", "true"),
        ("payload:json-or-null", r#"{"a": [1]}"#),
    ];
    // A preview changes nothing, and keeps the typed values.
    let look: Vec<_> = fields.into_iter().chain([("_look", "true")]).collect();
    let reply = submit(&node, "/schedules/new", &look).await;
    assert!(shown(reply).contains("at 02:30 every day, Berlin time"));
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 0);
    let reply = submit(&node, "/schedules/new", &fields).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("/schedules/1")));
    let made = node.get("/api/v1/schedules/1").await.expect(200);
    for (key, expected) in [
        ("name", json!("Nightly")),
        ("overlap", json!("queue")),
        ("max_retries", json!(5)),
        ("retry", json!({"delay": "10s"})),
        ("pause_on_failure", json!(true)),
        ("payload", json!({"a": [1]})),
        ("calendar", Value::Null),
    ] {
        assert_eq!(made[key], expected, "{key}");
    }

    let form = shown(page(&node, "/schedules/1/edit").await);
    for value in ["value=\"30 2 * * *\"", "value=\"Europe/Berlin\"", "value=\"10s\"", "[1]"] {
        assert!(form.contains(value), "{value}");
    }
    let change = [
        ("_next", "/schedules/1"),
        ("name:text", "Nightly"),
        ("interval", "5m"),
        ("timezone:null", ""),
        ("retry:json", "{}"),
        ("retry.delay", ""),
        ("max_retries:number-or-null", ""),
        ("pause_on_failure:flag", "false"),
    ];
    let query = "name:text=Nightly&interval=5m&max_retries:number-or-null=";
    let told = page(&node, &format!("/schedules/1/edit/preview?{query}")).await;
    assert!(told.text.contains("What would change") && told.text.contains("every 5m"));
    assert_eq!(submit(&node, "/schedules/1/edit", &change).await.status, 303);
    let made = node.get("/api/v1/schedules/1").await.expect(200);
    for (key, expected) in [
        ("interval", json!("5m")),
        ("cron", Value::Null),
        ("timezone", Value::Null),
        ("max_retries", json!(3)),
        ("retry", json!({})),
        ("pause_on_failure", json!(false)),
        ("payload", json!({"a": [1]})),
    ] {
        assert_eq!(made[key], expected, "{key}");
    }
}

#[tokio::test]
async fn mistakes_stand_beside_their_fields_and_nothing_is_changed() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let fields = [("name:text", "a"), ("workflow_id", "nothing"), ("cron", "0 25 * * *")];
    let reply = submit(&node, "/schedules/new", &fields).await;
    assert_eq!(reply.status, 422);
    assert!(reply.text.contains("aria-invalid=\"true\""));
    assert!(reply.text.contains("value=\"0 25 * * *\"") && reply.text.contains("try: 0 23 * * *"));
    let fields = [("name:text", "a"), ("workflow_id", "unknown"), ("cron", "0 9 * * *")];
    let reply = submit(&node, "/schedules/new", &fields).await;
    assert!(reply.status == 422 && reply.text.contains("there is no such workflow"));
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 0);
    let shown = node.schedule(daily("a")).await;
    let edit = format!("{}/edit", shown.trim_start_matches("/api/v1"));
    let reply = submit(&node, &edit, &[("name:text", ""), ("cron", "@hourly")]).await;
    assert_eq!(reply.status, 422);
    assert!(reply.text.contains("not a name"), "{}", reply.text);
    assert_eq!(node.get(&shown).await.expect(200)["cron"], "0 9 * * *");
    // Another kind of rule is chosen without the script: its fields are shown, and nothing is
    // saved.
    let fields = [("name:text", "a"), ("_rule", "interval"), ("cron", "@hourly")];
    let reply = submit(&node, &edit, &fields).await;
    assert_eq!(reply.status, 200);
    assert_eq!(node.get(&shown).await.expect(200)["cron"], "0 9 * * *");
}

#[tokio::test]
async fn one_schedule_shows_what_came_and_why() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let mut body = daily(SCRIPT);
    body["payload"] = json!({"x": SCRIPT});
    body["description"] = json!(SCRIPT);
    let path = node.schedule(body).await;
    let range = json!({"from": "2026-01-01T00:00", "to": "2026-01-03T00:00"});
    node.post(&format!("{path}/backfill"), range).await.expect(200);
    node.until(&path, |object| object["run_count"] == 2).await;
    let text = shown(page(&node, "/schedules/1").await);
    for words in [
        "at 09:00 every day, Berlin time",
        "sched-1-n0-rc0",
        "of the last 2 runs succeeded",
        "How long runs took",
        "data-live=\"schedule:1\"",
        "schedules.ics?schedule_id=1",
        "Thu 1 Jan 09:00:00",
    ] {
        assert!(text.contains(words), "{words}");
    }
    let filtered = shown(page(&node, "/schedules/1?outcome=missed").await);
    assert!(filtered.contains("Nothing of the kind"));
    let why = shown(page(&node, "/schedules/1?at=2026-01-01T09:00:00").await);
    assert!(why.contains("started as run sched-1-n0-rc0"), "a wall time is its zone's");
    assert!(shown(page(&node, "/schedules/1?at=nonsense").await).contains("not a time"));
    let past = "past_from=2026-02-01T00:00&past_to=2026-02-03T00:00";
    let past = shown(page(&node, &format!("/schedules/1?{past}")).await);
    assert!(past.contains("2 occurrences") && past.contains("Run these 2"));
    for path in ["/schedules/99", "/schedules/x", "/schedules/99/edit", "/schedules/99/month"] {
        let reply = page(&node, path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text.contains("There is no schedule"), "{path}");
    }
    let feed = node.get("/api/v1/schedules.ics?schedule_id=1").await;
    assert_eq!(feed.text.matches("BEGIN:VEVENT").count(), 10);
}

#[tokio::test]
async fn one_time_to_come_is_skipped_moved_and_ordinary_again() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let mut body = daily("a");
    body["start"] = json!("2099-06-01T00:00");
    node.schedule(body).await;
    let occurrence = "/forms/schedules/1/occurrences/2099-06-02T07:00:00Z";
    let next = ("_next", "/schedules/1");
    for (fields, expected) in [
        (&[("_method", "PUT"), ("skip:flag", "true"), next][..], "skipped by"),
        (&[("_method", "PUT"), ("move_to", "2099-06-02T12:30:00"), next], "12:30:00"),
        (&[("_method", "PUT"), ("payload:json", r#"{"b": 2}"#), next], "with a payload given by"),
        (&[("_method", "DELETE"), next], "Tue 2 Jun 2099 09:00:00"),
    ] {
        assert_eq!(submit(&node, occurrence, fields).await.status, 303, "{expected}");
        let text = shown(page(&node, "/schedules/1").await);
        assert!(text.contains(expected), "{expected}");
    }
    let text = shown(page(&node, "/schedules/1").await);
    assert!(!text.contains(">Undo<") && text.contains("Move it"));
    let wrong = submit(&node, occurrence, &[("_method", "PUT"), ("move_to", "x"), next]).await;
    assert_eq!(wrong.status, 422);
}

#[tokio::test]
async fn months_and_years_have_their_days() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let mut body = daily("a");
    body["calendar"] = json!("DE-BY");
    let path = node.schedule(body).await;
    let range = json!({"from": "2026-01-02T00:00", "to": "2026-01-03T00:00"});
    node.post(&format!("{path}/backfill"), range).await.expect(200);
    node.until(&path, |object| object["run_count"] == 1).await;
    let january = shown(page(&node, "/schedules/1/month?month=2026-01").await);
    for words in ["January 2026", "started", "Epiphany", "?month=2025-12", "?month=2026-02"] {
        assert!(january.contains(words), "{words}: {january}");
    }
    let later = shown(page(&node, "/schedules/1/month?month=2099-12").await);
    assert!(later.contains("due 09:00") && later.contains("Christmas Day"), "{later}");
    let year = shown(page(&node, "/schedules/1/year?year=2099").await);
    assert!(year.contains("December 2099"));
    assert!(shown(page(&node, "/schedules/month").await).contains("What comes"));
    for path in ["month?month=2026-13", "month?month=x", "year?year=1"] {
        assert_eq!(page(&node, &format!("/schedules/1/{path}")).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn what_a_definition_declares_is_changed_there() {
    let node = Node::start().await;
    let text = "name: own\ntriggers: [{id: t, type: schedule, cron: '0 9 * * *'}]\n\
        steps: [{id: a, type: noop}]\n";
    node.workflow(text).await;
    let form = shown(page(&node, "/schedules/1/edit").await);
    assert!(form.contains("declared by trigger") && !form.contains("name=\"cron\""));
    let reply = submit(&node, "/schedules/1/edit", &[("cron", "@hourly")]).await;
    assert_eq!(reply.status, 409);
}

#[tokio::test]
async fn done_and_dead_ones_say_so() {
    let node = Node::start().await;
    node.workflow("name: bad\nsteps: [{id: a, type: exec, command: ['false']}]\n").await;
    node.workflow(NOOP).await;
    let once = json!({"name": "once", "workflow_id": "nothing", "at": "2026-01-01T00:00:00Z"});
    let done = node.schedule(once).await;
    node.until(&done, |object| object["status"] == "done").await;
    let text = shown(page(&node, "/schedules/1").await);
    assert!(text.contains("It is done: ") && text.contains(">Revive<"));
    let bad = json!({"name": "bad", "workflow_id": "bad", "interval": "100ms", "max_retries": 0});
    let dead = node.schedule(bad).await;
    node.until(&dead, |object| object["status"] == "dead").await;
    let text = shown(page(&node, "/schedules/2").await);
    assert!(text.contains("It is dead") && text.contains("Nothing comes"), "{text}");
}

#[tokio::test]
async fn who_may_only_look_has_no_buttons() {
    let mut node = Node::start_with(|options| options.token = Some("x".repeat(40))).await;
    node.workflow(NOOP).await;
    node.schedule(daily("a")).await;
    let made =
        node.post("/api/v1/tokens", json!({"name": "v", "roles": ["viewer"]})).await.expect(201);
    node.token = Some(made["secret"].as_str().unwrap().to_owned());
    for path in ["/schedules", "/schedules/1", "/schedules/1/month"] {
        let text = shown(page(&node, path).await);
        for gone in [">Pause<", ">Run now<", ">Delete<", ">Edit<", "New schedule", "/forms/"] {
            assert!(!text.contains(gone), "{path}: {gone}");
        }
    }
    for path in ["/schedules/new", "/schedules/1/edit"] {
        assert_eq!(page(&node, path).await.status, 403, "{path}");
    }
    assert_eq!(submit(&node, "/forms/schedules/1/pause", &[]).await.status, 403);
    assert_eq!(submit(&node, "/schedules/new", &[("cron", "@daily")]).await.status, 403);
}

/// The declaration of a schedule is damaged: the page of its old run shows the run all the same.
#[tokio::test]
async fn a_schedule_that_cannot_be_read_hides_no_run() {
    let ground = Ground::shared();
    let node = Node::start_on(ground.clone(), |_| {}).await;
    node.workflow(NOOP).await;
    let path = node.schedule(daily("x")).await;
    let range = json!({"from": "2026-01-01T00:00", "to": "2026-01-02T00:00"});
    node.post(&format!("{path}/backfill"), range).await.expect(200);
    node.until(&path, |object| object["run_count"] == 1).await;
    ground.execute("UPDATE schedules SET declared = '{\"name\":'").await;
    let node = node.restart().await;
    let text = shown(page(&node, "/runs/sched-1-n0-rc0").await);
    assert!(text.contains("Schedule 1 cannot be read"), "{text}");
    let told = node.get("/api/v1/runs/sched-1-n0-rc0/explain").await.expect(200);
    assert!(told["sentences"].to_string().contains("punctual doctor"), "{told}");
}
