//! How fast an embedded store takes events, and how fast consumers work them off: `cargo run --release -p
//! punctual-store --example publish [FOLDER]`. Every commit is synced before it is acknowledged.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it measures, on its own"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use engine::definition::Definition;
use engine::run::AttemptEnd;
use engine::topics::Message;
use engine::turn::{Answer, Command, Effect, Places};
use engine::{Moment, NodeId, TopicId};
use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::RawValue;
use store::{CommandRequest, Report, Sqlite, SqliteOptions, Store, TopicQuery, TurnRequest};

const BATCH: usize = 1_000;
const BATCHES: usize = 200;
const WORKFLOWS: usize = 500;
const RUNS_EACH: usize = 10;

struct Node {
    store: Arc<dyn Store>,
    node: NodeId,
    moment: Moment,
}

impl Node {
    async fn open(path: &Path) -> Node {
        let zones = calendar::Zones::bundled();
        let store = Arc::new(Sqlite::open(path, zones, SqliteOptions::default()).unwrap());
        let now = "2026-03-02T00:00:00Z".parse().unwrap();
        let moment = Moment::new(now, now);
        let node = store.join("measuring", moment).await.unwrap().node;
        Node { store, node, moment }
    }

    async fn command(&self, command: Command) -> Answer {
        let (moment, node) = (self.moment, self.node);
        let request = CommandRequest { command, moment, node, idempotency: None };
        self.store.command(request).await.unwrap().answer
    }

    /// A workflow with a topic and a consumer, both of its own name.
    async fn deploy(&self, name: &str) -> TopicId {
        let phase = json!({"type": "noop"});
        let definition = json!({"name": name, "version": "1",
            "topics": [{"name": name, "max_attempts": 10}],
            "consumers": [{"name": "c", "subscribe": [name], "prepare": phase, "next": phase}]});
        let source = definition.to_string();
        let definition: Arc<Definition> = Arc::new(serde_json::from_value(definition).unwrap());
        self.command(Command::SaveWorkflow { source, definition, publish: true }).await;
        let name = Some(name.to_owned());
        let query = TopicQuery { name, limit: 1, ..TopicQuery::default() };
        self.store.topics(query).await.unwrap().items[0].topic.id
    }

    async fn publish(&self, topic: TopicId, from: usize, count: usize) {
        let events = (from..from + count).map(message).collect();
        let answer = self.command(Command::PublishEvents { topic, events }).await;
        assert_eq!(answer, Answer::Published { published: count as u64, replaced: 0 });
    }

    async fn turn(&self, reports: Vec<Report>) -> Vec<Effect> {
        let request = TurnRequest {
            moment: self.moment,
            node: self.node,
            reports,
            limit: 1_000,
            places: Places::new(1_000),
            performed: None,
        };
        self.store.turn(request).await.unwrap().effects
    }
}

fn message(n: usize) -> Message {
    let payload = json!({"order": n, "customer": format!("customer-{}", n % 1_000),
        "items": [{"article": "A-1", "count": 2}, {"article": "B-7", "count": 1}],
        "note": "as it was entered, with a few words of text that nobody will read"});
    Message {
        message_id: format!("order-{n:08}"),
        title: Some(format!("Order {n}")),
        payload: raw(&payload),
        causes: Vec::new(),
    }
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn tell(what: &str, count: usize, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0} a second", count as f64 / seconds);
}

/// One client after the other's answer, and four at the same time.
async fn publish(node: &Node) {
    let topic = node.deploy("published").await;
    let began = Instant::now();
    for batch in 0..BATCHES {
        node.publish(topic, batch * BATCH, BATCH).await;
    }
    tell("events published by one client", BATCHES * BATCH, began);
    let began = Instant::now();
    let client = |client: usize| async move {
        for batch in (client..BATCHES).step_by(4) {
            node.publish(topic, (BATCHES + batch) * BATCH, BATCH).await;
        }
    };
    join_all((0..4).map(client)).await;
    tell("events published by four clients", BATCHES * BATCH, began);
}

/// Each run of a consumer works on one event, and has two phases.
async fn consume(node: &Node) {
    let mut topics = Vec::new();
    for workflow in 0..WORKFLOWS {
        topics.push(node.deploy(&format!("worked-{workflow}")).await);
    }
    for (n, topic) in topics.iter().enumerate() {
        node.publish(*topic, n * RUNS_EACH, RUNS_EACH).await;
    }
    let mut next = vec![0; WORKFLOWS];
    let (mut reports, mut ended) = (Vec::new(), 0);
    let began = Instant::now();
    while ended < WORKFLOWS * RUNS_EACH {
        let effects = node.turn(std::mem::take(&mut reports)).await;
        for effect in effects {
            let Effect::Perform(perform) = effect else { continue };
            let name = perform.definition.name.clone();
            let Some(workflow) = name.strip_prefix("worked-") else { continue };
            let workflow: usize = workflow.parse().unwrap();
            let output = if perform.step().id == "prepare" {
                let id = format!("order-{:08}", workflow * RUNS_EACH + next[workflow]);
                next[workflow] += 1;
                json!({"reservations": [{"topic": name, "ids": [id]}]})
            } else {
                ended += 1;
                json!({"state": next[workflow]})
            };
            let end = AttemptEnd::Succeeded { output: raw(&output) };
            reports.push(Report { run: perform.run, token: perform.token, end });
        }
    }
    node.turn(reports).await;
    tell("runs of consumers", ended, began);
}

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).unwrap();
    let node = Node::open(&folder.path().join("punctual.db")).await;
    publish(&node).await;
    consume(&node).await;
    let findings = node.store.check(node.moment.now, false).await.unwrap();
    assert_eq!(findings, []);
}
