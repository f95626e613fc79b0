//! Tests of what people do with the pages, from signing in to an answer.

use std::path::Path;

use serde_json::Value;

use super::driver::{Browser, DESK};
use super::{TOKEN, told, wait, world};
use crate::node::{Home, Node};

/// Signs in and opens a page.
async fn arrived(node: &Node, page: &str) -> Browser {
    let browser = Browser::start(DESK).await;
    browser.open(&format!("{}{page}", node.url)).await;
    browser.find("input[name=token]").await.write(TOKEN).await;
    browser.pressable("Sign in").await.press().await;
    browser.arrives(&format!("{}{page}", node.url)).await;
    browser
}

/// Sets a mark that is lost when the page is loaded again.
async fn mark(browser: &Browser) {
    browser.script("window.stillHere = true").await;
}

async fn is_marked(browser: &Browser) -> bool {
    browser.script("return window.stillHere === true").await == true
}

fn json(node: &Node, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.push("--json");
    serde_json::from_str(&told(node, &all)).unwrap()
}

/// The id of the schedule with this name.
fn schedule(node: &Node, name: &str) -> String {
    let schedules = json(node, &["schedule", "list"]);
    let found = schedules["items"].as_array().unwrap().iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{schedules:#}"))["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_wrong_token_does_not_open() {
    let (_home, node) = world();
    wait(async {
        let browser = Browser::start(DESK).await;
        browser.open(&format!("{}/schedules", node.url)).await;
        browser.find("input[name=token]").await.write("guessed").await;
        browser.pressable("Sign in").await.press().await;
        browser.says("There is no such token").await;
        browser.find("input[name=token]").await.write(TOKEN).await;
        browser.pressable("Sign in").await.press().await;
        browser.says("orders/weekdays").await;
        browser.pressable("Sign out").await.press().await;
        browser.find("input[name=token]").await;
        browser.open(&format!("{}/schedules", node.url)).await;
        browser.find("input[name=token]").await;
    });
}

#[test]
fn a_schedule_is_created_and_seen_to_fire() {
    let (_home, node) = world();
    wait(async {
        let browser = arrived(&node, "/schedules/new").await;
        browser.find("[name=name]").await.write("made by hand").await;
        browser.find("[name=workflow_id]").await.write("orders").await;
        let cron = browser.find("[name=cron]").await;
        cron.write("0 25 * * *").await;
        browser.says("hour 25 is out of range").await;
        cron.write("*/2 * * * * *").await;
        // The page shows the rule in words and its next times while it is being typed.
        browser.says("every 2 seconds").await;
        browser.pressable("Create").await.press().await;
        browser.says("made by hand").await;
        browser.find("#ledger tbody tr, #ledger li").await;
        mark(&browser).await;
        let before = rows(&browser).await;
        let fired = async {
            while rows(&browser).await <= before {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(crate::node::DEADLINE, fired).await.expect("it is seen to fire");
        assert!(is_marked(&browser).await, "the page was loaded anew");
    });
}

/// The number of rows of the ledger on the page.
async fn rows(browser: &Browser) -> u64 {
    let counted = "return document.querySelectorAll('#ledger tbody tr').length";
    browser.script(counted).await.as_u64().unwrap()
}

#[test]
fn what_is_being_typed_stays_while_the_page_changes() {
    let (_home, node) = world();
    wait(async {
        let page = format!("/schedules/{}", schedule(&node, "orders/often"));
        let browser = arrived(&node, &page).await;
        let filled = "const field = document.querySelector('#why input'); \
            field.focus(); field.value = '2026-11-16T09:00:05'; window.scrollTo(0, 120); \
            window.changes = 0; document.addEventListener('refreshed', () => { window.changes += 1; });";
        browser.script(filled).await;
        let changed = async {
            while browser.script("return window.changes").await.as_u64().unwrap() < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(crate::node::DEADLINE, changed).await.expect("the page changes");
        let kept = "const field = document.querySelector('#why input'); \
            return [field.value, document.activeElement === field, window.scrollY]";
        assert_eq!(
            browser.script(kept).await,
            serde_json::json!(["2026-11-16T09:00:05", true, 120])
        );
    });
}

#[test]
fn why_one_was_skipped_is_answered() {
    let (_home, node) = world();
    let id = schedule(&node, "orders/weekdays");
    wait(async {
        let browser = arrived(&node, &format!("/schedules/{id}?at=2026-12-25T09:00:00")).await;
        // Christmas Day is a holiday in Bavaria.
        browser.says("Christmas Day").await;
    });
}

#[test]
fn a_step_is_approved() {
    let (home, node) = world();
    let name = super::long_name(&home);
    told(&node, &["run", &name]);
    wait(async {
        let browser = arrived(&node, "/approvals").await;
        browser.says("Ship a-name-that-goes-on").await;
        mark(&browser).await;
        browser.find("input[name=comment]").await.write("go ahead").await;
        browser.pressable("Approve").await.press().await;
        browser.says("Nobody is asked anything").await;
        assert!(is_marked(&browser).await, "the page was loaded anew");
    });
    crate::node::until("the run goes on and ends", || {
        json(&node, &["run", "list", "--workflow", &name])["items"][0]["status"] == "succeeded"
    });
}

/// Restarts the node with one more workflow.
fn knowing(home: &Home, node: Node, name: &str, source: &str) -> Node {
    std::fs::write(home.definitions().join(name), source).unwrap();
    drop(node);
    let mut command = crate::punctual();
    command.args(home.serve_args()).env("PUNCTUAL_TOKEN", TOKEN);
    Node::start(command)
}

#[test]
fn a_run_is_seen_to_come_further() {
    let (home, node) = world();
    let [first, second] = ["first", "second"].map(|name| home.path(name));
    let until =
        |file: &Path| format!("[sh, -c, 'until test -e {}; do sleep 0.05; done']", file.display());
    let source = format!(
        "name: stages\nsteps:\n  - {{ id: first, type: exec, command: {} }}\n  - {{ id: second, \
         type: exec, command: {}, depends_on: [first] }}\n",
        until(&first),
        until(&second)
    );
    let node = knowing(&home, node, "stages.yaml", &source);
    let run = json(&node, &["run", "stages"]);
    let id = run["id"].as_str().unwrap();
    wait(async {
        let browser = arrived(&node, &format!("/runs/{id}")).await;
        mark(&browser).await;
        browser.find("#step-0 .is-run").await;
        browser.find("#step-1 .is-idle").await;
        // The status of the run stays the same: running.
        std::fs::write(&first, "").unwrap();
        browser.find("#step-0 .is-ok").await;
        browser.find("#step-1 .is-run").await;
        std::fs::write(&second, "").unwrap();
        browser.says("succeeded").await;
        assert!(is_marked(&browser).await, "the page was loaded anew");
    });
}

#[test]
fn a_failed_run_is_tried_again_from_the_step_that_failed() {
    let (home, node) = world();
    let ready = home.path("ready");
    let source = format!(
        "name: retried\nsteps:\n  - {{ id: first, type: noop }}\n  - {{ id: second, type: exec, \
         command: [test, -e, {}], depends_on: [first] }}\n",
        ready.display()
    );
    let node = knowing(&home, node, "retried.yaml", &source);
    told(&node, &["run", "retried"]);
    let failed = || json(&node, &["run", "list", "--workflow", "retried", "--status", "failed"]);
    crate::node::until("it fails", || !failed()["items"].as_array().unwrap().is_empty());
    let id = failed()["items"][0]["id"].as_str().unwrap().to_owned();
    std::fs::write(&ready, "").unwrap();
    wait(async {
        let browser = arrived(&node, &format!("/runs/{id}")).await;
        browser.says("second").await;
        browser.pressable("Retry from where it failed").await.press().await;
        browser.says("succeeded").await;
    });
    crate::node::until("a new run succeeds", || {
        let runs = json(&node, &["run", "list", "--workflow", "retried"]);
        let mut runs = runs["items"].as_array().unwrap().iter();
        runs.any(|run| run["retry_of"] == id.as_str() && run["status"] == "succeeded")
    });
}
