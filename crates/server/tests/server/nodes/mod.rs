//! Several nodes on one PostgreSQL.

mod clocks;
mod deaths;
mod leases;
mod outage;
mod sharing;

use std::sync::Arc;

use engine::WorkflowId;
use engine::turn::{Answer, Command, NewRun, Starter};

use crate::ground::Ground;
use crate::harness::Node;

/// Starts a node with this name on the shared store.
async fn node(ground: &Ground, name: &str) -> Node {
    Node::start_on(ground.clone(), |options| options.node = name.to_owned()).await
}

/// Starts the workflow by hand, without the API, and returns the run's id.
async fn start(node: &Node, workflow: &str) -> String {
    start_through(node.server.hub(), workflow).await
}

async fn start_through(hub: &Arc<server::Hub>, workflow: &str) -> String {
    let id = WorkflowId(workflow.parse().unwrap());
    let run = NewRun {
        id: uuid::Uuid::now_v7().as_u128(),
        payload: None,
        by: Starter::Caller("test".to_owned()),
        trace: None,
        if_busy: Default::default(),
    };
    let command = Command::StartWorkflow { id, run };
    match hub.command(command, None).await.unwrap().answer {
        Answer::Run(id) => id,
        other => panic!("{other:?}"),
    }
}
