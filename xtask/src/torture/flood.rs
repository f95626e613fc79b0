//! So much is written to an embedded store that its log would grow without end if nobody moved it
//! into the file, while others read all the time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::history::Work;
use super::work::rfc3339;
use crate::chaos::load::created;
use crate::chaos::node::Node;
use crate::http::ask;
use crate::steps::wall_millis;

/// Schedules of one batch, with payloads of so many bytes: some ten megabytes.
const BATCH: usize = 10_000;
const PAYLOAD: usize = 1_000;
/// Batches, each created and deleted again.
const BATCHES: usize = 30;
const READERS: usize = 4;
/// They are due in a day, and gone before.
const DUE: i64 = 86_400_000;

/// Writes and deletes; the largest size of the store's log, in bytes.
pub(super) fn flood(node: &Node, store: &Path) -> Result<u64, String> {
    let is_over = AtomicBool::new(false);
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // Whether it answers is for others to find out.
                    let _ = ask(&node.address, "GET", "/api/v1/runs?limit=1000", "");
                }
            });
        }
        let mut largest = 0;
        let written = (0..BATCHES).try_for_each(|_| {
            batch(node)?;
            let size = std::fs::metadata(&log).map_or(0, |log| log.len());
            largest = largest.max(size);
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        written.map(|()| largest)
    })
}

fn batch(node: &Node) -> Result<(), String> {
    let at = rfc3339(wall_millis() + DUE);
    let payload = json!({ "text": "x".repeat(PAYLOAD) });
    let schedule = json!({
        "name": "flood", "workflow_id": Work::Quick.name(), "at": at, "payload": payload,
    });
    let schedules = json!(vec![schedule; BATCH]).to_string();
    let answer = created(node, "/api/v1/schedules/batch", &schedules)?;
    let items = answer["items"].as_array().ok_or("a batch without items")?;
    let ids: Vec<&Value> = items.iter().map(|item| &item["id"]).collect();
    let body = json!({ "schedule_ids": ids }).to_string();
    let path = "/api/v1/schedules/batch-delete";
    match ask(&node.address, "POST", path, &body) {
        Ok((204, _)) => Ok(()),
        other => Err(format!("{path}: {other:?}")),
    }
}
