//! A row that kills every node that decides over it is found by later starts of the node, and set
//! aside.

use std::sync::Arc;

use engine::turn::{Perform, Wakeup};
use engine::{RunKey, ScheduleId};
use jiff::SignedDuration;
use serde_json::json;
use server::{Clock, Dispatch, Driver, Hub};
use store::{PostgresClock, Report, RunQuery, Store as _, Trial};
use tokio::sync::mpsc::unbounded_channel;

use super::start_through;
use crate::ahead::Ahead;
use crate::gated::GatedStore;
use crate::ground::Ground;
use crate::harness::{NOOP, Node};

/// A dispatch whose attempts never end.
struct Endless;

impl Dispatch for Endless {
    fn perform(&self, _: Perform) -> Option<Report> {
        None
    }

    fn cancel(&self, _: RunKey, _: u32) {}

    fn abandon(&self) {}
}

/// A store with two schedules that are due by the clock, and with a pending run.
struct Prepared {
    store: Arc<GatedStore>,
    clock: Arc<Ahead>,
    schedules: [ScheduleId; 2],
    _ground: Ground,
}

async fn prepared() -> Prepared {
    let ground = Ground::new();
    let clock = Arc::new(Ahead::default());
    let open = || ground.open_with(|options| options.clock = PostgresClock::Caller);
    let node = Node::start_over(ground.clone(), open().await, |_| {}).await;
    node.workflow(NOOP).await;
    let schedule = async |name: &str| {
        let body = json!({"name": name, "workflow_id": "nothing", "interval": "1h"});
        let path = node.schedule(body).await;
        ScheduleId(path.rsplit('/').next().unwrap().parse().unwrap())
    };
    let schedules = [schedule("one").await, schedule("other").await];
    let workflow = node.workflow("name: started\nsteps: [{id: a, type: worker, queue: q}]\n").await;
    let Node { server, client, .. } = node;
    drop(client);
    server.stop().await.unwrap();
    let store = GatedStore::new(open().await);
    // The run stays pending, because no driver runs.
    let hub = Arc::new(Hub::new(store.clone(), clock.clone(), unbounded_channel().0));
    start_through(&hub, &workflow).await;
    clock.pass(SignedDuration::from_hours(1));
    Prepared { store, clock, schedules, _ground: ground }
}

/// Starts a node again and again until it has nothing more to do. Returns how many times it died.
async fn live(store: &Arc<GatedStore>, clock: &Arc<Ahead>) -> usize {
    for deaths in 0..20 {
        let (sender, _signals) = unbounded_channel();
        let hub = Arc::new(Hub::new(store.clone(), clock.clone(), sender));
        let joining =
            Driver::join(store.clone(), clock.clone(), Arc::new(Endless), hub, "node", 100);
        let mut driver = joining.await.unwrap();
        let living = async {
            while driver.has_more() {
                driver.turn().await.unwrap();
            }
        };
        tokio::select! {
            () = living => return deaths,
            () = store.died() => {}
        }
    }
    panic!("it dies again and again");
}

async fn runs(store: &GatedStore) -> usize {
    store.runs(RunQuery { limit: 100, ..RunQuery::default() }).await.unwrap().items.len()
}

#[tokio::test]
async fn a_schedule_that_kills_nodes_is_set_aside() {
    let Prepared { store, clock, schedules: [one, other], _ground } = prepared().await;
    let before = runs(&store).await;
    store.make_deadly(Wakeup::Schedule(one));
    // Two deaths without a known cause, and three while deciding over this row alone.
    assert_eq!(live(&store, &clock).await, 5);
    let aside = store.all_set_aside().await.unwrap();
    assert_eq!(aside.iter().map(|aside| aside.what).collect::<Vec<_>>(), [Wakeup::Schedule(one)]);
    assert!(aside[0].reason.contains("died three times"), "{}", aside[0].reason);
    let progress = store.schedule(other).await.unwrap().unwrap().schedule.progress;
    assert_eq!(progress.n, 1, "the other one has run");
    assert_eq!(runs(&store).await, before + 1);
    // A node that lives long enough, or leaves, has not died early.
    store.has_settled("node").await.unwrap();
    assert_eq!(live(&store, &clock).await, 0);
}

#[tokio::test]
async fn a_pending_run_that_kills_nodes_is_set_aside() {
    let Prepared { store, clock, _ground, .. } = prepared().await;
    let pending =
        store.next_to_decide(clock.now() - SignedDuration::from_hours(1), RunKey(i64::MIN));
    let Some(Trial::Begin(key)) = pending.await.unwrap() else { panic!("no run is pending") };
    store.make_deadly(Wakeup::Run(key));
    assert_eq!(live(&store, &clock).await, 5);
    let aside = store.all_set_aside().await.unwrap();
    assert_eq!(aside.iter().map(|aside| aside.what).collect::<Vec<_>>(), [Wakeup::Run(key)]);
}

#[tokio::test]
async fn deaths_with_other_reasons_set_nothing_aside() {
    let Prepared { store, clock, schedules, _ground } = prepared().await;
    for _ in 0..5 {
        store.join("node", engine::Moment::new(clock.now(), clock.now())).await.unwrap();
    }
    assert_eq!(live(&store, &clock).await, 0);
    assert!(store.all_set_aside().await.unwrap().is_empty());
    for id in schedules {
        assert_eq!(store.schedule(id).await.unwrap().unwrap().schedule.progress.n, 1);
    }
}

/// What people start while a node looks for the cause of early deaths did not cause them: it does
/// not have to be decided alone, and delays nothing that is due.
#[tokio::test]
async fn what_comes_after_the_start_is_decided_together() {
    let Prepared { store, clock, schedules, _ground } = prepared().await;
    for _ in 0..3 {
        store.join("node", engine::Moment::new(clock.now(), clock.now())).await.unwrap();
    }
    let (sender, _signals) = unbounded_channel();
    let hub = Arc::new(Hub::new(store.clone(), clock.clone(), sender));
    let joining =
        Driver::join(store.clone(), clock.clone(), Arc::new(Endless), hub.clone(), "node", 500);
    let mut driver = joining.await.unwrap();
    clock.pass(SignedDuration::from_secs(1));
    let workflow = store.workflow("nothing", None).await.unwrap().unwrap().workflow.id;
    for _ in 0..200 {
        start_through(&hub, &workflow.to_string()).await;
    }
    let mut turns = 0;
    while driver.has_more() {
        driver.turn().await.unwrap();
        turns += 1;
    }
    assert!(turns < 20, "{turns} turns");
    assert_eq!(driver.going_on(), 202, "all starts, and both occurrences");
    for id in schedules {
        assert_eq!(store.schedule(id).await.unwrap().unwrap().schedule.progress.n, 1);
    }
}
