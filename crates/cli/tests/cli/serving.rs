//! Tests of `punctual serve` itself: what it refuses, what it prints, how it ends; and of
//! maintaining its store.

use std::process::Stdio;

use rustix::process::Signal;

use crate::node::{Home, Node, get, until};
use crate::{finished, punctual, run};

const NOTES: &str = "name: notes\ntriggers:\n  - { id: hourly, type: schedule, every: 1h }\n\
                     steps:\n  - { id: write, type: exec, command: [echo, written] }\n";

#[test]
fn what_is_refused_before_anything_starts() {
    let home = Home::new();
    let db = home.db().display().to_string();
    for (args, code, said) in [
        (&["--listen", "0.0.0.0:0"][..], 1, "without a token everyone"),
        (&["--listen", "nowhere"], 1, "not an address"),
        (&["--listen", "127.0.0.1:99999"], 1, "not an address"),
        (&["--egress", "http://x"], 1, "egress entry `http://x`"),
        (&["--egress", "169.254.169.254"], 1, "egress entry"),
        (&["--agent", "reports"], 1, "--agent reports: write NAME=URL"),
        (&["--agent", "a=ftp://h/"], 1, "neither http:// nor https://"),
        (&["--agent", "a=http://169.254.169.254/"], 1, "is not a URL that can be posted to"),
        (&["--agent", "a=http://h/", "--agent", "a=http://i/"], 1, "a has a URL already"),
        (&["--db", "mysql://u:secret@h/x"], 1, "a store of this kind is not known"),
        (&["--db", "postgres://u:secret@127.0.0.1:1/x"], 3, "whether PostgreSQL runs there"),
        (&["--db", "postgres://u:secret@127.0.0.1:port/x"], 1, "cannot be read"),
        (&["--db", "postgres://u:se/cret@127.0.0.1:1/x"], 3, "whether PostgreSQL runs there"),
        (&["--db", "postgres://h/x", "--schema", ""], 1, "no schema is named"),
        (&["--lease", "0s"], 1, "allowed: 1s to 1h"),
        (&["--lease", "soon"], 1, "soon"),
        (&["--db", "sqlite:"], 1, "no file is named"),
        (&["--db", "/nowhere/at/all.db"], 3, "its folder has to exist"),
        (&["/nowhere/at/all"], 3, "a folder with definitions"),
        (&["--capacity", "0"], 2, "--capacity"),
        (&["--log", "xml"], 2, "--log"),
    ] {
        let mut all = vec!["serve"];
        if !args.contains(&"--db") {
            all.extend(["--db", db.as_str()]);
        }
        all.extend(args);
        let (found, out, err) = run(&all);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
        assert!(!err.contains("secret") && !err.contains("cret@"), "{args:?}: {err}");
    }
    for weak in ["sesame", "aaaaaaaaaaaaaaaaaaaaaaaa", "1234567890123456", "my-super-secret-token"]
    {
        let started = punctual().args(["serve", "--db", &db]).env("PUNCTUAL_TOKEN", weak).output();
        let (code, _, err) = finished(started.expect("the binary starts"));
        assert_eq!(code, 1, "{weak}: {err}");
        assert!(err.contains("can be guessed") && err.contains("openssl rand"), "{weak}: {err}");
        assert!(!err.contains(weak), "{err}");
    }
    let empty = punctual().args(["serve", "--db", &db]).env("PUNCTUAL_TOKEN", "").output();
    let (code, _, err) = finished(empty.expect("the binary starts"));
    assert!(code == 1 && err.contains("set and empty"), "{err}");
    let wrong_level = punctual().args(["serve", "--db", &db]).env("PUNCTUAL_LOG", "a=b=c").output();
    let (code, _, err) = finished(wrong_level.expect("the binary starts"));
    assert!(code == 1 && err.contains("PUNCTUAL_LOG=a=b=c"), "{err}");
}

#[test]
fn all_flaws_of_all_definitions() {
    let home = Home::new()
        .with("a.yaml", "name: a\nsteps: [{id: x, type: nop}]\ntriggers: [{id: t, type: schedule, cron: \"0 25 * * *\"}]\n")
        .with("b.json", "{\"name\": \"b\", \"steps\": 5}")
        .with("c.yml", NOTES)
        .with("d.yaml", NOTES)
        .with("notes.txt", "not looked at");
    let mut node = home.serve();
    for expected in [
        "a.yaml:2:23: unknown step type nop",
        "a.yaml:3:45: hour 25 is out of range",
        "b.json:1:24: expected a list, found the number 5",
        "d.yaml: workflow notes is in ",
    ] {
        let line = node.logged(expected);
        let message = line["message"].as_str().unwrap_or_default();
        assert!(message.contains("this file is passed over"), "{line}");
        assert_eq!(line["level"], "ERROR", "{line}");
    }
    // The node published the correct files of the folder all the same.
    assert_eq!(node.json(&["run", "notes", "--follow"])["status"], "succeeded");
    assert!(node.stop().success());
}

#[test]
fn a_token_opens_what_is_closed() {
    let home = Home::new().with("notes.yaml", NOTES);
    let mut command = punctual();
    command.args(home.serve_args()).env("PUNCTUAL_TOKEN", "open-sesame-and-more-of-it");
    let node = Node::start(command);
    let (code, _, err) = node.command(&["schedule", "list"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("PUNCTUAL_TOKEN=…"), "{err}");
    let opened = punctual()
        .args(["schedule", "list"])
        .env("PUNCTUAL_URL", &node.url)
        .env("PUNCTUAL_TOKEN", "open-sesame-and-more-of-it")
        .output();
    let (code, out, err) = finished(opened.expect("the binary starts"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("notes/hourly"), "{out}");
}

#[test]
fn commands_run_from_the_own_folder_only() {
    let home = Home::new().with("notes.yaml", NOTES);
    let node = home.serve();
    let run = node.json(&["run", "notes", "--follow"]);
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let other = NOTES.replace("notes", "other");
    let file = crate::file("other.yaml", &other);
    let err = node.refused(&["apply", &file]);
    assert!(err.contains("try: start the node with --allow-exec"), "{err}");
    // A definition of the same name does not become trusted.
    let changed = crate::file("changed.yaml", &NOTES.replace("written", "stolen"));
    node.refused(&["apply", &changed]);
    drop(node);
    let mut command = punctual();
    command.args(home.serve_args()).arg("--allow-exec");
    let node = Node::start(command);
    node.shown(&["apply", &file]);
    assert_eq!(node.json(&["run", "other", "--follow"])["status"], "succeeded");
    // A definition that was accepted once does not run on a node that no longer allows commands.
    drop(node);
    let node = home.serve();
    let (code, _, err) = node.command(&["run", "other", "--follow"]);
    assert_eq!(code, 1);
    assert!(err.contains("its own folder's definitions only"), "{err}");
}

#[test]
fn stopped_in_order_and_started_again() {
    let home = Home::new().with("notes.yaml", NOTES);
    let mut node = home.serve();
    let published = node.logged("published");
    assert_eq!((&published["workflow"], &published["is_new"]), (&"notes".into(), &true.into()));
    let url = node.url.clone();
    assert!(node.stop().success());
    assert!(get(&url, "/healthz").is_err());
    let mut node = home.serve();
    assert_eq!(node.logged("published")["revision"], 1, "the same definition is no new one");
    // The store is in use: neither a second node nor the doctor can open it.
    let args = home.serve_args();
    let (code, _, err) = run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("in use by another process"), "{err}");
    let (code, _, err) = run(&["doctor", "--db", &home.db().display().to_string()]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("stop it first"), "{err}");
    assert!(node.stop().success());
}

#[test]
fn a_second_signal_stops_at_once() {
    let slow = NOTES.replace("[echo, written]", "[sleep, '300']");
    let home = Home::new().with("slow.yaml", &slow);
    let mut node = home.serve();
    node.shown(&["run", "notes"]);
    node.wait_for(&["run", "list", "--status", "running"], |page| page["total"] == 1);
    node.signal(Signal::TERM);
    node.logged("stopping; again to stop at once");
    node.signal(Signal::INT);
    node.logged("stopped at once");
    assert_eq!(node.wait().code(), Some(130));
    // The command ends with the node, and the next start runs it again.
    let mut node = home.serve();
    let recovered = node.logged("recovered after downtime");
    assert_eq!(recovered["taken_over"], 1, "{recovered}");
}

#[test]
fn a_copy_is_a_store() {
    let home = Home::new().with("notes.yaml", NOTES);
    let node = home.serve();
    let run_id = node.json(&["run", "notes", "--follow"])["id"].clone();
    let copy = home.path("copy.db").display().to_string();
    let db = home.db().display().to_string();
    let (code, out, err) = run(&["backup", "--db", &db, &copy]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("a copy of"), "{out}");
    let (code, _, err) = run(&["backup", "--db", &db, &copy]);
    assert!(code == 1 && err.contains("exists already"), "{err}");
    drop(node);
    let (code, out, err) = run(&["doctor", "--db", &copy]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("everything holds together"), "{out}");
    let mut command = punctual();
    command.args(["serve", "--db", &format!("sqlite:{copy}"), "--listen", "127.0.0.1:0"]);
    let node = Node::start({
        command.args(["--log", "json"]);
        command
    });
    let run = node.json(&["run", "show", run_id.as_str().expect("an id")]);
    assert_eq!(run["status"], "succeeded");
}

#[test]
fn what_is_broken_is_found_and_mended() {
    let home = Home::new().with("notes.yaml", NOTES);
    assert!(home.serve().stop().success());
    let broken = rusqlite::Connection::open(home.db()).expect("a store");
    broken.execute("DELETE FROM wakeups", []).expect("it is broken");
    drop(broken);
    let db = home.db().display().to_string();
    let (code, out, err) = run(&["doctor", "--db", &db]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("does not wake when it should") && err.contains("doctor --repair"),
        "{out}{err}"
    );
    let (code, out, err) = run(&["doctor", "--db", &db, "--repair"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("mended"), "{out}");
    home.doctor();
    let broken = rusqlite::Connection::open(home.db()).expect("a store");
    for number in 0..25 {
        let insert = "INSERT INTO calendars (id, spec) VALUES (?1, '{')";
        broken.execute(insert, [number.to_string()]).expect("it is broken");
    }
    drop(broken);
    for repair in [&[][..], &["--repair"]] {
        let (code, out, err) = run(&[&["doctor", "--db", &db], repair].concat());
        assert!(code == 1 && out.contains("5 more of the kind"), "{out}");
        assert!(err.contains("25 findings left") && !err.contains("--repair"), "{err}");
    }
    let missing = home.path("missing.db").display().to_string();
    for args in [&["doctor", "--db", &missing][..], &["backup", "--db", &missing, "x"]] {
        let (code, _, err) = run(args);
        assert!(code == 3 && err.contains("there is no store"), "{args:?}: {err}");
    }
}

#[test]
fn the_demo_shows_something() {
    let demo = punctual().args(["demo", "--seconds", "7"]).stdin(Stdio::null()).output();
    let (code, out, err) = finished(demo.expect("the binary starts"));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for expected in [
        "A node runs at http://127.0.0.1:",
        "Open it in a browser",
        "heartbeat/pulse",
        "The next reports, New York time: ",
        "heartbeat starts",
        "flaky waits: attempt 1 of step call failed",
        "Why did slow not run at",
        "punctual explain ",
        "runs succeeded, 0 failed.",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    until("nothing is left of it", || {
        let url = out.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL");
        get(url, "/healthz").is_err()
    });
}

/// A definition that is written while the node runs goes live and may run commands. One with
/// mistakes changes nothing and is logged.
#[test]
fn a_folder_that_is_watched() {
    let home = Home::new().with("a.yaml", "name: a\nsteps: [{ id: x, type: noop }]\n");
    let mut command = punctual();
    command.args(home.serve_args()).arg("--watch");
    let mut node = Node::start(command);
    let published = |name: &str| {
        let (_, text) = node.get(&format!("/api/v1/workflows/{name}"));
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["revision"].clone()
    };
    assert_eq!(published("a"), 1);
    let write = |name: &str, text: &str| {
        std::fs::write(home.definitions().join(name), text).expect("it is written");
    };
    write("a.yaml", "name: a\nsteps: [{ id: x, type: exec, command: [echo, hello] }]\n");
    write("b.yaml", "name: b\nsteps: [{ id: x, type: noop }]\n");
    until("both are published", || published("a") == 2 && published("b") == 1);
    let (status, answer) = node.post("/api/v1/workflows/a/runs", &serde_json::json!({}));
    assert_eq!(status, 201, "{answer}");
    node.wait_for(&["run", "list"], |page| page["items"][0]["status"] == "succeeded");
    write("b.yaml", "name: b\nsteps: [{ id: x, type: nop }]\n");
    let line = node.logged("this file is passed over");
    assert!(line["message"].as_str().is_some_and(|text| text.contains("unknown step type nop")));
    let (_, text) = node.get("/api/v1/workflows/b");
    assert!(text.contains("\"revision\":1"), "{text}");
    assert!(node.stop().success());
}
