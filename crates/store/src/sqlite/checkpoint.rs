//! Moves the log into the file, beside the writer, so that no commit waits for it.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::failure::Failure;

/// The log is looked at so often while it grows.
const LOOK: Duration = Duration::from_millis(250);
/// From so many bytes on the log is moved.
const WORTHWHILE: u64 = 8 * 1024 * 1024;

/// A thread of its own.
pub(super) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path) -> Result<Checkpointer, Failure> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_millis(100))?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                    let size = std::fs::metadata(&log).map_or(0, |log| log.len());
                    if size >= WORTHWHILE {
                        checkpoint(&connection, "PASSIVE");
                    }
                }
                checkpoint(&connection, "TRUNCATE");
            })
            .map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Checkpointer { stop: Some(stop), thread: Some(thread) })
    }
}

fn checkpoint(connection: &Connection, mode: &str) {
    let moved = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
    if let Err(error) = moved {
        tracing::warn!(%error, "the store's log is not moved into its file");
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
