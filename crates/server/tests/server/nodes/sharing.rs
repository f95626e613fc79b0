//! Nodes that share the work.

use engine::WorkflowId;
use engine::turn::{Command, NewSchedule};
use language::schedule::read_written;

use super::node;
use crate::ground::Ground;
use crate::harness::NOOP;

#[tokio::test]
async fn each_of_many_occurrences_at_once_has_exactly_one_run() {
    let ground = Ground::shared();
    let first = node(&ground, "first").await;
    let workflow = WorkflowId(first.workflow(NOOP).await.parse().unwrap());
    let second = node(&ground, "second").await;
    let hub = first.server.hub();
    let due = hub.now().checked_add(jiff::SignedDuration::from_secs(2)).unwrap();
    let text = format!(r#"{{"name": "s", "at": "{due}"}}"#);
    let declared = read_written(&text).unwrap().declared;
    let new = NewSchedule { workflow, declared_by: None, declared };
    hub.command(Command::CreateSchedules(vec![new; 200]), None).await.unwrap();
    let ended = "SELECT count(*) FROM ended_runs WHERE status = 4";
    ground.until(ended, |runs| runs >= 200).await;
    first.server.stop().await.unwrap();
    second.server.stop().await.unwrap();
    for (question, answer) in [
        ("SELECT count(*) FROM runs", 200),
        ("SELECT count(DISTINCT schedule) FROM ended_runs", 200),
        ("SELECT count(*) FROM ledger", 200),
        ("SELECT count(*) FROM nodes", 0),
    ] {
        assert_eq!(ground.number(question).await, answer, "{question}");
    }
}
