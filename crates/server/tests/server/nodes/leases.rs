//! Nodes that renew their lease, and nodes that are declared dead.

use engine::turn::Command;
use jiff::SignedDuration;
use store::Failure;

use super::{node, start};
use crate::ground::Ground;
use crate::harness::{NOOP, Node};
use crate::lifeline::Lifeline;

/// A workflow whose only step goes on until it is killed, and must not be repeated.
fn endless(lifeline: &Lifeline) -> String {
    let script = lifeline.endless_script();
    format!(
        "name: endless\nsteps:\n  - {{id: a, type: exec, idempotent: false, \
         command: [sh, -c, \"{script}\"]}}\n"
    )
}

#[tokio::test]
async fn a_lease_is_renewed_in_time() {
    let ground = Ground::shared();
    let store = ground.open_with(|options| options.lease = SignedDuration::from_secs(1)).await;
    let node = Node::start_over(ground.clone(), store, |options| options.capacity = 7).await;
    let lease = "SELECT max(lease_until) FROM nodes WHERE capacity = 7";
    ground.until("SELECT count(*) FROM nodes WHERE capacity = 7", |nodes| nodes == 1).await;
    let first = ground.number(lease).await;
    // Three lease periods later the node still has the same id.
    ground.until(lease, |until| until > first + 3_000).await;
    assert_eq!(ground.number("SELECT count(*) FROM nodes").await, 1);
    node.server.stop().await.unwrap();
    assert_eq!(ground.number("SELECT count(*) FROM nodes").await, 0, "it has left");
}

#[tokio::test]
async fn a_node_that_was_taken_for_dead_joins_again_and_goes_on() {
    let ground = Ground::shared();
    let mut lifeline = Lifeline::new();
    let first = node(&ground, "first").await;
    let workflow = first.workflow(&endless(&lifeline)).await;
    start(&first, &workflow).await;
    lifeline.held().await;
    let second = node(&ground, "second").await;
    let life = ground.number("SELECT id FROM nodes WHERE name = 'first'").await;
    let alive = format!("SELECT count(*) FROM nodes WHERE id = {life}");
    // The node may renew its lease in between: then it is declared dead once more.
    while ground.number(&alive).await > 0 {
        ground.execute(&format!("UPDATE nodes SET lease_until = 0 WHERE id = {life}")).await;
        second.workflow(NOOP).await;
        tokio::task::yield_now().await;
    }
    // The node ends its own command, although the other node has already suspended the run.
    lifeline.released().await;
    ground.until("SELECT count(*) FROM open_runs WHERE status = 3", |runs| runs == 1).await;
    ground.until("SELECT count(*) FROM nodes WHERE name = 'first'", |nodes| nodes == 1).await;
    assert_ne!(ground.number("SELECT id FROM nodes WHERE name = 'first'").await, life);
    works(&first, &ground).await;
    first.server.stop().await.unwrap();
    second.server.stop().await.unwrap();
}

/// The node carries out commands, perhaps only after it knows that it has joined again.
async fn works(node: &Node, ground: &crate::ground::Ground) {
    let workflow = loop {
        let (hub, rules) = (node.server.hub(), node.server.hub().store().rules());
        let source = "name: after\nsteps: [{id: a, type: noop}]\n";
        let context = language::definition::ReadContext {
            zones: rules.zones(),
            now: hub.now(),
            known_calendar: &|_| None,
        };
        let definition = language::definition::read(source, &context).unwrap().into();
        let source = source.to_owned();
        match hub
            .command(
                Command::SaveWorkflow { source, definition, publish: true, folder: None },
                None,
            )
            .await
        {
            Ok(commanded) => match commanded.answer {
                engine::turn::Answer::Workflow { id, .. } => break id.to_string(),
                other => panic!("{other:?}"),
            },
            Err(Failure::Fenced) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    };
    start(node, &workflow).await;
    ground.until("SELECT count(*) FROM ended_runs WHERE status = 4", |runs| runs == 1).await;
    assert_eq!(node.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_run_is_cancelled_through_another_node() {
    let ground = Ground::shared();
    let mut lifeline = Lifeline::new();
    let first = node(&ground, "first").await;
    let workflow = first.workflow(&endless(&lifeline)).await;
    let run = start(&first, &workflow).await;
    lifeline.held().await;
    let second = node(&ground, "second").await;
    let cancel = Command::CancelRun { id: run.parse().unwrap(), reason: "enough".to_owned() };
    second.server.hub().command(cancel, None).await.unwrap();
    lifeline.released().await;
    ground.until("SELECT count(*) FROM ended_runs", |runs| runs == 1).await;
    let status = ground.number("SELECT status::bigint FROM ended_runs").await;
    assert_eq!(status, 6, "cancelled");
    first.server.stop().await.unwrap();
    second.server.stop().await.unwrap();
}
