//! The database's clock decides, and a node's estimate of it stays close.

use std::sync::Arc;
use std::time::Instant;

use calendar::Zones;
use engine::turn::{Command, NewRun, Starter};
use engine::{Moment, NodeId, WorkflowId};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use store::{
    CommandRequest, Failure, MachineClock, Postgres, PostgresClock, PostgresOptions, Reading, Store,
};

use crate::postgres::Schema;
use crate::world::World;

/// How many clients send requests at the same time.
const CLIENTS: usize = 100;
/// How many requests each client sends.
const REQUESTS: usize = 6;
/// How long a round trip may take on a machine that is busy with other tests.
const SLOW: SignedDuration = SignedDuration::from_secs(20);
const MONTH: SignedDuration = SignedDuration::from_hours(30 * 24);

#[expect(clippy::disallowed_methods, reason = "the clock of this machine is what is tested")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// A machine whose clock is off by this.
#[expect(clippy::disallowed_methods, reason = "the clock of this machine is what is tested")]
fn machine(off: SignedDuration) -> MachineClock {
    let since = Instant::now();
    Arc::new(move || Reading { wall: now() + off, monotonic: since.elapsed() })
}

/// A node on a store with the database's clock, on a machine whose clock is off.
struct Off {
    store: Postgres,
    machine: MachineClock,
    node: NodeId,
    workflow: WorkflowId,
    schema: Schema,
}

impl Off {
    async fn new(off: SignedDuration) -> Off {
        let schema = Schema::new();
        let text = "name: w\nconcurrency: 10000\nsteps: [{id: a, type: noop}]\n";
        let workflow = World::new(Box::new(schema.clone())).await.publish(0, text).await;
        let options =
            PostgresOptions { clock: PostgresClock::Database, commands: 8, ..schema.options() };
        let store = Postgres::open(Zones::bundled(), options).await.unwrap();
        let machine = machine(off);
        store.set_machine_clock(machine.clone());
        let at = machine().wall;
        let node = store.join("off", Moment::new(at, at)).await.unwrap().node;
        Off { store, machine, node, workflow, schema }
    }

    /// The node's estimate of the time, computed as a server does.
    fn now(&self) -> Timestamp {
        (self.machine)().wall + self.store.skew()
    }

    async fn start(&self, id: u128) {
        let run = NewRun {
            id,
            payload: None,
            by: Starter::Caller("test".to_owned()),
            trace: None,
            if_busy: Default::default(),
        };
        let at = self.now();
        let request = CommandRequest {
            command: Command::StartWorkflow { id: self.workflow, run },
            moment: Moment::new(at, at),
            node: self.node,
            idempotency: None,
            traced: false,
            audit: None,
        };
        self.store.command(request).await.unwrap();
    }

    /// Checks that the node's estimate is right.
    fn check(&self) {
        let off = self.now().duration_since(now());
        assert!(off.abs() < SLOW, "it is off by {off}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_requests_at_once_do_not_move_the_clock() {
    for hours in [0, -3, 48] {
        let node = Off::new(SignedDuration::from_hours(hours)).await;
        node.check();
        let client = async |client: usize| {
            for n in 0..REQUESTS {
                node.start((client * REQUESTS + n + 1) as u128).await;
                node.check();
            }
        };
        join_all((0..CLIENTS).map(client)).await;
        let right = "SELECT count(*) FROM open_runs WHERE abs(created_at
                     - extract(epoch FROM clock_timestamp()) * 1000) < 600000";
        assert_eq!(node.schema.number(right).await, (CLIENTS * REQUESTS) as i64);
    }
}

/// Runs that are a minute old are kept for a month, whatever time a node believes it is.
#[tokio::test]
async fn history_goes_by_the_databases_clock_alone() {
    let node = Off::new(SignedDuration::ZERO).await;
    for id in 0..10 {
        node.start(id + 1).await;
    }
    let ended = "INSERT INTO ended_runs SELECT * FROM open_runs; DELETE FROM open_runs;
                 UPDATE ended_runs SET status = 4, ended_at = created_at, created_at = created_at - 60000";
    node.schema.execute(ended).await;
    let count = "SELECT count(*) FROM ended_runs";
    for days in [3_650, 60, -60, -3_650] {
        let at = now() + SignedDuration::from_hours(24 * days);
        let refused = node.store.expire(at, MONTH, 100).await;
        let Err(Failure::Unavailable(said)) = &refused else { panic!("{days}: {refused:?}") };
        assert!(said.contains("clock shows"), "{said}");
        assert_eq!(node.schema.number(count).await, 10, "{days}");
    }
    assert_eq!(node.store.expire(now(), MONTH, 100).await.unwrap().removed, 0);
    assert_eq!(node.schema.number(count).await, 10);
    let old = "UPDATE ended_runs SET created_at = created_at - 2764800000,
               ended_at = ended_at - 2764800000 WHERE key IN (SELECT min(key) FROM ended_runs)";
    node.schema.execute(old).await;
    assert_eq!(node.store.expire(now(), MONTH, 100).await.unwrap().removed, 1);
    assert_eq!(node.schema.number(count).await, 9);
}
