//! The ledger, upcoming occurrences, overrides, backfill, the calendar feed.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

async fn berlin(node: &Node) -> String {
    node.workflow(NOOP).await;
    node.schedule(json!({"name": "daily; at nine", "workflow_id": "nothing", "cron": "0 9 * * *",
        "timezone": "Europe/Berlin", "overlap": "queue"}))
        .await
}

#[tokio::test]
async fn occurrences_can_be_overridden() {
    let node = Node::start().await;
    let path = berlin(&node).await;
    let next = format!("{path}/next?count=3");
    let nominal = |items: &Value, i: usize| items[i]["nominal_at"].as_str().unwrap().to_owned();
    let items = node.get(&next).await.expect(200)["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 3);
    assert_eq!(node.get(&path).await.expect(200)["next_run_at"], items[0]["effective_at"]);
    let of = |time: &str| format!("{path}/occurrences/{time}");
    let put = async |time: String, body: Value| node.send(Method::PUT, &of(&time), body).await;

    let shown = put(nominal(&items, 0), json!({"skip": true})).await.expect(200);
    assert_eq!(shown["nominal_at"], items[0]["nominal_at"]);
    assert_eq!(shown["skip"], true);
    let moved_to = nominal(&items, 1).replace("T09:00:00", "T12:30:00");
    put(nominal(&items, 1), json!({"move_to": moved_to})).await.expect(200);
    put(nominal(&items, 2), json!({"payload": {"x": 1}})).await.expect(200);
    let rows = node.get(&next).await.expect(200)["items"].clone();
    let row = |i: usize| (rows[i]["fate"].clone(), rows[i]["effective_at"].clone());
    assert_eq!(row(0), (json!("skipped"), json!(null)));
    assert_eq!(row(1), (json!("moved"), json!(moved_to)));
    assert_eq!(row(2), (json!("kept"), items[2]["effective_at"].clone()));
    assert_eq!(rows[0]["reason"], "skipped by anyone");

    for (time, body, status) in [
        (nominal(&items, 0), json!({}), 422),
        (nominal(&items, 0), json!({"skip": false}), 422),
        (nominal(&items, 0), json!({"payload": "x".repeat(300_000)}), 422),
        (nominal(&items, 0), json!({"skip": true, "move_to": moved_to}), 422),
        (nominal(&items, 0), json!({"move_to": "tomorrow"}), 422),
        (nominal(&items, 0), json!({"move_to": "2020-01-01T00:00:00Z"}), 409),
        ("2099-01-01T00:00:00Z".to_owned(), json!({"skip": true}), 409),
        ("2020-01-01T08:00:00Z".to_owned(), json!({"skip": true}), 409),
        ("soon".to_owned(), json!({"skip": true}), 400),
    ] {
        let reply = put(time.clone(), body.clone()).await;
        assert_eq!(reply.status, status, "{time} {body}: {}", reply.text);
    }
    // Without an offset, it is in the schedule's zone.
    let wall = nominal(&items, 0)[..19].to_owned();
    put(wall.clone(), json!({"skip": true})).await.expect(200);
    put(wall.replace('T', "%20"), json!({"skip": true})).await.expect(200);
    put(nominal(&items, 0).replace('+', "%20"), json!({"skip": true})).await.expect(200);
    for i in 0..3 {
        node.delete(&of(&nominal(&items, i)[..19])).await.expect(204);
        node.delete(&of(&nominal(&items, i))).await.problem(404);
    }
    assert_eq!(node.get(&next).await.expect(200)["items"], items);
}

#[tokio::test]
async fn past_occurrences_are_made_up_for_and_recorded() {
    let node = Node::start().await;
    let path = berlin(&node).await;
    let backfill = format!("{path}/backfill");
    let mut range = json!({"from": "2026-03-28T00:00:00Z", "to": "2026-03-30T23:00:00Z",
        "dry_run": true});
    let shown = node.post(&backfill, range.clone()).await.expect(200);
    assert_eq!((&shown["count"], &shown["dry_run"]), (&json!(3), &json!(true)));
    assert_eq!(shown["items"][1]["nominal_at"], "2026-03-29T09:00:00+02:00");
    let ledger = format!("{path}/occurrences");
    assert_eq!(node.get(&ledger).await.expect(200)["items"], json!([]));
    range["dry_run"] = json!(false);
    let done = node.post(&backfill, range).await.expect(200);
    assert_eq!(done["count"], 3);
    node.until(&path, |object| object["run_count"] == 3).await;
    let rows = node.get(&ledger).await.expect(200);
    assert_eq!(rows["items"].as_array().unwrap().len(), 3);
    for row in rows["items"].as_array().unwrap() {
        let reason = row["reason"].as_str().unwrap();
        assert!(reason.starts_with("asked for by a backfill"), "{reason}");
    }
    let row = &rows["items"][0];
    assert_eq!(row["n"], 2);
    assert_eq!(row["nominal_at"], "2026-03-30T09:00:00+02:00");
    assert_eq!(row["count"], 1);
    assert_eq!(row["run_status"], "succeeded");
    assert!(row["run_id"].as_str().unwrap().ends_with("-n2-rc0"));
    let page = node.get(&format!("{ledger}?limit=2")).await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = node.get(&format!("{ledger}?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(rest["items"][0]["n"], 0);
    let day = format!("{ledger}?from=2026-03-29T00:00:00Z&to=2026-03-29T23:00:00Z");
    assert_eq!(node.get(&day).await.expect(200)["items"][0]["n"], 1);
    let none = node.get(&format!("{ledger}?outcome=missed")).await.expect(200);
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn what_several_backfills_of_one_range_say_adds_up() {
    let node = Node::start().await;
    let path = berlin(&node).await;
    let backfill = format!("{path}/backfill");
    for month in 1..=3 {
        let range = json!({"from": format!("2026-{month:02}-01T00:00:00Z"),
            "to": format!("2026-{month:02}-28T23:00:00Z")});
        let post = || node.post(&backfill, range.clone());
        let (one, two, three, four) = tokio::join!(post(), post(), post(), post());
        let replies = [one, two, three, four, post().await];
        let mut told = 0;
        for reply in replies {
            let said = reply.expect(200);
            let (count, passed_over) = (&said["count"], &said["passed_over"]);
            let (count, passed_over) = (count.as_u64().unwrap(), passed_over.as_u64().unwrap());
            assert_eq!(count + passed_over, 28, "{said}");
            assert_eq!(said["items"].as_array().unwrap().len() as u64, count, "{said}");
            told += count;
        }
        assert_eq!(told, 28, "each occurrence was accepted once");
        node.until(&path, |object| object["run_count"] == month * 28).await;
    }
}

#[tokio::test]
async fn a_backfill_is_checked() {
    let node = Node::start().await;
    let path = berlin(&node).await;
    let (from, to) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    for (body, status) in [
        (json!({}), 422),
        (json!({"from": from}), 422),
        (json!({"from": to, "to": from}), 422),
        (json!({"from": from, "to": "later"}), 422),
        (json!({"from": from, "to": to, "limit": 0}), 422),
        (json!({"from": from, "to": to, "limit": 1001}), 422),
        (json!({"from": from, "to": to, "limit": 5}), 422),
        (json!({"from": from, "to": to, "pace": "quick"}), 422),
        (json!({"from": from, "to": from}), 422),
        (json!({"from": from, "to": to, "pase": "1s"}), 422),
        (json!({"from": from, "to": to, "pace": "10s", "dry_run": true}), 200),
    ] {
        let reply = node.post(&format!("{path}/backfill"), body.clone()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
    }
    let body = json!({"from": from, "to": to});
    node.post("/api/v1/schedules/99/backfill", body).await.problem(404);
}

#[tokio::test]
async fn what_comes_is_a_calendar_file() {
    let node = Node::start().await;
    berlin(&node).await;
    for query in ["", "?workflow_id=nothing"] {
        let feed = node.get(&format!("/api/v1/schedules.ics{query}")).await;
        assert_eq!(feed.status, 200);
        assert_eq!(feed.header("content-type"), Some("text/calendar; charset=utf-8"));
        assert!(feed.text.starts_with("BEGIN:VCALENDAR\r\n"));
        assert_eq!(feed.text.matches("BEGIN:VEVENT").count(), 10, "{query}");
        assert!(feed.text.contains("SUMMARY:daily\\; at nine\r\n"));
    }
}
