//! Lists, page by page.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

const SCHEDULES: &str = "/api/v1/schedules";

async fn fill(node: &Node, workflow: &str, count: usize) {
    let all: Vec<Value> = (0..count)
        .map(|i| {
            let name = format!("{} number {i}", if i % 5 == 0 { "fifth" } else { "other" });
            json!({"name": name, "workflow_id": workflow, "cron": "@daily"})
        })
        .collect();
    node.post("/api/v1/schedules/batch", json!(all)).await.expect(201);
}

/// Reads all pages, and returns the ids in order. No page has a total that is less than what was
/// shown until then, and the last page of a search has the exact one.
async fn walk(node: &Node, query: &str) -> Vec<i64> {
    let mut ids = Vec::new();
    let mut next = format!("{SCHEDULES}?{query}");
    loop {
        let page = node.get(&next).await.expect(200);
        let items = page["items"].as_array().unwrap();
        ids.extend(items.iter().map(|s| s["id"].as_str().unwrap().parse::<i64>().unwrap()));
        assert!(page["total"].as_u64().unwrap() >= ids.len() as u64, "{query}: {page}");
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("{SCHEDULES}?{query}&cursor={cursor}"),
            None => {
                assert_eq!(page["total"], ids.len(), "{query}");
                assert_eq!(page["total_is_exact"], true, "{query}");
                return ids;
            }
        }
    }
}

#[tokio::test]
async fn pages_cover_everything_once() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    node.workflow("name: second\nsteps: [{id: a, type: noop}]\n").await;
    fill(&node, "nothing", 2_500).await;
    fill(&node, "second", 30).await;
    let pause = node.get(&format!("{SCHEDULES}?limit=1")).await.expect(200);
    let first = pause["items"][0]["id"].as_str().unwrap();
    node.post(&format!("{SCHEDULES}/{first}/pause"), Value::Null).await.expect(200);
    for (query, expected) in [
        ("limit=1000", 2_530),
        ("limit=77", 2_530),
        ("limit=500&workflow_id=nothing", 2_500),
        ("limit=7&workflow_id=second", 30),
        ("limit=500&status=active", 2_529),
        ("limit=500&status=active&workflow_id=nothing", 2_499),
        ("status=paused", 1),
        ("status=dead", 0),
        ("limit=100&q=fif", 506),
        ("limit=100&q=fifth+numb&workflow_id=second", 6),
        ("limit=100&q=fifth+numb", 506),
        ("limit=5&q=fifth+number+2", 124),
    ] {
        let ids = walk(&node, query).await;
        assert_eq!(ids.len(), expected, "{query}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), expected, "{query}");
        if !query.contains("q=") {
            assert!(ids.is_sorted(), "{query}");
            let page = node.get(&format!("{SCHEDULES}?{query}")).await.expect(200);
            assert_eq!(page["total"], expected, "{query}");
            assert_eq!(page["total_is_exact"], true, "{query}");
        }
    }
    let all = walk(&node, "limit=1000").await;
    let mut by_offset = Vec::new();
    while by_offset.len() < all.len() {
        let path = format!("{SCHEDULES}?limit=400&offset={}", by_offset.len());
        let page = node.get(&path).await.expect(200);
        let items = page["items"].as_array().unwrap().clone();
        assert!(!items.is_empty());
        by_offset.extend(items.iter().map(|s| s["id"].as_str().unwrap().parse::<i64>().unwrap()));
    }
    assert_eq!(by_offset, all);
    let beyond = node.get(&format!("{SCHEDULES}?offset=100000")).await.expect(200);
    assert_eq!(beyond["items"], json!([]));
}
