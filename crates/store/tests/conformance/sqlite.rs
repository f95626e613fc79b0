//! The embedded store: how the suite opens it, and tests of the file alone.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calendar::Zones;
use engine::turn::Wakeup;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use rusqlite::Connection;
use store::{Failure, Sqlite, SqliteOptions, Store};
use tempfile::TempDir;

use crate::damage;
use crate::messages::plain;
use crate::panics::reporting;
use crate::set_aside;
use crate::unreadable;
use crate::world::{Place, World, codes, failed, minute};

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

    fn execute(&self, sql: String) -> BoxFuture<'_, ()> {
        let values = [("{open}", "runs"), ("{ended}", "runs"), ("{bytes}", "x'00'")];
        let values = values.into_iter().chain([("{yes}", "1"), ("{no}", "0")]);
        let mut sql = sql;
        for (name, value) in values {
            // There is one table of runs here, so open and ended runs are told apart by their
            // status.
            sql = match (name, sql.contains(" WHERE ")) {
                ("{open}", true) => sql.replace("{open} WHERE", "runs WHERE status < 4 AND"),
                ("{ended}", true) => sql.replace("{ended} WHERE", "runs WHERE status > 3 AND"),
                _ => sql,
            };
            sql = sql.replace(name, value);
        }
        Connection::open(self.path()).unwrap().execute_batch(&sql).unwrap();
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

/// Whatever path leads to it, it is the same file.
#[test]
fn a_file_is_open_once_whatever_it_is_called() {
    let folder = Folder::new(true);
    let path = folder.path();
    let inside = path.parent().unwrap();
    let (symbolic, hard) = (inside.join("symbolic.db"), inside.join("hard.db"));
    let first = folder.open().unwrap();
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    std::fs::hard_link(&path, &hard).unwrap();
    std::fs::create_dir(inside.join("sub")).unwrap();
    for other in [&symbolic, &hard, &inside.join("sub/../punctual.db")] {
        let refused = folder.open_at(other).map(|_| ());
        assert!(matches!(refused, Err(Failure::InUse(_))), "{}: {refused:?}", other.display());
    }
    drop(first);
    // The log of one name is not seen under another.
    let Err(Failure::Unusable { what, .. }) = folder.open().map(|_| ()) else { panic!("it opens") };
    assert!(what.contains("2 names"), "{what}");
    std::fs::remove_file(hard).unwrap();
    folder.open_at(&symbolic).unwrap();
}

/// A refused attempt to open the file must not drop the locks that SQLite holds in this process:
/// another process would take itself for the last user, and delete the log.
#[tokio::test]
async fn an_attempt_to_open_it_again_leaves_its_locks() {
    let folder = Folder::new(true);
    let mut world = World::busy(Box::new(folder.clone())).await;
    assert!(matches!(folder.open(), Err(Failure::InUse(_))));
    let log = folder.path().with_file_name("punctual.db-wal");
    let db = folder.path().display().to_string();
    let other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                 c.execute('SELECT count(*) FROM runs').fetchone(); c.close()";
    let Ok(status) = std::process::Command::new("python3").args(["-c", other, &db]).status() else {
        eprintln!("not tried: there is no python3 with SQLite here");
        return;
    };
    assert!(status.success());
    assert!(log.exists(), "another process has deleted the log");
    world.awake_since = minute(60);
    world.settle(61).await;
}

#[tokio::test]
async fn what_is_stored_in_a_file_that_is_gone_is_not_acknowledged() {
    type Loss = fn(&Path);
    let losses: [(&str, Loss); 4] = [
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("moved", |path| std::fs::rename(path, path.with_extension("old")).unwrap()),
        ("replaced", |path| {
            std::fs::copy(path, path.with_extension("new")).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("log removed", |path| std::fs::remove_file(path.with_extension("db-wal")).unwrap()),
    ];
    for inline in [true, false] {
        for (name, lose) in losses {
            let folder = Folder::new(inline);
            let store = folder.open().unwrap();
            let moment = engine::Moment::new(minute(0), minute(0));
            store.join("a", moment).await.unwrap();
            lose(&folder.path());
            let failure = store.join("b", moment).await.map(|_| ()).unwrap_err();
            assert!(matches!(failure, Failure::Gone(_)), "{name}: {failure:?}");
            let why = store.gone().await;
            assert!(why.contains("while it was in use"), "{name}: {why}");
            // The failure is permanent, also when a file is there again.
            std::fs::write(folder.path(), "").unwrap();
            let failure = store.join("c", moment).await.map(|_| ()).unwrap_err();
            assert!(matches!(failure, Failure::Gone(_)), "{name}: {failure:?}");
        }
    }
}

#[test]
fn a_log_without_its_database_is_left_alone() {
    let folder = Folder::new(true);
    let log = folder.path().with_file_name("punctual.db-wal");
    std::fs::write(&log, "all that is left").unwrap();
    for is_empty in [false, true] {
        if is_empty {
            std::fs::write(folder.path(), "").unwrap();
        }
        let Err(Failure::Unusable { what, remedy }) = folder.open().map(|_| ()) else {
            panic!("it opens")
        };
        assert!(what.contains("punctual.db-wal"), "{what}");
        assert!(remedy.contains(".kept"), "{remedy}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "all that is left");
        assert_eq!(folder.path().exists(), is_empty, "nothing is made");
    }
    std::fs::remove_file(log).unwrap();
    folder.open().unwrap();
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = Folder::new(true);
    drop(folder.open().unwrap());
    let connection = Connection::open(folder.path()).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let Err(Failure::Unusable { what, remedy }) = folder.open().map(|_| ()) else {
        panic!("it opens");
    };
    assert!(what.contains("newer version") && what.contains("schema version 999"), "{what}");
    assert!(remedy.contains("the version of punctual that used it last"), "{remedy}");
}

#[test]
fn tables_without_a_schema_version_are_refused_and_left_alone() {
    let folder = Folder::new(true);
    drop(folder.open().unwrap());
    let connection = Connection::open(folder.path()).unwrap();
    connection.pragma_update(None, "user_version", 0).unwrap();
    let Err(Failure::Unusable { what, remedy }) = folder.open().map(|_| ()) else {
        panic!("it opens");
    };
    assert!(what.contains("schema version is 0") && !what.contains("CREATE"), "{what}");
    assert!(remedy.contains("PRAGMA user_version = 1"), "{remedy}");
    connection.pragma_update(None, "user_version", 1).unwrap();
    drop(connection);
    folder.open().unwrap();
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = Folder::new(true);
    std::fs::write(folder.path(), "this is a text, and a long one at that ".repeat(100)).unwrap();
    let failure = folder.open().map(|_| ()).unwrap_err();
    assert!(matches!(failure, Failure::Damaged(_)), "{failure:?}");
}

/// Makes all attempts those of a node that does not exist.
const LOST: &str = "UPDATE runs SET state = json_replace(state, '$.a[0].d.p.o', 999),
     owners = ',999,' WHERE status = 1";

/// Damages a store by hand: the damage is found, and mended where that is possible.
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
        // Other findings of the same damage that cannot be mended are still reported.
        let left = codes(store.check(minute(60), false).await.unwrap());
        assert!(left.iter().all(|(left, _)| *left != code), "{breach}: {left:?}");
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
            true,
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

fn folder() -> Box<dyn Place> {
    Box::new(Folder::new(true))
}

#[tokio::test]
async fn damage_of_progress_is_found_and_mended() {
    damage::each(&damage::DAMAGES[..21], folder).await;
}

#[tokio::test]
async fn damage_of_history_is_found() {
    damage::each(&damage::DAMAGES[21..37], folder).await;
}

#[tokio::test]
async fn lost_topics_leave_no_events_to_others() {
    damage::lost_topics_leave_no_events_to_others(folder()).await;
}

#[tokio::test]
async fn damage_of_what_is_read_is_found() {
    damage::each(&damage::DAMAGES[37..], folder).await;
}

/// Inserts the same run twice, without the index that prevents it.
const TWICE: &str = "DROP INDEX runs_by_occurrence;
    CREATE TABLE copied AS SELECT * FROM runs WHERE n = 1; UPDATE copied SET key = key + 1000;
    INSERT INTO runs SELECT * FROM copied; DROP TABLE copied";
/// Makes an index that has fewer entries than its table has rows.
const OUT_OF_STEP: &str =
    "CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'runs_by_workflow';
    PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'runs_by_workflow';
    PRAGMA writable_schema = RESET; UPDATE steps SET run = run + 500 WHERE run IN (SELECT key FROM runs WHERE n IS NULL);
    UPDATE runs SET workflow = 1, key = key + 500 WHERE n IS NULL;
    PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept;
    PRAGMA writable_schema = RESET; DROP TABLE kept";

#[tokio::test]
async fn damage_of_a_file_is_found() {
    use damage::{Clean, History, Told, Waiting, damage, history};
    let damages = [
        history("DROP INDEX runs_by_occurrence", "schema", Clean),
        history("DROP INDEX runs_open", "schema", Clean),
        history(
            "DROP INDEX runs_by_uuid; CREATE INDEX runs_by_uuid ON runs (key)",
            "schema",
            Clean,
        ),
        damage(History, TWICE, "occurrence-with-two-runs", Told),
        damage(History, TWICE, "schema", Told),
        damage(
            History,
            "CREATE TRIGGER t AFTER INSERT ON runs BEGIN SELECT 1; END",
            "schema",
            Told,
        ),
        history(OUT_OF_STEP, "file", Clean),
        history("DELETE FROM steps", "steps-gone", Told),
        history("DELETE FROM steps WHERE run = (SELECT min(run) FROM steps)", "steps-gone", Told),
        damage(Waiting, "UPDATE approvals SET title = x'fffe'", "approval-unreadable", Told),
        damage(Waiting, "UPDATE approvals SET asked_at = 'then'", "approval-unreadable", Told),
        history("UPDATE tallies SET count = 'many'", "tally", Clean),
        history("UPDATE tallies SET minute = 'min' || minute", "tally", Clean),
        history("UPDATE steps SET status = 99", "step-unreadable", Told),
        history("UPDATE steps SET output = 'x{'", "step-unreadable", Told),
        history(
            "INSERT INTO audit (at, who, action, target) VALUES (0, CAST(x'ff' AS TEXT), 'a', 't')",
            "audit-unreadable",
            Told,
        ),
        history("DELETE FROM wakeups", "schedule-without-wakeup", Clean),
        history(
            "UPDATE wakeups SET due = due + 1 WHERE kind = 1",
            "schedule-without-wakeup",
            Clean,
        ),
        history("INSERT INTO wakeups VALUES (0, 2, 999)", "wakeup-of-nothing", Clean),
        history("INSERT INTO wakeups VALUES (1, 77, 5)", "wakeup-of-nothing", Clean),
        history("INSERT INTO wakeups VALUES (1, -1, 5)", "wakeup-of-nothing", Clean),
    ];
    damage::each(&damages, folder).await;
    damage::an_occurrence_with_two_runs_counts_once(TWICE, folder()).await;
}

/// A driver takes turns while something is due: a wakeup that stays would keep it busy for ever.
#[tokio::test]
async fn a_wakeup_of_nothing_is_removed_by_the_turn_that_meets_it() {
    for (kind, id) in [("77", "5"), ("-1", "5"), ("2", "999"), ("2", "(SELECT max(id) FROM nodes)")]
    {
        let world = World::busy(Box::new(Folder::new(true))).await;
        world.settle(60).await;
        let sql = format!("INSERT INTO wakeups VALUES (1, {kind}, {id})");
        world.place().execute(sql).await;
        let turned = world.turn(61).await;
        let next = turned.next_wakeup.unwrap();
        assert!(next > minute(61), "{kind}, {id}: due again at {next}");
    }
}

#[tokio::test]
async fn a_schedule_without_its_next_time_goes_on_when_it_wakes() {
    let mut world = World::new(folder()).await;
    let workflow = world.workflow("w").await;
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#).await;
    world.settle(60).await;
    world.close();
    let sql = "UPDATE progress SET next_nominal = NULL, next_effective = NULL";
    world.place().execute(sql.to_owned()).await;
    world.join(110).await;
    world.settle(120).await;
    assert_eq!(world.seen(id).await.status, engine::schedule::Status::Active);
    assert_eq!(world.ledger(id).await, ["0 started 60", "1 started 120"]);
}

/// With more due wakeups than one turn claims, a turn claims the latest one too, and later turns
/// claim all others.
#[tokio::test]
async fn what_falls_due_during_a_flood_does_not_wait_for_its_end() {
    let world = World::new(Box::new(Folder::new(true))).await;
    let workflow = world.workflow("w").await;
    let once = |minutes: i64| format!(r#"{{"name": "s", "at": "{}"}}"#, minute(minutes));
    let mut flood = Vec::new();
    for _ in 0..50 {
        flood.push(world.schedule(workflow, &once(1)).await);
    }
    let fresh = world.schedule(workflow, &once(5)).await;
    world.try_turn(5, Vec::new(), 10, engine::turn::Capacity::new(1_000)).await;
    assert_eq!(world.ledger(fresh).await.len(), 1, "the latest");
    let mut decided = 0;
    for id in &flood {
        decided += world.ledger(*id).await.len();
    }
    assert_eq!(decided, 9, "the rest of the turn");
    for _ in 0..6 {
        world.try_turn(5, Vec::new(), 10, engine::turn::Capacity::new(1_000)).await;
    }
    for id in flood {
        assert_eq!(world.ledger(id).await.len(), 1);
    }
}

#[tokio::test]
async fn a_store_without_the_index_behind_exactly_once_is_refused() {
    damage::nobody_joins_without("runs_by_occurrence", folder()).await;
}

/// Bytes are flipped anywhere: what can be read is checked, and the check does not fail on what
/// cannot.
#[tokio::test]
async fn flipped_bytes_are_found() {
    let folder = Folder::new(true);
    let mut world = World::waiting(Box::new(folder.clone())).await;
    world.close();
    let whole = std::fs::read(folder.path()).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20, "{pages}");
    let mut found = 0;
    for page in 1..pages {
        let mut flipped = whole.clone();
        // The header of a page says how to read the rest.
        for byte in &mut flipped[page * 4096..page * 4096 + 16] {
            *byte ^= 0x55;
        }
        std::fs::write(folder.path(), &flipped).unwrap();
        let findings = match folder.open() {
            Ok(store) => {
                store.check(minute(60), true).await.unwrap();
                store.check(minute(60), false).await.unwrap()
            }
            Err(Failure::Damaged(_)) => store::check_damaged_file(&folder.path()),
            Err(other) => panic!("page {page}: {other:?}"),
        };
        found += usize::from(!findings.is_empty());
    }
    // Free pages and pointer map pages may hold anything.
    assert!(found + 3 >= pages - 1, "{found} of {pages}");
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

/// Makes the id of one pending event unreadable.
const ID_OF_PENDING: &str = "UPDATE events SET message_id = x'ff00'
    WHERE key = (SELECT min(key) FROM events WHERE state = 0)";

#[tokio::test]
async fn an_event_of_other_types_is_passed_over() {
    for damage in ["message_id = x'ff00'", "attempt = 'q'", "created_at = 'soon'"] {
        let mut world = World::new(folder()).await;
        world.deploy(0, crate::messages::plain("w")).await;
        world.tell(1, "t", &["a", "b"]).await;
        world.close();
        let sql = format!("UPDATE events SET {damage} WHERE message_id = 'a'");
        world.place().execute(sql).await;
        world.join(2).await;
        world.consume(3, &["b"]).await;
        assert_eq!(world.events("t").await, ["b consumed 0"], "{damage}");
        world.store().check(minute(4), true).await.unwrap();
        assert_eq!(world.store().check(minute(4), false).await.unwrap(), [], "{damage}");
        assert_eq!(world.events("t").await.len(), 2, "{damage}");
    }
}

#[tokio::test]
async fn an_approval_of_other_types_can_be_decided() {
    for damage in ["title = x'fffe'", "description = x'fffe'", "asked_at = 'then'"] {
        let world = World::new(folder()).await;
        let sql = format!("UPDATE approvals SET {damage}");
        crate::processes::can_be_decided(world, &sql).await;
    }
}

/// Tables of the embedded store alone: wakeups, and messages beside their events.
#[tokio::test]
async fn each_breach_of_topics_in_a_file_is_found() {
    for (breach, code, is_mended) in [
        ("DELETE FROM wakeups WHERE kind = 3", "handler-without-wakeup", true),
        ("UPDATE wakeups SET due = due + 1 WHERE kind = 3", "handler-without-wakeup", true),
        ("INSERT INTO wakeups VALUES (0, 3, 999)", "wakeup-of-nothing", true),
        ("UPDATE handlers SET wake_at = NULL, retry_at = NULL", "wakeup-of-nothing", true),
        ("DELETE FROM messages", "event-without-message", false),
        ("UPDATE events SET attempt = 'q' WHERE state = 0", "event-numbers", true),
        ("UPDATE events SET attempt = 'q' WHERE state = 2", "event-numbers", true),
        ("UPDATE events SET created_at = 'soon' WHERE state = 0", "event-numbers", true),
        ("UPDATE events SET created_at = 'soon' WHERE state = 0", "event-unreadable", false),
        (ID_OF_PENDING, "event-unreadable", false),
        (ID_OF_PENDING, "event-id", true),
        ("UPDATE events SET message_id = x'ff00' WHERE state = 2", "event-id", true),
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

/// The count of an event's attempts overflows when its consumer's run fails. PostgreSQL's column
/// has no room for such a count.
#[tokio::test]
async fn a_consumer_that_panics_when_its_run_ends_is_told_apart() {
    let mut world = World::new(Box::new(Folder::new(true))).await;
    world.deploy(0, plain("w")).await;
    world.tell(0, "t", &["a"]).await;
    set_aside::damage(&mut world, 1, "UPDATE events SET attempt = 4294967295").await;
    let mutation = world.up_to_mutation(1, &["a"]).await;
    let turn = || world.store().turn(reporting(&world, 2, vec![failed(&mutation)]));
    let Err(Failure::Undecidable { what: Some(what), why }) = turn().await else {
        panic!("decided");
    };
    assert_eq!(what, Wakeup::Run(mutation.run), "the consumer itself can be decided");
    world.store().set_aside(what, &why, minute(2)).await.unwrap();
    assert_eq!(turn().await.unwrap().refused, 1);
}

#[tokio::test]
async fn an_unreadable_value_stops_nothing_else() {
    unreadable::each(|| Box::new(Folder::new(false)), true).await;
}
