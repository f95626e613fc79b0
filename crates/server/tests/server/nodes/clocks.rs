//! The database's clock decides, however wrong a node's own is.

use std::sync::Arc;

use engine::WorkflowId;
use engine::schedule::read_written;
use engine::turn::{Command, NewSchedule};
use jiff::{SignedDuration, Timestamp};
use server::{Clock, SystemClock};

use crate::ground::Ground;
use crate::harness::{NOOP, Node};

/// A clock that is off.
struct Off(SignedDuration);

impl Clock for Off {
    fn now(&self) -> Timestamp {
        SystemClock.now().checked_add(self.0).unwrap()
    }

    fn on_host(&self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.0).unwrap()
    }
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_changes_nothing() {
    for hours in [-1, 1] {
        let ground = Ground::shared();
        let clock = Arc::new(Off(SignedDuration::from_hours(hours)));
        let node = Node::start_on(ground.clone(), |options| options.clock = clock).await;
        let workflow = WorkflowId(node.workflow(NOOP).await.parse().unwrap());
        let hub = node.server.hub();
        let off = hub.now().duration_since(SystemClock.now()).abs();
        assert!(off < SignedDuration::from_mins(10), "{hours}: {off}");
        let due = SystemClock.now().checked_add(SignedDuration::from_secs(2)).unwrap();
        let text = format!(r#"{{"name": "s", "at": "{due}", "catch_up": "none"}}"#);
        let declared = read_written(&text).unwrap().declared;
        let new = NewSchedule { workflow, trigger: None, declared };
        hub.command(Command::CreateSchedules(vec![new]), None).await.unwrap();
        ground.until("SELECT count(*) FROM ended_runs WHERE status = 4", |runs| runs == 1).await;
        let early =
            format!("SELECT count(*) FROM ended_runs WHERE started_at < {}", due.as_millisecond());
        assert_eq!(ground.number(&early).await, 0, "{hours}: it was not due yet");
        node.server.stop().await.unwrap();
    }
}
