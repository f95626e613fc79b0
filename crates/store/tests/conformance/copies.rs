//! Copies of the embedded store, and logs of other files beside them.

use std::fs;
use std::path::Path;

use calendar::Zones;
use store::{
    Administration as _, Failure, Queries as _, Sqlite, SqliteOptions, Store as _, backup_file,
};

use crate::world::minute;

fn open(path: &Path) -> Result<Sqlite, Failure> {
    Sqlite::open(path, Zones::bundled(), SqliteOptions::default())
}

async fn join(store: &Sqlite, name: &str) {
    store.join(name, engine::Moment::new(minute(0), minute(0))).await.unwrap();
}

/// Copies what is on the disk while a node runs: what a crash would leave.
fn crash(from: &Path, to: &Path) {
    for ending in ["", "-wal"] {
        let beside = |path: &Path| format!("{}{ending}", path.display());
        fs::copy(beside(from), beside(to)).unwrap();
    }
}

fn refused(path: &Path) {
    let log = format!("{}-wal", path.display());
    let before = (fs::read(path).unwrap(), fs::read(&log).unwrap());
    let elsewhere = path.with_extension("elsewhere");
    let failures = [open(path).map(drop), backup_file(path, &elsewhere).map(drop)];
    for failure in failures {
        let Err(Failure::Unusable { what, remedy }) = failure else { panic!("{failure:?}") };
        assert!(what.contains(&log) && remedy.contains(&format!("mv {log}")), "{what} {remedy}");
    }
    assert!(!elsewhere.exists());
    assert!(before == (fs::read(path).unwrap(), fs::read(&log).unwrap()), "something is touched");
}

#[tokio::test]
async fn the_log_of_another_file_is_refused_beside_a_copy_and_a_crash_of_its_node_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (old, copy, new) = (path("old.db"), path("copy.db"), path("new.db"));
    let store = open(&old).unwrap();
    join(&store, "before").await;
    backup_file(&old, &copy).unwrap();
    join(&store, "after").await;
    crash(&old, &new);
    drop(store);
    // The file is lost, and the copy is put beside what is left of it.
    fs::copy(&copy, &new).unwrap();
    refused(&new);
    fs::rename(path("new.db-wal"), path("log.kept")).unwrap();
    // Looking at the copy leaves it a copy.
    let looked_at = open(&new).unwrap();
    assert_eq!(looked_at.check(minute(0), false).await.unwrap(), []);
    looked_at.close_unused(&new).unwrap();
    assert!(!path("new.db-wal").exists());
    fs::copy(path("log.kept"), path("new.db-wal")).unwrap();
    refused(&new);
    fs::remove_file(path("new.db-wal")).unwrap();
    // A node that starts on the copy, crashes and starts again keeps what it has stored.
    let store = open(&new).unwrap();
    let again = path("again.db");
    crash(&new, &again);
    join(&store, "restored").await;
    let later = path("later.db");
    crash(&new, &later);
    drop(store);
    drop(open(&again).unwrap());
    let store = open(&later).unwrap();
    let names: Vec<String> =
        store.nodes().await.unwrap().into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["restored"]);
}
