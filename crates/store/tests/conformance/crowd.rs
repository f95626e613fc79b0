//! Many nodes on one store publish to topics and run their handlers concurrently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use engine::turn::{Answer, Capacity, Command, Effect, Perform};
use engine::{Moment, NodeId, TopicId};
use serde_json::{Value, json};
use store::{CommandRequest, Report, Store, TurnRequest};

use crate::messages::{consumer, gave, message, shared, topic};
use crate::postgres::Schema;
use crate::world::{World, minute};

/// How many nodes there are.
const NODES: usize = 3;
/// How often each node publishes to each topic.
const BATCHES: usize = 8;
/// How many events it publishes at a time.
const EVENTS: usize = 10;

/// A node with a store handle of its own.
struct Node {
    store: Arc<dyn Store>,
    id: NodeId,
}

fn moment(at: i64) -> Moment {
    Moment::new(minute(at), minute(0))
}

impl Node {
    async fn join(schema: &Schema) -> Node {
        let store = schema.open().await.unwrap();
        let id = store.join("crowd", moment(1)).await.unwrap().node;
        Node { store, id }
    }

    async fn publish(&self, topic: TopicId, batch: usize) -> u64 {
        let id = |n: usize| format!("{}/{batch}/{n}", self.id);
        let events = (0..EVENTS).map(|n| message(&id(n), "{}")).collect();
        let command = Command::PublishEvents { topic, events };
        let request = CommandRequest {
            command,
            moment: moment(1),
            node: self.id,
            idempotency: None,
            traced: false,
            audit: None,
        };
        match self.store.command(request).await.unwrap().answer {
            Answer::Published { published, .. } => published,
            other => panic!("{other:?}"),
        }
    }

    async fn turn(&self, at: i64, reports: Vec<Report>) -> Vec<Perform> {
        let request = TurnRequest {
            moment: moment(at),
            node: self.id,
            reports,
            limit: 100,
            begin: None,
            held: Default::default(),
            capacity: Capacity::new(100),
            performed: None,
            traced: false,
        };
        let turned = self.store.turn(request).await.unwrap();
        let perform = |effect| match effect {
            Effect::Perform(perform) => Some(*perform),
            Effect::Claimed { .. } | Effect::Cancel { .. } => None,
        };
        turned.effects.into_iter().filter_map(perform).collect()
    }
}

/// What the phase returns: `prepare` reserves everything it was shown.
fn answer(perform: &Perform) -> Value {
    let input: Value = serde_json::from_str(&perform.input).unwrap();
    let mut ids: HashMap<&str, Vec<&Value>> = HashMap::new();
    for event in input["events"].as_array().into_iter().flatten() {
        ids.entry(event["topic"].as_str().unwrap()).or_default().push(&event["message_id"]);
    }
    let reservation = |(topic, ids): (&str, Vec<&Value>)| json!({"topic": topic, "ids": ids});
    match perform.step().id.as_str() {
        "prepare" => {
            let all: Vec<Value> = ids.into_iter().map(reservation).collect();
            json!({"reservations": all})
        }
        _ => Value::Null,
    }
}

/// Takes turns until nothing is left to do anywhere. Checks that only one run of each workflow is
/// performed at a time.
async fn work(
    node: &Node,
    at: i64,
    busy: &Mutex<HashMap<String, i64>>,
    is_over: impl Fn() -> bool,
) {
    let mut reports = Vec::new();
    loop {
        let ended: Vec<i64> = reports.iter().map(|report: &Report| report.run.0).collect();
        // The run may end with the report, and another node may begin the next one.
        busy.lock().unwrap().retain(|_, run| !ended.contains(run));
        let performs = node.turn(at, reports).await;
        for perform in &performs {
            let workflow = perform.definition.name.clone();
            let before = busy.lock().unwrap().insert(workflow.clone(), perform.run.0);
            assert_eq!(before, None, "{workflow} has two runs at a time");
        }
        reports = performs.iter().map(|perform| gave(perform, &answer(perform))).collect();
        if reports.is_empty() {
            if is_over() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_nodes_publish_and_consume() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    // Both workflows subscribe to the shared topic.
    for name in ["one", "two"] {
        let definition = json!({"name": name, "topics": [shared("s"), topic(name, 10)],
            "consumers": [consumer("c", &["s", name]), consumer("d", &[name])]});
        world.deploy(0, definition).await;
    }
    let mut topics = Vec::new();
    for name in ["s", "one", "two"] {
        topics.push(world.topic_id(name).await);
    }
    let busy = Mutex::new(HashMap::new());
    let left = std::sync::atomic::AtomicUsize::new(NODES * BATCHES * topics.len());
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(Node::join(&schema).await);
    }
    let publish = async |node: &Node, topics: Vec<TopicId>| {
        for batch in 0..BATCHES {
            for topic in &topics {
                assert_eq!(node.publish(*topic, batch).await, EVENTS as u64);
                left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
    let is_over = || left.load(std::sync::atomic::Ordering::Relaxed) == 0;
    let all = nodes.iter().enumerate().map(|(place, node)| {
        // Each node publishes in another order.
        let mut order = topics.clone();
        order.rotate_left(place);
        async {
            futures_util::future::join(publish(node, order), work(node, 1, &busy, is_over)).await
        }
    });
    futures_util::future::join_all(all).await;
    // A consumer that came too late for an event another workflow took looks again after a while.
    let told = (NODES * BATCHES * EVENTS) as u64;
    for round in 1..100 {
        for node in &nodes {
            work(node, 1 + 15 * round, &busy, || true).await;
        }
        if world.counts("s").await[2] == told {
            break;
        }
    }
    for name in ["s", "one", "two"] {
        assert_eq!(world.counts(name).await, [0, 0, told, 0], "{name}");
    }
    world.holds_together().await;
}

/// How many schedules are due at the same instant.
const DUE: usize = 700;

/// Takes turns on one node until nothing is left, and returns the runs it began. The caller checks
/// that all have begun.
async fn drain(node: &Node, at: i64, left: &std::sync::atomic::AtomicUsize) -> Vec<String> {
    use std::sync::atomic::Ordering::Relaxed;
    let (mut begun, mut reports) = (Vec::new(), Vec::new());
    while left.load(Relaxed) > 0 || !reports.is_empty() {
        left.fetch_sub(reports.len(), Relaxed);
        let performs = node.turn(at, reports).await;
        begun.extend(performs.iter().map(|perform| perform.run_id.to_string()));
        reports = performs.iter().map(crate::world::succeeded).collect();
        tokio::task::yield_now().await;
    }
    begun
}

/// Concurrent turns of one node and of another: each occurrence has one run, and each report
/// counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn turns_side_by_side_share_what_is_due() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    let workflow = world.workflow("w").await;
    let fields = r#"{"name": "s", "interval": "5m", "overlap": "skip"}"#;
    let new = (0..DUE).map(|_| world.new_schedule(workflow, fields)).collect();
    let Answer::Created(ids) = world.command(0, Command::CreateSchedules(new)).await else {
        panic!("not created")
    };
    let nodes = [Node::join(&schema).await, Node::join(&schema).await];
    let lanes = nodes[0].store.turns_at_a_time();
    assert!(lanes > 1);
    for at in [5, 10, 15] {
        let left = std::sync::atomic::AtomicUsize::new(DUE);
        let all = nodes.iter().flat_map(|node| (0..lanes).map(move |_| node));
        let all = all.map(|node| drain(node, at, &left));
        let mut begun = futures_util::future::join_all(all).await.concat();
        begun.sort_unstable();
        begun.dedup();
        assert_eq!(begun.len(), DUE, "at minute {at}");
    }
    world.holds_together().await;
    for id in ids {
        assert_eq!(world.ledger(id).await, ["0 started 5", "1 started 10", "2 started 15"]);
        let progress = world.seen(id).await.progress;
        assert_eq!((progress.run_count, progress.active.len()), (3, 0));
    }
}
