//! Copies the write-ahead log into the database file beside the writer, so that no commit waits for
//! it; and keeps the log short.
//!
//! The checkpointer's thread copies. While the log is written without a pause, only the writer can
//! restart it: it does so between two groups of commits, when the checkpointer has copied nearly
//! all of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::failure::Failure;
use crate::sqlite::connections::file::beside;

const MIB: u64 = 1024 * 1024;
/// The least time between two looks at the log. Each copy syncs the file, and commits meanwhile
/// wait for the disk. So copying seldom is better: a page that is written often is then copied
/// once.
const PAUSE: Duration = Duration::from_secs(1);
/// The log is copied from this many bytes on.
const WORTHWHILE: u64 = 8 * MIB;
/// When the log restarts, its file is cut to this many bytes. Overwriting the file costs less than
/// extending it, so this much is kept.
pub(crate) const KEPT: u64 = 64 * MIB;
/// The writer restarts the log from this many bytes on. It is more than what is kept, so that a log
/// of this size has grown since its last restart.
const LONG: u64 = 96 * MIB;
/// From this many bytes on the writer restarts the log even if the checkpointer has not copied most
/// of it.
const TOO_LONG: u64 = 256 * MIB;
/// If a reader still uses the log, the writer tries again when the log has grown by this many
/// bytes.
const TRY_AGAIN: u64 = 32 * MIB;
/// How long to wait for readers of the log: most queries are done sooner, and later ones read from
/// the file.
const FOR_READERS: Duration = Duration::from_millis(20);
/// How many times in a row the checkpointer copies what was added while it copied, before the
/// writer copies the rest.
const PASSES: u32 = 3;
/// Frames of one page each: at most about this many are left for the writer to copy.
const FEW_FRAMES: i64 = 2_048;

/// The checkpointer, on a thread of its own.
pub(crate) struct Checkpointer {
    grown: Option<SyncSender<()>>,
    is_copied: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: &Path) -> Result<Checkpointer, Failure> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(100))?;
        let log = beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), "-wal");
        let (grown, has_grown) = sync_channel::<()>(1);
        let is_copied = Arc::<AtomicBool>::default();
        let copied = is_copied.clone();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                // Sleeps until something is committed: an idle store costs nothing.
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

    /// The writer's handle: it reports commits to this thread, and restarts the log.
    pub(crate) fn log_keeper(&self) -> LogKeeper {
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

/// The writer's side of the checkpointer, called between two groups of commits.
pub(crate) struct LogKeeper {
    grown: Option<SyncSender<()>>,
    is_copied: Arc<AtomicBool>,
    /// The size of the log from which on the next restart is tried.
    try_at: u64,
}

impl LogKeeper {
    /// Called after a commit, with the size of the log in bytes.
    pub(crate) fn committed(&mut self, connection: &Connection, size: u64) {
        if size < LONG {
            self.try_at = LONG;
        } else if size >= self.try_at
            && (size >= TOO_LONG || self.is_copied.swap(false, Ordering::AcqRel))
        {
            self.try_at = if begin_anew(connection) { LONG } else { size + TRY_AGAIN };
        }
        if let Some(grown) = &self.grown {
            // A busy checkpointer looks at the log afterwards anyway.
            let _ = grown.try_send(());
        }
    }
}

/// Copies the rest of the log and makes the next commit write at its beginning. Returns false if a
/// reader still uses the log.
fn begin_anew(connection: &Connection) -> bool {
    let wait = |time| connection.busy_timeout(time).is_ok();
    let restarted = wait(FOR_READERS) && checkpoint(connection, "RESTART").is_some_and(|c| c.whole);
    wait(crate::sqlite::BUSY) && restarted
}

fn copy(connection: &Connection, passes: u32) {
    for _ in 0..passes {
        match checkpoint(connection, "PASSIVE") {
            Some(copied) if copied.frames > FEW_FRAMES => {}
            _ => return,
        }
    }
}

/// The result of a checkpoint.
struct Checkpoint {
    /// Whether all of the log was copied, and no reader was in the way.
    whole: bool,
    /// How many frames the log had.
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
    use crate::sqlite::transaction::core::Core;
    use crate::sqlite::{Sqlite, SqliteOptions};

    /// Writes many pages in one transaction. The content is random, because SQLite does not write a
    /// page again that has not changed.
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
        // A reader delays the restart, but not for ever.
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
