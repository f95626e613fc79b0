//! What holds for every page: it is accessible, and works on a phone, in dark mode and without
//! scripts.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use super::driver::{Browser, DESK, Kind};
use super::{TOKEN, long_name, told, wait, world};
use crate::node::Node;

const AXE: &str = include_str!("axe/axe.min.js");
/// Lists the serious and critical violations that axe finds.
const FIND: &str = "
    const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations
        .filter((one) => one.impact === 'serious' || one.impact === 'critical')
        .map((one) => one.id + ': ' + one.help + '\\n  '
            + one.nodes.slice(0, 4).map((node) => node.html.slice(0, 200)
                + ' ' + (node.any[0] ? node.any[0].message : '')).join('\\n  '))));";
/// Lists the elements that are wider than the window.
const OVERFLOWING: &str = "
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.body.querySelectorAll('*')]
        .filter((one) => one.getBoundingClientRect().right > width + 1)
        .filter((one) => !one.closest('.scroll, .side nav, pre'))
        .slice(0, 5).map((one) => one.outerHTML.slice(0, 160));";

/// The addresses of all pages, each with real contents.
async fn pages(node: &Node) -> Vec<String> {
    let runs: Value = get(node, "/api/v1/runs?limit=200").await;
    let run = |wanted: &dyn Fn(&Value) -> bool| {
        let found = runs["items"].as_array().unwrap().iter().find(|run| wanted(run));
        format!("/runs/{}", found.unwrap_or_else(|| panic!("{runs:#}"))["id"].as_str().unwrap())
    };
    let failed = run(&|run| run["status"] == "failed");
    let asking = run(&|run| run["status"] == "waiting");
    let topics: Value = get(node, "/api/v1/topics").await;
    let mut pages: Vec<String> = [
        "/",
        "/schedules",
        "/schedules/new",
        "/schedules/1",
        "/schedules/1/edit",
        "/schedules/1/month",
        "/workflows",
        "/workflows/new",
        "/workflows/orders",
        "/workflows/orders/source",
        "/workflows/orders/versions",
        "/workflows/orders/run",
        "/workflows/digest",
        "/runs",
        "/runs?status=failed",
        "/approvals",
        "/topics",
        "/calendars",
        "/calendars/DE-BY",
        "/nodes",
        "/tokens",
        "/audit",
        "/settings",
        "/docs",
        "/docs/post_api_v1_schedules",
        "/runs/nothing",
    ]
    .map(str::to_owned)
    .to_vec();
    pages.extend([failed, asking]);
    pages.push(format!("/topics/{}", topics["items"][0]["id"].as_str().unwrap()));
    pages
}

async fn get(node: &Node, path: &str) -> Value {
    let client = runners::http_client().no_proxy().build().unwrap();
    let reply = client.get(format!("{}{path}", node.url)).bearer_auth(TOKEN).send().await.unwrap();
    reply.json().await.unwrap()
}

/// A node on which a run has failed and one waits for a person.
fn lived_in() -> (crate::node::Home, Node) {
    let (home, node) = world();
    told(&node, &["run", &long_name(&home)]);
    for status in ["failed", "waiting"] {
        crate::node::until("a run has failed, and one waits", || {
            let runs = told(&node, &["run", "list", "--status", status, "--json"]);
            let runs: Value = serde_json::from_str(&runs).unwrap();
            !runs["items"].as_array().unwrap().is_empty()
        });
    }
    (home, node)
}

async fn signed_in(kind: Kind, node: &Node) -> Browser {
    let browser = Browser::start(kind).await;
    browser.open(&format!("{}/sign-in", node.url)).await;
    browser.find("input[name=token]").await.write(TOKEN).await;
    browser.pressable("Sign in").await.press().await;
    browser.arrives(&format!("{}/", node.url)).await;
    browser
}

#[test]
fn everyone_can_read_them() {
    let (_home, node) = lived_in();
    wait(async {
        let mut found = Vec::new();
        for (is_phone, is_dark) in [(false, false), (true, true)] {
            let browser = signed_in(Kind { is_phone, is_dark, ..DESK }, &node).await;
            for page in pages(&node).await {
                browser.open(&format!("{}{page}", node.url)).await;
                browser.find("h1").await;
                browser.script(AXE).await;
                let wrong = browser.script_later(FIND).await;
                for wrong in wrong.as_array().unwrap() {
                    found.push(format!("{page} (dark: {is_dark}): {}", wrong.as_str().unwrap()));
                }
                let wide = browser.script(OVERFLOWING).await;
                for wide in wide.as_array().unwrap() {
                    found.push(format!("{page} (phone: {is_phone}) overflows: {wide}"));
                }
            }
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    });
}

#[test]
fn nothing_needs_a_script() {
    let (_home, node) = lived_in();
    wait(async {
        let browser = signed_in(Kind { has_script: false, ..DESK }, &node).await;
        for page in pages(&node).await {
            browser.open(&format!("{}{page}", node.url)).await;
            let heading = browser.find("h1").await;
            drop(heading);
        }
        browser.open(&format!("{}/schedules/1", node.url)).await;
        browser.pressable("Pause").await.press().await;
        browser.find(".badge.is-warn").await;
        let paused = async {
            while get(&node, "/api/v1/schedules/1").await["status"] != "paused" {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::node::DEADLINE, paused).await.expect("it is paused");
    });
}

/// Every link of every page leads to a page, and every page is small.
#[test]
fn every_link_leads_somewhere() {
    let (_home, node) = lived_in();
    wait(async {
        let client = runners::http_client().no_proxy().build().unwrap();
        let mut known: BTreeSet<String> = pages(&node).await.into_iter().collect();
        let mut open: VecDeque<String> = known.iter().cloned().collect();
        let mut followed = 0;
        while let Some(page) = open.pop_front() {
            followed += 1;
            let request = client.get(format!("{}{page}", node.url)).header("accept", "text/html");
            let reply = request.bearer_auth(TOKEN).send().await.unwrap();
            let status = reply.status().as_u16();
            let text = reply.text().await.unwrap();
            assert!(status == 200 || page == "/runs/nothing", "{page}: {status}");
            assert!(text.len() < 150_000, "{page} weighs {} bytes", text.len());
            if followed > 400 {
                break;
            }
            for link in links(&text) {
                if known.insert(link.clone()) {
                    open.push_back(link);
                }
            }
        }
        assert!(followed > 60, "only {followed}");
    });
}

/// The links in a text to our own pages.
fn links(text: &str) -> Vec<String> {
    let all = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let own = all.filter(|link| link.starts_with('/') && !link.starts_with("//"));
    let plain = own.map(|link| link.replace("&amp;", "&"));
    plain.map(|link| link.split('#').next().unwrap_or_default().to_owned()).collect()
}
