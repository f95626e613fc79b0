//! For tests: counts the steps of SQLite's virtual machine that a query takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::failure::Failure;

/// A query that returns how many rows it has found.
pub(crate) type Question = fn(&Connection) -> Result<usize, Failure>;

/// For each query, how many rows it finds and how many steps it takes.
pub(crate) fn steps(
    mut connection: Connection,
    questions: &[(&'static str, Question)],
) -> Vec<(&'static str, usize, u64)> {
    let count = Arc::new(AtomicU64::new(0));
    let counting = count.clone();
    let step = move || {
        counting.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(step)).unwrap();
    let ask = |(name, question): &(&'static str, Question)| {
        // The first run prepares the statement, which takes steps of its own.
        question(&connection).unwrap();
        count.store(0, Ordering::Relaxed);
        let found = question(&connection).unwrap();
        (*name, found, count.load(Ordering::Relaxed))
    };
    questions.iter().map(ask).collect()
}
