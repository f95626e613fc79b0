//! A database that goes away and comes back.

use std::time::Duration;

use super::{node, start};
use crate::ground::Ground;
use crate::harness::{NOOP, Node, PATIENCE};
use testbed::{Cluster, Proxy};

/// Polls `/readyz` until it answers with the status, and returns its text.
async fn readyz(node: &Node, status: u16) -> String {
    let answered = async {
        loop {
            let reply = node.get("/readyz").await;
            if reply.status == status {
                return reply.text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_that_its_database_is_gone_and_goes_on_when_it_is_back() {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    let ground = Ground::at(cluster.url());
    let node = node(&ground, "only").await;
    let workflow = node.workflow(NOOP).await;
    cluster.stop().unwrap();
    let said = readyz(&node, 503).await;
    let problem: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(problem["status"], 503, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("he store is not available"), "{said}");
    // Commands get the same answer, and have no effect.
    let runs = format!("/api/v1/workflows/{workflow}/runs");
    node.post(&runs, serde_json::Value::Null).await.problem(503);
    cluster.start_again().unwrap();
    readyz(&node, 200).await;
    start(&node, &workflow).await;
    ground.until("SELECT count(*) FROM ended_runs WHERE status = 4", |runs| runs == 1).await;
    node.server.stop().await.unwrap();
    drop(ground);
}

/// The database runs, but the network between drops the connections silently: neither end is
/// notified.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connections_fall_silent_says_so_and_goes_on() {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    let proxy = Proxy::start(cluster.port()).unwrap();
    let own = format!(":{}/", cluster.port());
    let ground = Ground::at(cluster.url().replace(&own, &format!(":{}/", proxy.port())));
    let node = node(&ground, "only").await;
    let workflow = node.workflow(NOOP).await;
    assert!(proxy.fall_silent() > 2);
    let said = readyz(&node, 503).await;
    // The first query that notices reports it: one of this request, or an earlier one.
    assert!(said.contains("not answer"), "{said}");
    readyz(&node, 200).await;
    start(&node, &workflow).await;
    ground.until("SELECT count(*) FROM ended_runs WHERE status = 4", |runs| runs == 1).await;
    node.server.stop().await.unwrap();
    drop(ground);
}

/// A table that is locked keeps only the figures of the store back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_tells_figures_while_the_store_does_not() {
    let ground = Ground::shared();
    let node = node(&ground, "only").await;
    let figures = async || {
        let figures = node.get("/metrics").await;
        assert_eq!(figures.status, 200, "{}", figures.text);
        figures.text
    };
    assert!(figures().await.contains("punctual_store_answers 1"));
    let lock = ground.hold("LOCK TABLE workflows IN ACCESS EXCLUSIVE MODE").await;
    // Also the second time: a connection that waits for the lock is not asked again.
    for _ in 0..2 {
        let text = figures().await;
        for line in ["punctual_store_answers 0", "punctual_node_ready 0", "punctual_turn_seconds"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    drop(lock);
    while !figures().await.contains("punctual_store_answers 1") {}
    node.server.stop().await.unwrap();
}
