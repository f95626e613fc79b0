//! Several nodes on one store claim and end the same things concurrently.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::run::RunStatus;
use engine::turn::{Capacity, Command, Effect, Perform};
use engine::{Moment, NodeId, RunKey, WorkflowId};
use serde_json::json;
use store::{Call, CommandRequest, RenewRequest, Store, TurnRequest, Turned};
use tokio::sync::mpsc;

use crate::postgres::Schema;
use crate::process::{child, claim, claimed, keys, noop, step, timer, undo, with, worker};
use crate::world::{World, failed, minute, performs, succeeded};

/// Another node on the same store.
struct Other {
    store: Arc<dyn Store>,
    node: NodeId,
}

impl Other {
    async fn join(schema: &Schema) -> Other {
        let store = schema.open().await.unwrap();
        let node = store.join("other", moment(0)).await.unwrap().node;
        Other { store, node }
    }

    async fn claim(&self, at: i64, limit: usize) -> Vec<Perform> {
        let (command, node) = (claim(&["q", "r"], limit), self.node);
        let request = CommandRequest {
            command,
            moment: moment(at),
            node,
            idempotency: None,
            audit: None,
            traced: false,
        };
        claimed(&self.store.command(request).await.unwrap())
    }

    async fn turn(&self, at: i64, reports: Vec<store::Report>) -> Turned {
        self.take_turn(at, reports, 100).await
    }

    /// A turn that claims up to `limit` wakeups.
    async fn turn_up_to(&self, at: i64, limit: usize) -> Turned {
        self.take_turn(at, Vec::new(), limit).await
    }

    async fn take_turn(&self, at: i64, reports: Vec<store::Report>, limit: usize) -> Turned {
        let request = TurnRequest {
            moment: moment(at),
            node: self.node,
            reports,
            limit,
            begin: None,
            held: Default::default(),
            capacity: Capacity::new(100),
            performed: None,
            traced: false,
        };
        self.store.turn(request).await.unwrap()
    }

    /// Renews the lease with these attempts. Returns those that the node must cancel.
    async fn renew(&self, performed: &[Perform]) -> Vec<(RunKey, u32)> {
        let performed = performed.iter().map(|perform| (perform.run, perform.token)).collect();
        let request = RenewRequest { node: self.node, moment: moment(1), capacity: 10, performed };
        let renewed = self.store.renew(request).await.unwrap();
        let cancelled = |effect: Effect| match effect {
            Effect::Cancel { run, token } => (run, token),
            other => panic!("{other:?}"),
        };
        renewed.effects.into_iter().map(cancelled).collect()
    }
}

fn moment(at: i64) -> Moment {
    Moment::new(minute(at), minute(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_claimed_by_several_at_once_is_given_once() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    let each = json!({"type": "for_each", "items": (0..20).collect::<Vec<u32>>(),
                      "action": worker("r")});
    let steps = vec![step("a", &[], worker("q")), step("each", &[], each)];
    let workflow = world.process("w", steps).await;
    for _ in 0..10 {
        world.start(0, workflow).await.unwrap();
    }
    world.turn(0).await;
    assert_eq!(world.queues().await, [("q".to_owned(), 10), ("r".to_owned(), 200)]);
    let mut workers = Vec::new();
    for limit in [1, 3, 7, 20] {
        let other = Other::join(&schema).await;
        workers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            // Parts that others have locked are skipped: finding none does not mean that there are
            // none.
            loop {
                let some = other.claim(1, limit).await;
                assert!(some.len() <= limit);
                if some.is_empty() && other.store.queues().await.unwrap().is_empty() {
                    return taken;
                }
                taken.extend(some.into_iter().map(|p| (p.run, p.part, p.token)));
            }
        }));
    }
    let mut times = BTreeMap::new();
    let mut tokens = BTreeMap::new();
    for worker in workers {
        for (run, part, token) in worker.await.unwrap() {
            *times.entry((run, part)).or_insert(0) += 1;
            *tokens.entry((run, token)).or_insert(0) += 1;
        }
    }
    assert_eq!((times.len(), tokens.len()), (210, 210));
    assert!(times.values().chain(tokens.values()).all(|count| *count == 1), "{times:?}");
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_learns_which_of_its_attempts_are_to_end() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    let steps = vec![
        with(step("a", &[], noop()), "compensation", undo()),
        step("b", &["a"], noop()),
        step("c", &["a"], noop()),
    ];
    let workflow = world.process("w", steps).await;
    let run = world.start(0, workflow).await.unwrap();
    let other = Other::join(&schema).await;
    let first = performs(&other.turn(0, Vec::new()).await);
    assert_eq!(other.renew(&first).await, []);
    let both = performs(&other.turn(0, first.iter().map(succeeded).collect()).await);
    assert_eq!(keys(&both), ["b", "c"]);
    assert_eq!(other.renew(&both).await, []);
    let attempts = |performs: &[Perform]| -> Vec<(RunKey, u32)> {
        performs.iter().map(|perform| (perform.run, perform.token)).collect()
    };
    assert_eq!(other.renew(&first).await, attempts(&first), "one that has ended is not going on");
    world.cancel(1, &run).await;
    assert_eq!(other.renew(&both).await, attempts(&both));
    // The compensation of the first step is performed while the run is ending, and is not
    // cancelled.
    let undoing = performs(&other.turn(1, both.iter().map(failed).collect()).await);
    assert_eq!(keys(&undoing), ["a/undo"]);
    assert_eq!(other.renew(&undoing).await, []);
    other.turn(2, undoing.iter().map(succeeded).collect()).await;
    assert_eq!(world.status(&run).await, RunStatus::Cancelled);
}

/// Children end on one node while their parents are cancelled on another: no deadlock lasts, and
/// everything ends.
#[tokio::test(flavor = "multi_thread")]
async fn parents_and_children_end_on_several_nodes_at_once() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    world.process("child", vec![step("work", &[], noop())]).await;
    let steps = vec![step("a", &[], child("child")), step("b", &["a"], noop())];
    let workflow = world.process("parent", steps).await;
    let mut parents = Vec::new();
    for _ in 0..8 {
        parents.push(world.start(0, workflow).await.unwrap());
    }
    let other = Other::join(&schema).await;
    let attempts = performs(&other.turn(0, Vec::new()).await);
    assert_eq!(attempts.len(), 8);
    let settled = tokio::spawn(async move {
        for attempt in attempts {
            let turned = other.turn(1, vec![succeeded(&attempt)]).await;
            let more = performs(&turned).iter().map(succeeded).collect();
            other.turn(1, more).await;
        }
    });
    for parent in parents.iter().rev() {
        let (id, reason) = (parent.clone(), "enough".to_owned());
        // A run that has ended cannot be cancelled.
        let _ = world.try_command(1, Command::CancelRun { id, reason }).await;
    }
    settled.await.unwrap();
    world.settle(2).await;
    for parent in &parents {
        assert!(world.status(parent).await.has_ended());
    }
    world.holds_together().await;
}

/// Deadlines of several runs come at one instant, and several nodes see it: each alert is written
/// by one node, and the workflow that notifies people is created once.
#[tokio::test(flavor = "multi_thread")]
async fn deadlines_that_several_nodes_see_come_once() {
    let schema = Schema::new();
    let mut world = World::new(Box::new(schema.clone())).await;
    let late = json!({"limit": {"within": {"elapsed": "PT5M"}}, "from": "enabled", "actions":
                      [{"when": "deadline", "notify": [{"email": "ada@example.com"}]}]});
    let definition =
        json!({"name": "w", "steps": [step("wait", &[], timer(600))], "deadline": late});
    let workflow = world.process_with(definition).await;
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(world.start(0, workflow).await.unwrap());
    }
    world.turn(0).await;
    let mut turns = Vec::new();
    for _ in 0..3 {
        let other = Other::join(&schema).await;
        turns.push(tokio::spawn(async move {
            for _ in 0..6 {
                other.turn_up_to(5, 2).await;
            }
        }));
    }
    for turn in turns {
        turn.await.unwrap();
    }
    world.settle(5).await;
    let mut started = BTreeMap::new();
    for run in &runs {
        let alerts = world.store().alerts(run.clone()).await.unwrap();
        let [alert] = &alerts[..] else { panic!("{alerts:?}") };
        let [notice] = &alert.started[..] else { panic!("{alert:?}") };
        *started.entry(notice.to_string()).or_insert(0) += 1;
    }
    assert_eq!(started.len(), 8, "{started:?}");
    assert_eq!(world.runs().await.len(), 16);
    world.holds_together().await;
}

/// A node calls the others once for what has come to wait, not in every turn while it waits.
#[tokio::test]
async fn others_are_called_once_for_what_waits() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    let other = Other::join(&schema).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    other.store.on_call(Box::new(move |call| told.send(call).unwrap_or_default()));
    let say = async |word: &str| {
        let (send, schema_name) = ("SELECT pg_notify('punctual', '", schema.name());
        schema.execute(&format!("{send}{word} 999 {schema_name}')")).await;
    };
    while tokio::time::timeout(Duration::from_millis(200), heard.recv()).await.is_err() {
        say("renew").await;
    }
    let mut looks = async || {
        say("access").await;
        let mut looks = 0;
        loop {
            match heard.recv().await.unwrap() {
                Call::Look => looks += 1,
                Call::Access => return looks,
                Call::Renew => {}
            }
        }
    };
    let turn = async |at, held| {
        let request = TurnRequest {
            moment: moment(at),
            node: world.node,
            reports: Vec::new(),
            limit: 100,
            begin: None,
            held: [(WorkflowId(1), held)].into_iter().collect(),
            capacity: Capacity::new(18 - held),
            performed: None,
            traced: false,
        };
        performs(&world.store().turn(request).await.unwrap()).len()
    };
    let workflow = world.workflow("w").await;
    assert_eq!(workflow, WorkflowId(1));
    for _ in 0..30 {
        world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T00:05Z"}"#).await;
    }
    assert_eq!(turn(5, 0).await, 16, "two slots are left to other workflows");
    assert_eq!(looks().await, 1);
    for at in 6..10 {
        assert_eq!(turn(at, 16).await, 0);
    }
    assert_eq!(looks().await, 0, "the other node knows");
    world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T00:11Z"}"#).await;
    assert_eq!((turn(11, 16).await, looks().await), (0, 1));
}
