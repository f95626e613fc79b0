//! The pages of runs.

use std::time::Duration;

use engine::run::RunStatus;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::browser::{Browser, HOSTILE, check};
use crate::harness::{NOOP, Node, PATIENCE, SLOW, send};

const FAILS: &str = "name: fails\nsteps:\n\
    - {id: first, type: noop}\n\
    - {id: breaks, name: 'Breaks <script>alert(1)</script>', type: exec, depends_on: [first], \
       command: [sh, -c, 'echo \"<script>alert(1)</script>\" >&2; exit 3'], retry: {max: 1}}\n\
    - {id: never, type: noop, depends_on: [breaks]}\n";

async fn start(node: &Node, workflow: &str, payload: Value) -> String {
    let path = format!("/api/v1/workflows/{workflow}/runs");
    let run = node.post(&path, json!({ "payload": payload })).await.expect(201);
    run["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_list_is_filtered_and_paged() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    assert!(browser.page("/runs").await.contains("Nothing has run yet."));
    node.publish(NOOP).await;
    node.publish(FAILS).await;
    let good = node.run("nothing").await;
    node.ended(&good).await;
    let bad = node.run("fails").await;
    node.ended(&bad).await;
    for (query, there, gone) in [
        ("", good.as_str(), "No run"),
        ("workflow=nothing", &good, bad.as_str()),
        ("status=failed,timed_out", &bad, &good),
        ("workflow=&status=failed&schedule_id=&triggered_by=manual&since=hour", &bad, &good),
        ("triggered_by=schedule", "No run is like that.", &good),
        ("overdue=true", "No run is like that.", &good),
        ("limit=1", "Next page", &good),
    ] {
        let listed = browser.page(&format!("/runs?{query}")).await;
        assert!(listed.contains(there), "{query}: {there}");
        assert!(!listed.contains(gone), "{query}: {gone}");
    }
    for (query, status) in [("workflow=unknown", 404), ("since=yesterday", 400), ("x=1", 400)] {
        let reply = browser.get(&format!("/runs?{query}")).await;
        assert_eq!(reply.status, status, "{query}");
        check(query, &reply);
    }
}

#[tokio::test]
async fn a_run_that_failed_says_where_and_is_tried_again() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    node.publish(FAILS).await;
    let run = start(&node, "fails", json!({"note": HOSTILE})).await;
    node.ended(&run).await;
    let page = browser.page(&format!("/runs/{run}")).await;
    for words in [
        "exit code",
        "in step breaks",
        "by hand",
        "Retry from the start",
        "What follows what",
        "fails",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("Cancel the run"));
    assert!(page.contains(&format!("data-live=\"run:{run}\"")));
    let step = browser.page(&format!("/runs/{run}/steps/breaks")).await;
    assert!(step.contains("&lt;script&gt;"), "{step}");
    let again = format!("/forms/runs/{run}/retry");
    let next = ("_next", "/runs/{id}");
    let there = browser.done(&again, &[("from", "failed"), next]).await;
    assert!(there.starts_with("/runs/") && !there.contains(&run), "{there}");
    let page = browser.page(&there).await;
    assert!(page.contains(&format!("href=\"/runs/{run}\"")), "it says what it tries again");
    let wrong = browser.submit(&again, &[("from", "nowhere"), next]).await;
    assert_eq!(wrong.status, 422);
    check(&again, &wrong);
}

#[tokio::test]
async fn every_attempt_is_told() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let definition = "name: flaky\nsteps:\n\
        - {id: tries, type: exec, command: [sh, -c, 'echo \"<b>no</b>\" >&2; exit 3'], \
           retry: {max: 3, delay: 10ms}}\n";
    node.publish(definition).await;
    let run = node.run("flaky").await;
    node.ended(&run).await;
    let told = node.get(&format!("/api/v1/runs/{run}")).await.expect(200);
    let step = &told["steps"][0];
    assert_eq!((&step["attempts"], &step["status"]), (&json!(3), &json!("failed")));
    let at = |time: &Value| time.as_str().unwrap().parse::<Timestamp>().unwrap();
    let earlier = step["earlier"].as_array().unwrap();
    let numbers: Vec<&Value> = earlier.iter().map(|attempt| &attempt["attempt"]).collect();
    assert_eq!(numbers, [&json!(1), &json!(2)]);
    for (attempt, next) in earlier.iter().zip(earlier.iter().skip(1).chain([step])) {
        assert_eq!((&attempt["status"], &attempt["error"]), (&json!("failed"), &step["error"]));
        assert!(at(&attempt["started_at"]) <= at(&attempt["ended_at"]), "{attempt}");
        assert!(at(&attempt["ended_at"]) < at(&next["started_at"]), "{attempt} {next}");
    }
    let page = browser.page(&format!("/runs/{run}")).await;
    for number in 1..=3 {
        assert!(page.contains(&format!("tries: attempt {number}, failed")), "{number}");
    }
    let page = browser.page(&format!("/runs/{run}/steps/tries")).await;
    let (_, earlier) = page.split_once("Earlier attempts").unwrap();
    assert_eq!(earlier.matches("code 3: &lt;b&gt;no").count(), 2, "{earlier}");
}

#[tokio::test]
async fn a_run_that_goes_on_is_cancelled() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    node.publish(SLOW).await;
    let run = node.run("slow").await;
    node.run_until(&run, |status| status == RunStatus::Running).await;
    let here = format!("/runs/{run}");
    let page = browser.page(&here).await;
    assert!(page.contains("Cancel the run") && page.contains("so far"));
    let fields = [("reason", "not <b>today</b>"), ("_next", here.as_str())];
    assert_eq!(browser.done(&format!("/forms/runs/{run}/cancel"), &fields).await, here);
    node.ended(&run).await;
    let page = browser.page(&here).await;
    assert!(page.contains("cancelled") && page.contains("not &lt;b&gt;today&lt;/b&gt;"), "{page}");
    assert_eq!(browser.submit(&format!("/forms/runs/{run}/cancel"), &fields).await.status, 400);
}

#[tokio::test]
async fn what_a_command_says_is_shown_while_it_runs() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let command = format!("[sh, -c, 'echo \"on {HOSTILE}\"; sleep 600']");
    node.publish(&format!("name: talks\nsteps: [{{id: a, type: exec, command: {command}}}]\n"))
        .await;
    let run = node.run("talks").await;
    node.run_until(&run, |status| status == RunStatus::Running).await;
    for path in [format!("/runs/{run}"), format!("/runs/{run}/steps/a")] {
        let said = async {
            while !browser.page(&path).await.contains("on &lt;script&gt;") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, said).await.is_ok(), "{path} says nothing");
    }
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    node.ended(&run).await;
    assert!(!browser.page(&format!("/runs/{run}")).await.contains("data-again"));
}

#[tokio::test]
async fn what_is_not_there_is_a_page() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    node.publish(NOOP).await;
    let run = node.run("nothing").await;
    let gone = "00000000-0000-4000-8000-000000000000";
    for path in ["/runs/nonsense", &format!("/runs/{gone}"), &format!("/runs/{run}/steps/x")] {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        check(path, &reply);
    }
}

#[tokio::test]
async fn long_runs_are_shown_in_parts() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let mut text = "name: long\nsteps:\n".to_owned();
    for n in 0..200 {
        let name = "w".repeat(190);
        let after = if n == 0 { String::new() } else { format!(", depends_on: [s{}]", n / 2) };
        text += &format!("- {{id: s{}, name: '{name}', type: noop{after}}}\n", n + 1);
    }
    let text = text.replace("depends_on: [s0]", "depends_on: [s1]");
    node.publish(&text).await;
    let run = node.run("long").await;
    node.ended(&run).await;
    let first = browser.page(&format!("/runs/{run}")).await;
    assert!(first.contains("1 to 60 of 200") && first.contains("The graph of its 200 steps"));
    let second = browser.page(&format!("/runs/{run}?from=180")).await;
    assert!(second.contains("181 to 200 of 200"));
    let reply = browser.get(&format!("/runs/{run}?view=graph")).await;
    assert_eq!(reply.text.matches("class=\"node ").count(), 200);
}

#[tokio::test]
async fn many_items_and_large_values_are_cut() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let items: Vec<usize> = (0..1_000).collect();
    node.publish(&format!(
        "name: items\nsteps: [{{id: each, type: for_each, items: {items:?}, step: {{type: noop}}}}]\n"
    ))
    .await;
    let payload = json!({"text": "é".repeat(100_000), "lines": "a\nb\u{0}\u{7}c"});
    let run = start(&node, "items", payload).await;
    node.ended(&run).await;
    let page = browser.page(&format!("/runs/{run}")).await;
    assert!(
        page.contains("1\u{202f}000 items") && page.contains("1\u{202f}000 completed"),
        "{page}"
    );
    assert!(page.contains("All of it") && !page.contains('\u{7}'));
    let items = browser.page(&format!("/runs/{run}/steps/each?from=960")).await;
    assert!(items.contains("961 to 1\u{202f}000 of 1\u{202f}000") && items.contains("item-999"));
}

#[tokio::test]
async fn a_suspended_run_asks_what_became_of_it() {
    let node = Node::start().await;
    node.publish(
        "name: once\nsteps: [{id: pay, type: exec, command: [sleep, '600'], idempotent: false}]\n",
    )
    .await;
    let run = node.run("once").await;
    node.run_until(&run, |status| status == RunStatus::Running).await;
    let node = node.restart().await;
    node.run_until(&run, |status| status == RunStatus::Suspended).await;
    let browser = Browser::open(&node).await;
    let here = format!("/runs/{run}");
    let page = browser.page(&here).await;
    for words in ["What became of pay?", "It was done", "It did not happen", "Your name"] {
        assert!(page.contains(words), "{words}");
    }
    let path = format!("/forms/runs/{run}/resolve");
    let wrong = [("resolution", "perhaps"), ("step", "pay"), ("by", "ada")];
    assert_eq!(browser.submit(&path, &wrong).await.status, 422);
    let fields = [
        ("resolution", "applied"),
        ("step", "pay"),
        ("by", "ada"),
        ("note", "the bank has it"),
        ("_next", here.as_str()),
    ];
    assert_eq!(browser.done(&path, &fields).await, here);
    assert_eq!(node.ended(&run).await["status"], "succeeded");
}

#[tokio::test]
async fn who_may_only_look_is_offered_nothing() {
    let node = Node::start().await;
    node.publish(SLOW).await;
    let run = node.run("slow").await;
    let admin = node.token("root", &["admin"]).await;
    let node = Node { token: Some(admin), ..node };
    let viewer = node.token("eve", &["viewer"]).await;
    let node = Node { token: Some(viewer), ..node };
    for (path, gone) in [
        (format!("/runs/{run}"), "Cancel"),
        ("/workflows".to_owned(), "New workflow"),
        ("/workflows/slow".to_owned(), "Archive"),
    ] {
        let request = node.request(reqwest::Method::GET, &path).header("accept", "text/html");
        let reply = send(request).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert!(!reply.text.contains(gone), "{path}: {gone}");
    }
    let request =
        node.request(reqwest::Method::GET, "/workflows/new").header("accept", "text/html");
    assert_eq!(send(request).await.status, 403);
}
