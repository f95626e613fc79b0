//! What there is to do: schedules of which so many are due in each second.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::Cluster;

use super::node::Node;
use crate::http::ask;
use crate::steps::now;

/// Steps that start a process are dear: one in so many. They take a while, so that some of them go
/// on when their node is killed or held.
const ONE_COMMAND_IN: u64 = 100;
const WORKFLOWS: [(&str, &str); 2] = [
    ("quick", r#"{"name": "quick", "steps": [{"id": "work", "type": "noop"}]}"#),
    (
        "command",
        r#"{"name": "command", "steps": [{"id": "work", "type": "exec", "command": ["sleep", "0.5"]}]}"#,
    ),
];

/// Every schedule has the same interval and as many occurrences as any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) rate: u64,
    /// The seconds between two occurrences.
    pub(super) interval: u64,
    pub(super) repeats: u64,
}

impl Load {
    pub(super) fn schedules(&self) -> u64 {
        self.rate * self.interval
    }

    /// Those of each second are created a second after those of the one before.
    pub(super) fn create(&self, node: &Node) -> Result<(), String> {
        for (_, definition) in WORKFLOWS {
            created(node, "/api/v1/workflows?publish=true", definition)?;
        }
        let begin = now();
        for second in 0..self.interval {
            std::thread::sleep(Duration::from_secs(second).saturating_sub(begin.elapsed()));
            let schedules: Vec<Value> =
                (0..self.rate).map(|at| self.schedule(second, at)).collect();
            created(node, "/api/v1/schedules/batch", &json!(schedules).to_string())?;
        }
        Ok(())
    }

    fn schedule(&self, second: u64, at: u64) -> Value {
        let (workflow, _) = WORKFLOWS[usize::from(at.is_multiple_of(ONE_COMMAND_IN))];
        json!({
            "name": format!("{second}-{at}"),
            "workflow_id": workflow,
            "every": format!("{}s", self.interval),
            "total_repeats": self.repeats,
            "catch_up": "all",
            "overlap": "queue_all",
        })
    }

    /// Whether every schedule has come to its end, and every run too.
    pub(super) fn is_over(&self, cluster: &Cluster) -> Result<bool, String> {
        let sql = "SELECT (SELECT count(*) FROM punctual.schedules WHERE status < 2)
                        + (SELECT count(*) FROM punctual.open_runs)";
        Ok(cluster.ask(sql).map_err(|why| why.to_string())? == "0")
    }
}

/// Posts what has to be taken.
pub(crate) fn created(node: &Node, path: &str, body: &str) -> Result<Value, String> {
    let answer = ask(&node.address, "POST", path, body);
    let (status, text) = answer.map_err(|error| format!("{path}: {error}"))?;
    match status {
        200..300 => serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}")),
        _ => Err(format!("{path}: {status}: {text}")),
    }
}
