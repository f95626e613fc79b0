//! Moves the log into the file, beside the writer, so that no commit waits for it; and keeps the log short.
//!
//! The checkpointer's thread copies. Only the writer can begin the log anew while it is written without a pause: it
//! does so between two groups of commits, when the checkpointer has copied nearly all of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::file::beside;
use crate::failure::Failure;

const MIB: u64 = 1024 * 1024;
/// The log is looked at again after so long at the earliest. Each time syncs the file, and commits that
/// come meanwhile wait for the disk: seldom is better, and a page that is written often is moved once.
const PAUSE: Duration = Duration::from_secs(1);
/// From so many bytes on the log is moved.
const WORTHWHILE: u64 = 8 * MIB;
/// When the log begins anew, its file is cut to so many bytes. To write over what is there costs less than to make the
/// file longer: so much of it stays.
pub(super) const KEPT: u64 = 64 * MIB;
/// From so many bytes on the writer begins the log anew. More than is kept: a log of this size is one that has grown
/// since it was begun.
const LONG: u64 = 96 * MIB;
/// From so many bytes on the writer does it whether or not the checkpointer has copied most of the log.
const TOO_LONG: u64 = 256 * MIB;
/// If somebody still reads from the log, the writer tries again when it has grown by so many bytes.
const TRY_AGAIN: u64 = 32 * MIB;
/// Whoever reads from the log is waited for so long: most questions are answered sooner, and those that follow read
/// from the file.
const FOR_READERS: Duration = Duration::from_millis(20);
/// The checkpointer copies so often in a row what was added while it copied, before the writer does the rest.
const PASSES: u32 = 3;
/// Frames of a page each: so few are left to the writer.
const FEW_FRAMES: i64 = 2_048;

/// A thread of its own.
pub(super) struct Checkpointer {
    grown: Option<SyncSender<()>>,
    is_copied: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Checkpointer, Failure> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(100))?;
        let log = beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), "-wal");
        let (grown, has_grown) = sync_channel::<()>(1);
        let is_copied = Arc::<AtomicBool>::default();
        let copied = is_copied.clone();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                // Sleeps until something is committed: a store that nobody writes to costs nothing.
                while has_grown.recv().is_ok() {
                    let size = std::fs::metadata(&log).map_or(0, |log| log.len());
                    if size >= WORTHWHILE {
                        copy(&connection, if size >= LONG { PASSES } else { 1 });
                        copied.store(size >= LONG, Ordering::Release);
                        thread::sleep(PAUSE);
                    }
                }
                checkpoint(&connection, "TRUNCATE");
            })
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Checkpointer { grown: Some(grown), is_copied, thread: Some(thread) })
    }

    /// For the writer: tells this thread of commits, and begins the log anew.
    pub(super) fn log_keeper(&self) -> LogKeeper {
        LogKeeper { grown: self.grown.clone(), is_copied: self.is_copied.clone(), try_at: LONG }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.grown.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The writer's side: called between two groups of commits.
pub(super) struct LogKeeper {
    grown: Option<SyncSender<()>>,
    is_copied: Arc<AtomicBool>,
    /// From so many bytes on it is tried next.
    try_at: u64,
}

impl LogKeeper {
    /// Something was committed, and the log has so many bytes.
    pub(super) fn committed(&mut self, connection: &Connection, size: u64) {
        if size < LONG {
            self.try_at = LONG;
        } else if size >= self.try_at
            && (size >= TOO_LONG || self.is_copied.swap(false, Ordering::AcqRel))
        {
            self.try_at = if begin_anew(connection) { LONG } else { size + TRY_AGAIN };
        }
        if let Some(grown) = &self.grown {
            // One that is busy looks at the log afterwards anyway.
            let _ = grown.try_send(());
        }
    }
}

/// Copies the rest of the log, and has the next commit write at its beginning. Not if somebody reads from it.
fn begin_anew(connection: &Connection) -> bool {
    let wait = |time| connection.busy_timeout(time).is_ok();
    let restarted = wait(FOR_READERS) && checkpoint(connection, "RESTART").is_some_and(|c| c.whole);
    wait(super::BUSY) && restarted
}

fn copy(connection: &Connection, passes: u32) {
    for _ in 0..passes {
        match checkpoint(connection, "PASSIVE") {
            Some(copied) if copied.frames > FEW_FRAMES => {}
            _ => return,
        }
    }
}

/// What a checkpoint has done.
struct Checkpoint {
    /// All of the log was copied, and nobody was in the way.
    whole: bool,
    /// Frames that the log had.
    frames: i64,
}

fn checkpoint(connection: &Connection, mode: &str) -> Option<Checkpoint> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Checkpoint { whole: row.get::<_, i64>(0)? == 0, frames: row.get(1)? })
    };
    let done = connection.query_row(&sql, [], read);
    done.map_err(|error| tracing::warn!(%error, "the store's log is not moved into its file")).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::{KEPT, LONG, beside};
    use crate::sqlite::core::Core;
    use crate::sqlite::{Sqlite, SqliteOptions};

    /// Writes many pages in one transaction. What is random differs from what is there: SQLite does not write again
    /// what stays the same.
    fn write_much(core: &mut Core, megabytes: u64) -> Result<(), crate::Failure> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, randomblob(262144))";
        for at in 0..megabytes * 4 {
            core.connection.prepare_cached(sql)?.execute([format!("much {at}")])?;
        }
        Ok(())
    }

    fn size(log: &Path) -> u64 {
        std::fs::metadata(log).unwrap().len()
    }

    #[tokio::test]
    async fn the_log_begins_anew_under_unbroken_load_and_after_long_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let options = SqliteOptions { sync: false, ..SqliteOptions::default() };
        let store = Sqlite::open(&path, calendar::Zones::bundled(), options).unwrap();
        let log = beside(&path, "-wal");
        let write = || store.write(|core| write_much(core, 32));
        let mut most = 0;
        for _ in 0..20 {
            write().await.unwrap();
            most = most.max(size(&log));
        }
        // 640 MB were written.
        assert!(most < 2 * super::TOO_LONG, "{most} bytes");
        // Whoever reads holds it up, but not for good.
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM meta").unwrap();
        while size(&log) < 2 * super::TOO_LONG {
            write().await.unwrap();
        }
        drop(reader);
        while size(&log) > LONG {
            store.write(|core| write_much(core, 1)).await.unwrap();
        }
        assert!(size(&log) <= LONG.max(KEPT));
    }
}
