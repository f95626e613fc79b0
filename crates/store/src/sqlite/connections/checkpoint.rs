//! Copies the write-ahead log into the database file beside the writer, so that no commit waits for
//! it; and keeps the log short.
//!
//! The checkpointer's thread copies. While the log is written without a pause, only the writer can
//! restart it: it does so between two groups of commits, when the checkpointer has copied nearly
//! all of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
/// A page in the log, with its header.
const FRAME: u64 = 4_096 + 24;
/// The writer restarts the log from this many bytes on.
const LONG: u64 = 96 * MIB;
/// When the log restarts, its file is cut to this many bytes. Cutting takes tens of milliseconds,
/// in which nothing is committed, so it is more than the log usually grows to.
pub(crate) const KEPT: u64 = 128 * MIB;
/// When the file of the log has this many bytes, the writer restarts the log even if the
/// checkpointer has not copied most of it.
const TOO_LONG: u64 = 256 * MIB;
// Otherwise the file would be cut at each restart, or restarted at each commit.
const _: () = assert!(LONG < KEPT && KEPT < TOO_LONG);
/// If a reader still uses the log, the writer tries again when the log has grown by this many
/// bytes.
const TRY_AGAIN: u64 = 32 * MIB;
/// How long to wait for readers of the log: most queries are done sooner, and later ones read from
/// the file.
const FOR_READERS: Duration = Duration::from_millis(20);
/// How many times in a row the checkpointer copies what was added while it copied, before the
/// writer copies the rest.
const PASSES: u32 = 3;

/// The checkpointer, on a thread of its own.
pub(crate) struct Checkpointer {
    grown: Option<SyncSender<()>>,
    copied: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: &Path) -> Result<Checkpointer, Failure> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(100))?;
        let log = beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), "-wal");
        let (grown, has_grown) = sync_channel::<()>(1);
        let copied = Arc::<AtomicU64>::default();
        let length = copied.clone();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                // Sleeps until something is committed: an idle store costs nothing.
                while has_grown.recv().is_ok() {
                    let size = std::fs::metadata(&log).map_or(0, |log| log.len());
                    if size >= WORTHWHILE {
                        length.store(copy(&connection), Ordering::Release);
                        thread::sleep(PAUSE);
                    }
                }
                checkpoint(&connection, "TRUNCATE");
            })
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Checkpointer { grown: Some(grown), copied, thread: Some(thread) })
    }

    /// The writer's handle: it reports commits to this thread, and restarts the log.
    pub(crate) fn log_keeper(&self) -> LogKeeper {
        let (grown, copied) = (self.grown.clone(), self.copied.clone());
        LogKeeper { grown, copied, try_at: LONG, too_long_at: TOO_LONG }
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
    /// How long the log was when the checkpointer copied it last; 0 once that was looked at.
    copied: Arc<AtomicU64>,
    /// The length of a copied log from which on the next restart is tried.
    try_at: u64,
    /// The same for the size of its file, whether it is copied or not.
    too_long_at: u64,
}

impl LogKeeper {
    /// Called after a commit, with the size of the log's file in bytes. The file is mostly larger
    /// than what is in use of it.
    pub(crate) fn committed(&mut self, connection: &Connection, size: u64) {
        let copied = self.copied.swap(0, Ordering::AcqRel);
        if copied >= self.try_at || size >= self.too_long_at {
            (self.try_at, self.too_long_at) = if begin_anew(connection) {
                (LONG, TOO_LONG)
            } else {
                (copied.max(LONG) + TRY_AGAIN, size.max(TOO_LONG) + TRY_AGAIN)
            };
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

/// Copies the log. A long log is copied several times, because less is added during each copy than
/// during the one before. Returns how many bytes of the log are in use.
fn copy(connection: &Connection) -> u64 {
    let mut length = 0;
    for _ in 0..PASSES {
        let frames = checkpoint(connection, "PASSIVE").map_or(0, |copied| copied.frames);
        length = u64::try_from(frames).unwrap_or(0) * FRAME;
        if length < LONG {
            break;
        }
    }
    length
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

    use super::{KEPT, beside};
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
        while size(&log) > KEPT {
            store.write(|core| write_much(core, 1)).await.unwrap();
        }
    }
}
