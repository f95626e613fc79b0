//! Tests of following a run: its commands' output is shown as it arrives, and traces are sent.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::node::Home;
use crate::{punctual, run};

#[test]
fn what_a_command_says_is_shown_while_it_runs() {
    let home = Home::new();
    let go = home.path("go");
    let said = format!(
        "printf 'one \\033[2J\\ntw'; while [ ! -e {} ]; do sleep 0.05; done; echo o",
        go.display()
    );
    let definition = serde_json::json!({
        "name": "talking",
        "steps": [{"id": "say", "type": "exec", "command": ["sh", "-c", said]}],
    });
    let home = home.with("talking.json", &definition.to_string());
    let node = home.serve();
    let mut following = punctual()
        .args(["run", "talking", "--follow"])
        .env("PUNCTUAL_URL", &node.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(following.stdout.take().expect("a pipe")).lines();
    let mut next = |wanted: &str| {
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(wanted)));
        found.expect("it is said").expect("text")
    };
    let line = next("| one");
    assert!(!line.contains('\u{1b}') && line.contains("\u{fffd}[2J"), "{line:?}");
    // The command waits for this file.
    std::fs::write(go, "").expect("it is written");
    assert!(next("| tw").ends_with("| two"), "a line is shown as a whole");
    next("completed");
    assert!(following.wait().expect("it ends").success());
}

#[test]
fn an_address_of_a_collector_that_is_none_is_refused() {
    let (code, _, err) = run(&["serve", "--otlp", "127.0.0.1:4318"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("--otlp: 127.0.0.1:4318: not an address"), "{err}");
    assert!(err.contains("try: http://127.0.0.1:4318"), "{err}");
}
