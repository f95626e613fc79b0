//! The embedded store: how the suite opens it, and what holds for a file alone.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calendar::Zones;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use rusqlite::Connection;
use store::{Failure, Sqlite, SqliteOptions, Store};
use tempfile::TempDir;

use crate::world::{Place, World, codes, minute};

/// A folder with a store.
#[derive(Clone)]
pub(crate) struct Folder {
    folder: Arc<TempDir>,
    inline: bool,
}

impl Folder {
    pub(crate) fn new(inline: bool) -> Folder {
        Folder { folder: Arc::new(tempfile::tempdir().unwrap()), inline }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("punctual.db")
    }

    fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        self.open_at(&self.path())
    }

    fn open_at(&self, path: &Path) -> Result<Arc<dyn Store>, Failure> {
        let options =
            SqliteOptions { sync: false, inline: self.inline, ..SqliteOptions::default() };
        Ok(Arc::new(Sqlite::open(path, Zones::bundled(), options)?))
    }
}

impl Place for Folder {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Failure>> {
        Box::pin(ready(self.open()))
    }

    fn end_leases(&self, _: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn path_for_copy(&self) -> Option<PathBuf> {
        Some(self.folder.path().join("copy.db"))
    }

    fn open_copy(&self) -> Result<Arc<dyn Store>, Failure> {
        self.open_at(&self.folder.path().join("copy.db"))
    }
}

#[test]
fn a_file_is_open_once() {
    let folder = Folder::new(true);
    let first = folder.open().unwrap();
    assert!(matches!(folder.open(), Err(Failure::InUse(_))));
    drop(first);
    folder.open().unwrap();
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = Folder::new(true);
    drop(folder.open().unwrap());
    let connection = Connection::open(folder.path()).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let Err(Failure::Unavailable(message)) = folder.open().map(|_| ()) else {
        panic!("it opens");
    };
    assert!(message.contains("schema version 999"), "{message}");
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = Folder::new(true);
    std::fs::write(folder.path(), "this is a text, and a long one at that ".repeat(100)).unwrap();
    let failure = folder.open().map(|_| ()).unwrap_err();
    assert!(matches!(failure, Failure::Damaged(_)), "{failure:?}");
}

/// No node that is known performs anything.
const LOST: &str = "UPDATE runs SET state = json_replace(state, '$.a[0].d.p.o', 999),
     owners = ',999,' WHERE status = 1";

/// Breaks a store by hand: it is found, and mended where that can be done.
async fn check(breach: &str, code: &str, is_mended: bool) {
    let folder = Folder::new(true);
    drop(World::busy(Box::new(folder.clone())).await);
    check_in(&folder, breach, code, is_mended).await;
}

async fn check_in(folder: &Folder, breach: &str, code: &str, is_mended: bool) {
    let connection = Connection::open(folder.path()).unwrap();
    connection.execute_batch(breach).unwrap();
    drop(connection);
    let store = folder.open().unwrap();
    let found = codes(store.check(minute(60), false).await.unwrap());
    assert!(found.contains(&(code, false)), "{breach}: {found:?}");
    let found = codes(store.check(minute(60), true).await.unwrap());
    assert!(found.contains(&(code, is_mended)), "{breach}: {found:?}");
    if is_mended {
        let left = codes(store.check(minute(60), false).await.unwrap());
        assert_eq!(left, [], "{breach}");
    }
}

#[tokio::test]
async fn each_breach_is_found_and_mended_where_it_can_be() {
    for (breach, code, is_mended) in [
        ("DELETE FROM progress", "schedule-without-progress", false),
        ("DELETE FROM wakeups WHERE kind = 1", "schedule-without-wakeup", true),
        ("UPDATE wakeups SET due = due + 1 WHERE kind = 1", "schedule-without-wakeup", true),
        (
            "UPDATE progress SET next_nominal = NULL, next_effective = NULL, live = NULL",
            "schedule-without-next-time",
            false,
        ),
        ("INSERT INTO wakeups VALUES (0, 1, 999)", "wakeup-of-nothing", true),
        ("INSERT INTO wakeups VALUES (0, 0, 999)", "wakeup-of-nothing", true),
        (LOST, "run-without-owner", true),
        ("UPDATE runs SET owners = NULL WHERE status = 1", "run-owners", true),
        ("UPDATE runs SET owners = ',999,' WHERE status = 1", "run-owners", true),
        ("DELETE FROM wakeups WHERE kind = 0", "run-without-wakeup", true),
        ("UPDATE wakeups SET due = due + 1 WHERE kind = 0", "run-without-wakeup", true),
        ("UPDATE ledger SET run = NULL", "occurrence-without-run", false),
        ("UPDATE schedule_counts SET count = 7", "counts", true),
        ("UPDATE schedule_blocks SET count = count + 1", "block-counts", true),
        ("UPDATE schedule_blocks SET block = block + 1", "block-counts", true),
        ("UPDATE workflows SET active = 7 WHERE concurrency = 2", "active-count", true),
    ] {
        check(breach, code, is_mended).await;
    }
}

#[tokio::test]
async fn each_breach_of_what_waits_is_found() {
    for (breach, code, is_mended) in crate::postgres::OF_WHAT_WAITS {
        let folder = Folder::new(true);
        let world = World::waiting(Box::new(folder.clone())).await;
        world.holds_together().await;
        drop(world);
        let breach = breach.replace("open_runs", "runs").replace("false", "0");
        check_in(&folder, &breach, code, is_mended).await;
    }
}

#[tokio::test]
async fn each_breach_of_topics_is_found() {
    for (breach, code, is_mended) in crate::broken_topics::OF_TOPICS {
        check_topical(breach, code, is_mended).await;
    }
}

/// What the embedded store has alone: wakeups, and messages beside their events.
#[tokio::test]
async fn each_breach_of_topics_in_a_file_is_found() {
    for (breach, code, is_mended) in [
        ("DELETE FROM wakeups WHERE kind = 3", "handler-without-wakeup", true),
        ("UPDATE wakeups SET due = due + 1 WHERE kind = 3", "handler-without-wakeup", true),
        ("INSERT INTO wakeups VALUES (0, 3, 999)", "wakeup-of-nothing", true),
        ("UPDATE handlers SET wake_at = NULL, retry_at = NULL", "wakeup-of-nothing", true),
        ("DELETE FROM messages", "event-without-message", false),
        ("INSERT INTO messages (event, payload) VALUES (999, '1')", "message-of-nothing", true),
    ] {
        check_topical(breach, code, is_mended).await;
    }
}

async fn check_topical(breach: &str, code: &str, is_mended: bool) {
    let folder = Folder::new(true);
    let world = World::topical(Box::new(folder.clone())).await;
    world.holds_together().await;
    drop(world);
    check_in(&folder, breach, code, is_mended).await;
}

#[tokio::test]
async fn nothing_is_left_of_runs_that_have_expired() {
    let folder = Folder::new(true);
    let world = World::waiting(Box::new(folder.clone())).await;
    crate::postgres::end_all(&world).await;
    drop(world);
    let connection = Connection::open(folder.path()).unwrap();
    for table in crate::postgres::OF_RUNS {
        let sql = format!("SELECT count(*) FROM {table}");
        let left: u64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[tokio::test]
async fn a_mended_run_goes_on() {
    let folder = Folder::new(true);
    drop(World::busy(Box::new(folder.clone())).await);
    let connection = Connection::open(folder.path()).unwrap();
    connection.execute_batch(LOST).unwrap();
    drop(connection);
    let mut world = World::new(Box::new(folder.clone())).await;
    world.store().check(minute(60), true).await.unwrap();
    world.awake_since = minute(60);
    world.settle(61).await;
    let ended = world.runs().await.iter().filter(|run| run.ends_with("succeeded")).count();
    assert_eq!(ended, 3, "{:?}", world.runs().await);
}
