//! The database's machine is lost, and a standby takes its place: nothing that was acknowledged is
//! missing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testbed::Cluster;

use super::load::{Load, created};
use super::node::{Node, Setup};
use super::{doctor, until};
use crate::guard::Guard;
use crate::steps::Outcome;

/// Acknowledged before the loss, and again after it.
const ENOUGH: usize = 100;
const REPEATS: u64 = 3;

pub(super) fn run(binary: &Path) -> Outcome {
    let told = |why: testbed::Trouble| why.to_string();
    let first = Cluster::start().map_err(told)?;
    let second = first.standby().map_err(told)?;
    let url = format!(
        "postgres://punctual@127.0.0.1:{},127.0.0.1:{}/punctual?target_session_attrs=read-write",
        first.port(),
        second.port()
    );
    let guard = Arc::new(Guard::new()?);
    let setup = Setup {
        binary: binary.to_owned(),
        url,
        lease: "3s".to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        guard,
    };
    let start = |name: &str| Node::start(&setup, &setup.guard.folder().join(name));
    let nodes = [start("1")?, start("2")?];
    let definition = r#"{"name": "quick", "steps": [{"id": "work", "type": "noop"}]}"#;
    created(&nodes[0], "/api/v1/workflows?publish=true", definition)?;
    let client = Client { nodes: &nodes, acknowledged: AtomicUsize::new(0) };
    let ids = std::thread::scope(|scope| {
        let ids = scope.spawn(|| client.create());
        client.reaches(ENOUGH)?;
        first.stop().map_err(told)?;
        second.promote().map_err(told)?;
        println!("{} acknowledged when the standby took over", client.so_far());
        ids.join().map_err(|_| "the client panicked".to_owned())?
    })?;
    let load = Load { rate: 1, interval: 1, repeats: REPEATS };
    until("everything has ended", || Ok(load.is_over(&second)?.then_some(())))?;
    check(&second, &ids)?;
    doctor(&setup)?;
    println!("{} acknowledged in all, each is there and had its runs", ids.len());
    Ok(())
}

/// Somebody who creates schedules and notes what was acknowledged.
struct Client<'a> {
    nodes: &'a [Node],
    acknowledged: AtomicUsize,
}

impl Client<'_> {
    fn so_far(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn reaches(&self, count: usize) -> Result<(), String> {
        until("schedules are created", || Ok((self.so_far() >= count).then_some(())))
    }

    /// Until enough were acknowledged; what was not is nobody's.
    fn create(&self) -> Result<Vec<String>, String> {
        let mut ids = Vec::new();
        let mut at = 0;
        until("enough is acknowledged", || {
            while ids.len() < 2 * ENOUGH {
                at += 1;
                let schedule = json!({
                    "name": format!("schedule {at}"),
                    "workflow_id": "quick",
                    "every": "1s",
                    "total_repeats": REPEATS,
                    "catch_up": "all",
                    "overlap": "queue_all",
                });
                let node = &self.nodes[at % self.nodes.len()];
                let Ok(object) = created(node, "/api/v1/schedules", &schedule.to_string()) else {
                    return Ok(None);
                };
                let id = object["id"].as_str().ok_or("a schedule without an id")?;
                ids.push(id.to_owned());
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(()))
        })?;
        Ok(ids)
    }
}

/// Each has its occurrences, and each of those its run.
fn check(cluster: &Cluster, ids: &[String]) -> Outcome {
    let sql = "SELECT l.schedule FROM punctual.ledger l
               JOIN punctual.runs r ON r.schedule = l.schedule AND r.n = l.n
               WHERE l.outcome = 0 AND r.status = 4 AND r.key = l.run
               GROUP BY l.schedule HAVING count(*) = ";
    let found = cluster.ask(&format!("{sql}{REPEATS}")).map_err(|why| why.to_string())?;
    let found: Vec<&str> = found.lines().collect();
    let missing: Vec<&String> = ids.iter().filter(|id| !found.contains(&id.as_str())).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("acknowledged, and not there with all its runs: {missing:?}"))
}
