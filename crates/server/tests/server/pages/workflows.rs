//! The pages of workflows.

use serde_json::Value;

use super::browser::{Browser, check};
use crate::harness::{NOOP, Node};

const HANDLERS: &str = r#"
export default workflow({
  name: "mail",
  description: "Reads <script>alert(1)</script>",
  topics: ["inbox"],
  producers: {
    poll: { schedule: { interval: "1h" }, publishes: ["inbox"], handler: async () => ({}) },
  },
  consumers: {
    sort: { subscribe: ["inbox"], prepare: async () => ({ reservations: [] }) },
  },
});
"#;

const TRIGGERED: &str = "name: nightly\ntriggers:\n\
    - {id: nights, type: schedule, cron: '0 3 * * *', timezone: Europe/Berlin, payload: {a: 7}}\n\
    - {id: calls, type: webhook}\n\
    steps:\n- {id: pick, type: gateway, routes: [{condition: 'input.payload.a > 1', target: big}], default_route: small}\n\
    - {id: big, type: noop}\n- {id: small, type: noop, on_error: {goto_step: big}}\n";

#[tokio::test]
async fn workflows_are_listed_and_searched() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    assert!(browser.page("/workflows").await.contains("There is no workflow yet."));
    node.publish(NOOP).await;
    node.publish(TRIGGERED).await;
    let run = node.run("nothing").await;
    node.ended(&run).await;
    let all = browser.page("/workflows").await;
    for words in ["nightly", "published", "succeeded", "never", "New workflow"] {
        assert!(all.contains(words), "{words}");
    }
    let found = browser.page("/workflows?search=NIGHT").await;
    assert!(found.contains("nightly") && !found.contains("/workflows/nothing"));
    assert!(
        browser.page("/workflows?search=x%3Cy").await.contains("No workflow is called like that")
    );
}

#[tokio::test]
async fn a_workflow_shows_what_starts_it_and_what_it_does() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let id = node.publish(TRIGGERED).await;
    let page = browser.page("/workflows/nightly").await;
    for words in [
        "03:00",
        "/hooks/nightly/calls",
        "otherwise",
        "if it fails",
        "It has not run yet",
        "Run now",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains(&format!("data-live=\"workflow:{id}\"")));
    let run = browser.page("/workflows/nightly/run").await;
    assert!(run.contains("&quot;a&quot;: 7"), "what the trigger gives");
    let path = format!("/forms/workflows/{id}/runs");
    let there =
        browser.done(&path, &[("payload:json", "{\"a\": 1}"), ("_next", "/runs/{id}")]).await;
    assert!(browser.page(&there).await.contains("&quot;a&quot;: 1"));
    let wrong = browser.submit(&path, &[("payload:json", "{"), ("_next", "/")]).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text.contains("payload") && wrong.text.contains("is not JSON"), "{}", wrong.text);
    for path in
        ["/workflows/unknown", "/workflows/unknown/source", "/workflows/nightly/source?revision=9"]
    {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        check(path, &reply);
    }
}

#[tokio::test]
async fn a_workflow_is_paused_with_a_reason_and_says_what_resuming_does() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let script = ("_type", "application/javascript");
    let fields = [("_body", HANDLERS), script, ("_next", "/workflows/{id}")];
    let there = browser.done("/forms/workflows?publish=true", &fields).await;
    let id = there.strip_prefix("/workflows/").unwrap();
    let page = browser.page("/workflows/mail").await;
    for words in ["Producers", "poll", "Consumers", "sort", "inbox", "Reads &lt;script&gt;"] {
        assert!(page.contains(words), "{words}");
    }
    let path = |verb: &str| format!("/forms/workflows/{id}/{verb}");
    let next = ("_next", "/workflows/mail");
    browser.done(&path("pause"), &[("reason", "moving <i>house</i>"), next]).await;
    let page = browser.page("/workflows/mail").await;
    assert!(page.contains("moving &lt;i&gt;house") && page.contains("Everything starts again."));
    assert!(browser.page("/workflows").await.contains("moving &lt;i&gt;house"));
    let long = "x".repeat(1_001);
    assert_eq!(browser.submit(&path("pause"), &[("reason", &long), next]).await.status, 422);
    browser.done(&path("resume"), &[next]).await;
    assert!(!browser.page("/workflows/mail").await.contains("moving"));
    // Publishing started the producer.
    let has_ended = |runs: &Value| runs["items"][0]["ended_at"].is_string();
    node.until("/api/v1/runs?workflow=mail", has_ended).await;
    browser.done(&path("runs"), &[("handler", "poll"), next]).await;
    browser.done(&path("archive"), &[next]).await;
    assert!(browser.page("/workflows/mail").await.contains("archived"));
}

#[tokio::test]
async fn a_text_is_checked_saved_compared_and_published() {
    let node = Node::start().await;
    let browser = Browser::open(&node).await;
    let example = browser.page("/workflows/new").await;
    let (_, text) = example.split_once("name=\"_body\"").unwrap();
    let (_, text) = text.split_once('>').unwrap();
    let text = text.split("</textarea>").next().unwrap().trim_start();
    let text = text.replace("&quot;", "\"").replace("&gt;", ">").replace("&amp;", "&");
    let yaml = ("_type", "application/yaml");
    let good = browser.submit("/workflows/check", &[("_body", &text), yaml]).await;
    assert_eq!(good.status, 200, "{}", good.text);
    assert!(good.text.contains("It can be saved") && good.text.contains("class=\"node "));
    let broken = text.replace("type: timer", "type: timr");
    let wrong = browser.submit("/workflows/check", &[("_body", &broken), yaml]).await;
    assert_eq!(wrong.status, 422);
    check("/workflows/check", &wrong);
    for words in ["1 problem", "Line ", "^", "timr", "try"] {
        assert!(wrong.text.contains(words), "{words}: {}", wrong.text);
    }
    let next = ("_next", "/workflows/{name}");
    let refused = browser.submit("/forms/workflows", &[("_body", &broken), yaml, next]).await;
    assert_eq!(refused.status, 422);
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["items"], Value::Array(vec![]));
    let fields = [("_body", text.as_str()), yaml, next];
    assert_eq!(browser.done("/forms/workflows?publish=true", &fields).await, "/workflows/hello");
    let changed = text.replace("delay: 2s", "delay: 3s");
    browser.done("/forms/workflows", &[("_body", &changed), yaml, next]).await;
    assert!(browser.page("/workflows/hello").await.contains("Revision 2 is saved and not live."));
    let versions = browser.page("/workflows/hello/versions").await;
    for words in ["removed: ", "delay: 2s", "added: ", "delay: 3s", "live"] {
        assert!(versions.contains(words), "{words}");
    }
    let source = browser.page("/workflows/hello/source?revision=2").await;
    assert!(source.contains("delay: 3s") && source.contains("id=\"L1\""));
    assert!(browser.page("/workflows/hello/edit").await.contains("delay: 3s"));
    let id = node.get("/api/v1/workflows/hello").await.expect(200)["id"].clone();
    let publish = format!("/forms/workflows/{}/publish", id.as_str().unwrap());
    browser.done(&publish, &[("_next", "/workflows/hello")]).await;
    assert!(!browser.page("/workflows/hello").await.contains("not live"));
}
