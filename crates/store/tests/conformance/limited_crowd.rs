//! Many nodes on one store, and workflows with a limit: nodes never deadlock, and together they do
//! all the work.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::turn::{Capacity, Command, Effect, NewRun, NewSchedule, Perform, Refused, Starter};
use engine::{Moment, NodeId, WorkflowId};
use futures_util::future::{join, join_all};
use language::schedule::read_written;
use serde_json::json;
use store::{CommandRequest, Failure, Report, Store, TurnRequest};
use testbed::Cluster;

use crate::postgres::Schema;
use crate::process::{child, noop, step};
use crate::world::{World, minute, succeeded};

/// How many nodes there are.
const NODES: usize = 3;
/// How many clients each node has: more than it has connections for commands.
const CLIENTS: usize = 6;
/// How many runs each client starts.
const RUNS: usize = 8;

/// How many schedules are due and how many runs have not ended.
const LEFT: &str = "SELECT (SELECT count(*) FROM progress WHERE wake_at IS NOT NULL)
       + (SELECT count(*) FROM open_runs)";

struct Node {
    store: Arc<dyn Store>,
    id: NodeId,
}

fn moment() -> Moment {
    Moment::new(minute(2), minute(0))
}

impl Node {
    async fn join(schema: &Schema) -> Node {
        let store = schema.open().await.unwrap();
        let id = store.join("crowd", moment()).await.unwrap().node;
        Node { store, id }
    }

    async fn command(&self, command: Command) -> Result<(), Failure> {
        let request = CommandRequest {
            command,
            moment: Moment::new(minute(0), minute(0)),
            node: self.id,
            idempotency: None,
            traced: false,
            audit: None,
        };
        self.store.command(request).await.map(drop)
    }

    /// Creates a schedule whose run will wait for the workflow's limit, and starts a run by hand if
    /// the limit allows. Returns how many runs that makes.
    async fn start(&self, workflow: WorkflowId, id: u128) -> usize {
        let text = format!(r#"{{"name": "s", "at": "{}"}}"#, minute(1));
        let declared = read_written(&text).unwrap().declared;
        let new = NewSchedule { workflow, declared_by: None, declared };
        self.command(Command::CreateSchedules(vec![new])).await.unwrap();
        let run = NewRun {
            id,
            payload: None,
            by: Starter::Caller("test".to_owned()),
            trace: None,
            if_busy: Default::default(),
        };
        match self.command(Command::StartWorkflow { id: workflow, run }).await {
            Ok(()) => 2,
            Err(Failure::Refused(Refused::Busy { .. })) => 1,
            Err(failure) => panic!("{failure}"),
        }
    }

    async fn turn(&self, reports: Vec<Report>, capacity: Capacity) -> (Vec<Perform>, Capacity) {
        let request = TurnRequest {
            moment: moment(),
            node: self.id,
            reports,
            limit: 100,
            begin: None,
            held: Default::default(),
            capacity,
            performed: None,
            traced: false,
        };
        let turned = self.store.turn(request).await.unwrap();
        let perform = |effect| match effect {
            Effect::Perform(perform) => Some(*perform),
            Effect::Claimed { .. } | Effect::Cancel { .. } => None,
        };
        (turned.effects.into_iter().filter_map(perform).collect(), turned.capacity)
    }

    /// Takes turns until nothing is left to do, as a driver does.
    async fn work(&self, schema: &Schema, left: &AtomicUsize) {
        let (mut reports, mut served) = (Vec::new(), None);
        loop {
            let capacity = Capacity { last_served: served, ..Capacity::new(3) };
            let (performs, capacity) = self.turn(reports, capacity).await;
            served = capacity.last_served;
            reports = performs.iter().map(succeeded).collect();
            let is_idle = reports.is_empty() && left.load(Ordering::Relaxed) == 0;
            if is_idle && schema.number(LEFT).await == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// All nodes start, begin and end runs of these workflows.
async fn check(world: World, schema: Schema, cluster: &Cluster, workflows: &[WorkflowId]) {
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(Node::join(&schema).await);
    }
    let (left, started) = (AtomicUsize::new(NODES * CLIENTS), AtomicUsize::new(0));
    let start = async |node: &Node, first: usize| {
        for n in 0..RUNS {
            let id = first * RUNS + n;
            let count = node.start(workflows[id % workflows.len()], id as u128 + 1).await;
            started.fetch_add(count, Ordering::Relaxed);
        }
        left.fetch_sub(1, Ordering::Relaxed);
    };
    let all = nodes.iter().enumerate().map(|(place, node)| {
        let clients = (0..CLIENTS).map(|client| start(node, place * CLIENTS + client));
        join(join_all(clients), node.work(&schema, &left))
    });
    join_all(all).await;
    let ended = "SELECT count(*) FROM ended_runs WHERE status = 4 AND parent IS NULL";
    assert_eq!(schema.number(ended).await, started.into_inner() as i64);
    world.holds_together().await;
    let log = fs::read_to_string(cluster.folder().join("log")).unwrap();
    let deadlocks: Vec<&str> = log.lines().filter(|line| line.contains("deadlock")).collect();
    assert_eq!(deadlocks, Vec::<&str>::new());
}

async fn limited(count: usize) {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    let schema = Schema::at(cluster.url());
    let world = World::new(Box::new(schema.clone())).await;
    let mut workflows = Vec::new();
    for n in 0..count {
        let text = format!("name: w{n}\nconcurrency: 2\nsteps: [{{id: a, type: noop}}]\n");
        workflows.push(world.publish(0, &text).await);
    }
    check(world, schema, &cluster, &workflows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_workflows_with_limits_on_three_nodes() {
    limited(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_workflows_with_limits_on_three_nodes() {
    limited(5).await;
}

/// A run that ends lets a run of another workflow begin or go on: the order of their ids is not the
/// lock order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workflows_with_limits_that_start_each_other() {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    let schema = Schema::at(cluster.url());
    let world = World::new(Box::new(schema.clone())).await;
    let mut workflows = Vec::new();
    // The last workflow starts the first, and so does the second: lower ids come before and after
    // higher ones.
    for (name, action) in
        [("a", noop()), ("b", child("a")), ("c", noop()), ("d", child("c")), ("e", child("a"))]
    {
        let definition = json!({"name": name, "concurrency": 3, "steps": [step("s", &[], action)]});
        workflows.push(world.process_with(definition).await);
    }
    check(world, schema, &cluster, &workflows).await;
}
