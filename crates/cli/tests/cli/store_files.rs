//! Tests of the store file under a running node: links to it, and a file that is removed.

use serde_json::json;

use crate::node::{Home, Node};
use crate::punctual;

const NOTES: &str = "name: notes\nsteps: [{id: a, type: noop}]\n";

/// Starts a second node on this path. Returns its exit code and output.
fn second(home: &Home, db: &str) -> (i32, String) {
    let mut args = home.serve_args();
    let place = args.iter().position(|arg| arg == "--db").expect("a store") + 1;
    args[place] = db.to_owned();
    let output = punctual().args(args).output().expect("the binary starts");
    let (code, _, err) = crate::finished(output);
    (code, err)
}

#[test]
fn no_other_name_leads_past_the_lock() {
    let home = Home::new().with("notes.yaml", NOTES);
    let mut node = home.serve();
    node.logged("created a new store at");
    let (symbolic, hard) = (home.path("symbolic.db"), home.path("hard.db"));
    std::os::unix::fs::symlink(home.db(), &symbolic).expect("a link");
    std::fs::hard_link(home.db(), &hard).expect("a link");
    let roundabout = home.path("definitions/../punctual.db");
    for other in [symbolic, hard.clone(), roundabout] {
        let (code, err) = second(&home, &other.display().to_string());
        assert_eq!(code, 3, "{}: {err}", other.display());
        assert!(err.contains("is in use by another process"), "{err}");
    }
    assert!(node.stop().success());
    let (code, err) = second(&home, &hard.display().to_string());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("2 names") && err.contains("try: remove the other names"), "{err}");
    std::fs::remove_file(hard).expect("it is there");
    assert!(home.serve().stop().success());
}

#[test]
fn a_node_whose_file_is_gone_acknowledges_nothing_and_stops() {
    for replaced in [false, true] {
        let home = Home::new().with("notes.yaml", NOTES);
        let mut node = home.serve();
        let start = "/api/v1/workflows/notes/runs";
        let (status, body) = node.post(start, &json!({}));
        assert!(status < 300, "{status} {body}");
        let copy = home.path("latest.db");
        let db = home.db().display().to_string();
        node.shown(&["backup", "--db", &db, &copy.display().to_string()]);
        if replaced {
            std::fs::copy(home.db(), home.path("copy.db")).expect("a copy");
            std::fs::rename(home.path("copy.db"), home.db()).expect("it is there");
        } else {
            std::fs::remove_file(home.db()).expect("it is there");
        }
        // The node may have exited before it answered.
        if let Ok((status, body)) = crate::node::post(&node.url, start, &json!({})) {
            let is_refused = status == 503 && body.contains("Nothing of this was kept");
            assert!(is_refused || (status, body.as_str()) == (0, ""), "{status} {body}");
        }
        node.logged("while it was in use");
        assert_eq!(node.wait().code(), Some(3));
        if replaced {
            continue;
        }
        // The latest copy, put in its place beside what is left of it.
        std::fs::copy(&copy, home.db()).expect("a copy");
        let (code, err) = second(&home, &home.db().display().to_string());
        assert_eq!(code, 3, "{err}");
        assert!(err.contains("the log of another file") && err.contains("try: move"), "{err}");
        std::fs::remove_file(home.path("punctual.db-wal")).expect("it is there");
        home.doctor();
        assert!(home.serve().stop().success());
    }
}

#[test]
fn a_log_without_its_database_is_refused_with_a_remedy() {
    let home = Home::new().with("notes.yaml", NOTES);
    let node: Node = home.serve();
    node.kill();
    let log = home.path("punctual.db-wal");
    let bytes = std::fs::read(&log).expect("a node that was killed leaves its log");
    std::fs::remove_file(home.db()).expect("it is there");
    let (code, err) = second(&home, &home.db().display().to_string());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("its log") && err.contains("try: put the database back"), "{err}");
    assert_eq!(std::fs::read(&log).expect("it is left alone"), bytes);
    assert!(!home.db().exists());
}
