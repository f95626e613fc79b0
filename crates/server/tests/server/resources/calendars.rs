//! Calendars: declarations and queries.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Node, Reply, send};

async fn put(node: &Node, id: &str, spec: Value) -> Reply {
    send(node.request(Method::PUT, &format!("/api/v1/calendars/{id}")).json(&spec)).await
}

async fn delete(node: &Node, id: &str) -> Reply {
    send(node.request(Method::DELETE, &format!("/api/v1/calendars/{id}"))).await
}

fn office() -> Value {
    json!({
        "timezone": "America/New_York",
        "hours": {"mon-fri": ["09:00-17:00"]},
        "holidays": [{"country": "US"}, {"date": "2026-12-24", "name": "Company day"}],
    })
}

#[tokio::test]
async fn calendars_come_and_go() {
    let node = Node::start().await;
    let reply = put(&node, "office", office()).await;
    let calendar = reply.expect(201);
    assert_eq!(reply.header("location"), Some("/api/v1/calendars/office"));
    let shown = (&calendar["id"], &calendar["timezone"], &calendar["recomputed"]);
    assert_eq!(shown, (&json!("office"), &json!("America/New_York"), &json!(0)));
    assert_eq!(put(&node, "office", office()).await.expect(200)["hours_per_day"], 8.0);
    let yaml = "timezone: UTC\nhours: {mon-fri: ['09:00-12:00', '13:00-17:00']}\n";
    let reply =
        node.send_as(Method::PUT, "/api/v1/calendars/other", "application/yaml", yaml).await;
    assert_eq!(reply.expect(201)["hours_per_day"], 7.0);

    let list = node.get("/api/v1/calendars").await.expect(200);
    let ids: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &list["total"]), (vec!["office", "other"], &json!(2)));
    let got = node.get("/api/v1/calendars/office").await.expect(200);
    assert_eq!(got["spec"]["holidays"][1]["name"], "Company day");
    assert_eq!(node.get("/api/v1/calendars/DE-BY").await.expect(200)["spec"], Value::Null);

    assert_eq!(delete(&node, "other").await.status, 204);
    delete(&node, "other").await.whole_problem(404);
    node.get("/api/v1/calendars/other").await.whole_problem(404);
}

#[tokio::test]
async fn a_change_moves_what_uses_it_and_what_is_used_stays() {
    let node = Node::start().await;
    put(&node, "office", office()).await.expect(201);
    let text = "name: t
triggers: [{id: t, type: schedule, cron: '0 12 * * *', timezone: UTC, calendar: office}]
steps: []
";
    node.publish(text).await;
    let closed = json!({"timezone": "UTC", "hours": {"sun": ["09:00-17:00"]}});
    assert_eq!(put(&node, "office", closed).await.expect(200)["recomputed"], 1);
    let shown = node.get("/api/v1/workflows/t").await.expect(200);
    let next: jiff::Timestamp =
        shown["triggers"][0]["next_run_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(next.strftime("%A %H:%M").to_string(), "Sunday 12:00");
    let problem = delete(&node, "office").await.whole_problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("is used by schedule"), "{problem}");
}

#[tokio::test]
async fn mistakes_are_told_with_their_places() {
    let node = Node::start().await;
    for (spec, path) in [
        (json!({"timezone": "Mars/Base"}), "timezone"),
        (json!({"hours": {"mon": ["25:00-26:00"]}}), "hours"),
        (json!({"holidays": [{"country": "XX"}]}), "holidays[0]"),
        (json!({"holidays": ["2026-02-30"]}), "holidays[0]"),
        (json!({"union": ["nobody"]}), "union"),
        (json!({"holidays": [{"ics": "/etc/passwd"}]}), "holidays[0]"),
        (json!({"id": "another"}), "id"),
        (json!({"holiday": []}), ""),
        (json!({"holidays": vec!["01-01"; 20_000]}), "holidays"),
        (json!([]), ""),
    ] {
        let problem = put(&node, "mine", spec.clone()).await.whole_problem(422);
        let at = problem["errors"][0]["path"].as_str().unwrap();
        assert!(at.starts_with(path), "{spec:.60}: {problem}");
    }
    for id in ["a%20b", "..%2Fetc", "-x", &"x".repeat(65)] {
        put(&node, id, office()).await.whole_problem(422);
    }
    for (content_type, body, status) in [
        ("text/plain", "hours: {}", 415),
        ("application/yaml", "hours: [", 422),
        ("application/yaml", "a: &a [*a]", 422),
        ("application/json", "{", 400),
    ] {
        let reply = node.send_as(Method::PUT, "/api/v1/calendars/mine", content_type, body).await;
        reply.whole_problem(status);
    }
    assert_eq!(node.get("/api/v1/calendars").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn days_have_reasons() {
    let node = Node::start().await;
    put(&node, "office", office()).await.expect(201);
    for (calendar, date, working, reason) in [
        ("office", "2026-07-03", false, "holiday: Independence Day"),
        ("office", "2026-12-24", false, "holiday: Company day"),
        ("office", "2026-07-06", true, "working"),
        ("office", "2026-07-05", false, "Sunday"),
        ("DE-BY", "2026-01-06", false, "holiday: Epiphany"),
        ("DE-BE", "2026-01-06", true, "working"),
    ] {
        let path = format!("/api/v1/calendars/{calendar}/is-working-day?date={date}");
        let day = node.get(&path).await.expect(200);
        assert_eq!(day["working"], working, "{path}");
        assert!(day["reason"].as_str().unwrap().contains(reason), "{path}: {day}");
    }
    for (date, next) in
        [("2026-07-02", "2026-07-06"), ("2026-07-06", "2026-07-07"), ("2026-12-31", "2027-01-04")]
    {
        let path = format!("/api/v1/calendars/office/next-working-day?date={date}");
        assert_eq!(node.get(&path).await.expect(200)["next_working_day"], next, "{date}");
    }
    let counted = node
        .get("/api/v1/calendars/office/working-days?from=2026-07-01&to=2026-07-07")
        .await
        .expect(200);
    let figures = (&counted["working_days"], &counted["weekend_days"], &counted["holidays"]);
    // A holiday on a Saturday counts, and so does the Friday on which it is observed.
    assert_eq!(figures, (&json!(4), &json!(1), &json!(2)));
    for path in [
        "is-working-day",
        "is-working-day?date=2026-02-30",
        "is-working-day?date=1026-02-03",
        "next-working-day?date=tomorrow",
        "working-days?from=2026-07-07&to=2026-07-01",
        "working-days?from=1900-01-01&to=2299-01-01",
        "working-days?from=2026-07-07",
        "holidays?year=12",
        "ics?year=99999",
        "holidays?yaer=2026",
    ] {
        node.get(&format!("/api/v1/calendars/office/{path}")).await.whole_problem(400);
        let elsewhere = node.get(&format!("/api/v1/calendars/nobody/{path}")).await;
        assert!([400, 404].contains(&elsewhere.status), "{path}");
    }
}

#[tokio::test]
async fn holidays_are_listed_and_exported() {
    let node = Node::start().await;
    let year = node.get("/api/v1/calendars/DE-BY/holidays?year=2026").await.expect(200);
    let days = year["holidays"].as_array().unwrap();
    let dates: Vec<&str> = days.iter().map(|day| day["date"].as_str().unwrap()).collect();
    assert!(dates.contains(&"2026-01-06") && dates.is_sorted(), "{dates:?}");
    assert_eq!(days[0]["name"], "New Year's Day");
    let ics = node.get("/api/v1/calendars/DE-BY/ics?year=2026").await;
    assert_eq!(
        (ics.status, ics.header("content-type")),
        (200, Some("text/calendar; charset=utf-8"))
    );
    let read = calendar::read_ics(&ics.text).unwrap();
    assert_eq!(read.len(), dates.len());
    node.get("/api/v1/calendars/DE-BY/holidays").await.expect(200);
    node.get("/api/v1/calendars/XX/holidays?year=2026").await.whole_problem(404);
}

#[tokio::test]
async fn working_time_is_added() {
    let node = Node::start().await;
    put(&node, "office", office()).await.expect(201);
    for (start, amount, result) in [
        ("2026-02-28T14:00", "2d", "2026-03-03T17:00:00-05:00"),
        ("2026-02-27T14:00", "2 working days", "2026-03-03T14:00:00-05:00"),
        ("2026-02-27T17:00:00-05:00", "2d", "2026-03-03T17:00:00-05:00"),
        ("2026-03-03T10:00", "-1h", "2026-03-03T09:00:00-05:00"),
    ] {
        let body = json!({"start": start, "amount": amount});
        let added = node.post("/api/v1/calendars/office/add", body).await.expect(200);
        assert_eq!(added["result"], result, "{start} + {amount}");
    }
    for (body, path) in [
        (json!({"start": "soon", "amount": "2d"}), "start"),
        (json!({"start": "2026-02-28T14:00", "amount": "2 sundays"}), "amount"),
        (json!({"start": "2026-02-28T14:00", "amount": "99999d"}), "amount"),
        (json!({"start": "2026-02-28T14:00"}), ""),
    ] {
        let problem = node.post("/api/v1/calendars/office/add", body).await.whole_problem(422);
        assert!(problem["errors"][0]["path"].as_str().unwrap().starts_with(path), "{problem}");
    }
}

#[tokio::test]
async fn figures_and_documentation() {
    let node = Node::start().await;
    node.publish("name: t\ntriggers: [{id: t, type: schedule, interval: 1h}]\nsteps: []\n").await;
    let stats = node.get("/api/v1/stats").await.expect(200);
    assert_eq!((&stats["workflows"], &stats["schedules"]["active"]), (&json!(1), &json!(1)));
    assert!(stats["next_wakeup_at"].as_str().is_some() && stats["runs"]["running"] == 0);

    let url = format!("http://{}/openapi.json", node.server.address());
    let document: Value =
        serde_json::from_str(&reqwest::get(url).await.unwrap().text().await.unwrap()).unwrap();
    for (path, methods) in [
        ("/api/v1/workflows", vec!["get", "post"]),
        ("/api/v1/workflows/validate", vec!["post"]),
        ("/api/v1/workflows/{id}", vec!["get"]),
        ("/api/v1/workflows/{id}/versions", vec!["get"]),
        ("/api/v1/workflows/{id}/publish", vec!["post"]),
        ("/api/v1/workflows/{id}/archive", vec!["post"]),
        ("/api/v1/workflows/{id}/pause", vec!["post"]),
        ("/api/v1/workflows/{id}/resume", vec!["post"]),
        ("/api/v1/workflows/{id}/runs", vec!["post"]),
        ("/api/v1/runs", vec!["get"]),
        ("/api/v1/runs/{id}", vec!["get"]),
        ("/api/v1/runs/{id}/steps/{step}/output", vec!["get"]),
        ("/api/v1/runs/{id}/cancel", vec!["post"]),
        ("/api/v1/runs/{id}/retry", vec!["post"]),
        ("/api/v1/runs/{id}/resolve", vec!["post"]),
        ("/api/v1/calendars", vec!["get"]),
        ("/api/v1/calendars/{id}", vec!["get", "put", "delete"]),
        ("/api/v1/calendars/{id}/holidays", vec!["get"]),
        ("/api/v1/calendars/{id}/is-working-day", vec!["get"]),
        ("/api/v1/calendars/{id}/next-working-day", vec!["get"]),
        ("/api/v1/calendars/{id}/working-days", vec!["get"]),
        ("/api/v1/calendars/{id}/add", vec!["post"]),
        ("/api/v1/calendars/{id}/ics", vec!["get"]),
        ("/api/v1/stats", vec!["get"]),
        ("/api/v1/nodes", vec!["get"]),
    ] {
        let known = &document["paths"][path];
        for method in methods {
            assert!(known[method].is_object(), "{method} {path} is not documented");
        }
    }
}

#[tokio::test]
async fn a_schedule_without_a_zone_has_that_of_its_calendar() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: noop}]\n").await;
    put(&node, "office", office()).await.expect(201);
    let body = |more: Value| {
        let mut body =
            json!({"name": "s", "workflow_id": "t", "cron": "0 9 * * *", "calendar": "office"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let own = node.post("/api/v1/schedules", body(json!({}))).await.expect(201);
    assert_eq!((&own["zone"], &own["warnings"]), (&json!("America/New_York"), &json!([])));
    let next = own["next_run_at"].as_str().unwrap();
    assert!(next.contains("T09:00:00-0"), "{next}");
    let other = node.post("/api/v1/schedules", body(json!({"timezone": "UTC"}))).await.expect(201);
    assert_eq!(other["zone"], "UTC");
    assert_eq!(other["warnings"][0]["code"], "calendar-zone", "{other}");
}

#[tokio::test]
async fn a_calendar_without_hours_never_works_and_says_so() {
    let node = Node::start().await;
    let never = json!({"timezone": "UTC", "hours": {}});
    let never = put(&node, "never", never).await.expect(201);
    assert_eq!(never["warnings"][0]["code"], "no-working-time", "{never}");
    assert_eq!(never["spec"]["hours"], json!({}));
    let path = "/api/v1/calendars/never/is-working-day?date=2026-03-02";
    assert_eq!(node.get(path).await.expect(200)["working"], false);
    let usual = put(&node, "usual", json!({"timezone": "UTC"})).await.expect(201);
    assert_eq!(usual["warnings"], json!([]));
}
