//! The database's clock decides, however wrong a node's clock is.

use std::sync::Arc;

use engine::WorkflowId;
use engine::turn::{Command, NewSchedule};
use futures_util::future::join_all;
use jiff::SignedDuration;
use language::schedule::read_written;
use serde_json::Value;
use server::maintenance::Retention;
use server::{Clock as _, OffsetClock, SystemClock};

use crate::ground::Ground;
use crate::harness::{NOOP, Node};

#[tokio::test]
async fn a_clock_that_is_an_hour_off_changes_nothing() {
    for hours in [-1, 1] {
        let ground = Ground::shared();
        let clock = Arc::new(OffsetClock(SignedDuration::from_hours(hours)));
        let node = Node::start_on(ground.clone(), |options| options.clock = clock).await;
        let workflow = WorkflowId(node.workflow(NOOP).await.parse().unwrap());
        let hub = node.server.hub();
        let off = hub.now().duration_since(SystemClock.now()).abs();
        assert!(off < SignedDuration::from_mins(10), "{hours}: {off}");
        let due = SystemClock.now().checked_add(SignedDuration::from_secs(2)).unwrap();
        let text = format!(r#"{{"name": "s", "at": "{due}", "catch_up": "none"}}"#);
        let declared = read_written(&text).unwrap().declared;
        let new = NewSchedule { workflow, declared_by: None, declared };
        hub.command(Command::CreateSchedules(vec![new]), None).await.unwrap();
        ground.until("SELECT count(*) FROM ended_runs WHERE status = 4", |runs| runs == 1).await;
        let early =
            format!("SELECT count(*) FROM ended_runs WHERE started_at < {}", due.as_millisecond());
        assert_eq!(ground.number(&early).await, 0, "{hours}: it was not due yet");
        node.server.stop().await.unwrap();
    }
}

/// How many clients send requests at a time.
const CLIENTS: usize = 100;
/// How many requests each client sends per start of the node.
const REQUESTS: usize = 5;
/// How long a response may take on a machine that is busy with other tests.
const SLOW: SignedDuration = SignedDuration::from_secs(30);

/// The skew is measured correctly, however many answers of the store are under way at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_move_no_clock_and_no_history_is_lost() {
    let ground = Ground::shared();
    let count = "SELECT count(*) FROM ended_runs";
    let mut ended = 0;
    for _ in 0..3 {
        let node = Node::start_on(ground.clone(), |_| {}).await;
        let text = "name: nothing\nconcurrency: 1000\nsteps: [{id: a, type: noop}]\n";
        let workflow = node.workflow(text).await;
        let runs = format!("/api/v1/workflows/{workflow}/runs");
        let client = async |_| {
            let mut started = 0;
            for _ in 0..REQUESTS {
                let reply = node.post(&runs, Value::Null).await;
                started += i64::from(reply.status == 201);
                let off = node.server.hub().now().duration_since(SystemClock.now()).abs();
                assert!(off < SLOW, "the node's clock is off by {off}");
            }
            started
        };
        ended += join_all((0..CLIENTS).map(client)).await.into_iter().sum::<i64>();
        ground.until(count, |runs| runs == ended).await;
        let removed = Retention::default().run_once(node.server.hub()).await.unwrap();
        assert_eq!((removed.rows, ground.number(count).await), (0, ended));
        node.server.stop().await.unwrap();
    }
    assert!(ended > 0);
}
