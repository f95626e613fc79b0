//! Moves the log into the file, beside the writer, so that no commit waits for it.

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::failure::Failure;

/// The log is looked at again after so long at the earliest. Each time syncs the file, and commits that
/// come meanwhile wait for the disk: seldom is better, and a page that is written often is moved once.
const PAUSE: Duration = Duration::from_secs(1);
/// From so many bytes on the log is moved.
const WORTHWHILE: u64 = 8 * 1024 * 1024;
/// A log of so many frames (64 MiB) is begun anew. Under unbroken load there is always a commit that was
/// not moved yet, and the log would grow for ever: so the writer has to wait for the last of them.
const LONGEST_FRAMES: i64 = 16 * 1024;

/// A thread of its own.
pub(super) struct Checkpointer {
    grown: Option<SyncSender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Checkpointer, Failure> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(100))?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        let (grown, has_grown) = sync_channel::<()>(1);
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                // Sleeps until something is committed: a store that nobody writes to costs nothing.
                while has_grown.recv().is_ok() {
                    let size = std::fs::metadata(&log).map_or(0, |log| log.len());
                    if size >= WORTHWHILE {
                        if checkpoint(&connection, "PASSIVE") > LONGEST_FRAMES {
                            checkpoint(&connection, "RESTART");
                        }
                        thread::sleep(PAUSE);
                    }
                }
                checkpoint(&connection, "TRUNCATE");
            })
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Checkpointer { grown: Some(grown), thread: Some(thread) })
    }

    /// To be told of each commit.
    pub(super) fn nudge(&self) -> Option<SyncSender<()>> {
        self.grown.clone()
    }
}

/// Moves the log; how many frames it has.
fn checkpoint(connection: &Connection, mode: &str) -> i64 {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    connection.query_row(&sql, [], |row| row.get(1)).unwrap_or_else(|error| {
        tracing::warn!(%error, "the store's log is not moved into its file");
        0
    })
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.grown.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
