//! Tests of three kinds of workers with a real node.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::node::{Home, Node, post, until};
use crate::punctual;
use crate::worker::{Worker, example, line_of};

/// Each step is done by another kind of worker, and uses the output of the step before it.
const WORDS: &str = "name: words
concurrency: 100
steps:
  - { id: cli, type: worker, queue: cli, input: '{{ input.text }}' }
  - { id: py, type: worker, queue: py, depends_on: [cli], input: { text: '{{ steps.cli.output }} more' } }
  - { id: sh, type: worker, queue: sh, depends_on: [py], input: { text: '{{ steps.py.output.words }} a b' } }
";
const LONG: &str =
    "name: long\nsteps: [{ id: only, type: worker, queue: long, retry: { max: 1 } }]\n";

fn worker(node: &Node, args: &[&str], script: &str) -> Worker {
    let mut command = punctual();
    command.args(["worker"]).args(args).args(["--", "sh", "-c", script]);
    Worker::spawn(command, &node.url)
}

fn example_of(queue: &str, program: &str, file: &str, node: &Node) -> Option<Worker> {
    let known = example(program, file)?;
    let mut command = Command::new(program);
    command.args(known.get_args().take(1)).arg(queue).env_remove("PUNCTUAL_TOKEN");
    Some(Worker::spawn(command, &node.url))
}

#[test]
fn three_kinds_of_workers_do_all_there_is() {
    let home = Home::new().with("words.yaml", WORDS);
    let node = home.serve();
    let cli = worker(&node, &["--queue", "cli", "--concurrency", "2"], "sed 's/\"//g; s/-/ /g'");
    let Some(python) = example_of("py", "python3", "worker.py", &node) else { return };
    let Some(shell) = example_of("sh", "bash", "worker.sh", &node) else { return };
    let starts = (0..6).map(|_| {
        let payload = json!({ "text": "one-two-three" }).to_string();
        let run = node.json(&["run", "words", "--payload", &payload]);
        run["id"].as_str().expect("an id").to_owned()
    });
    let runs: Vec<String> = starts.collect();
    for run in &runs {
        let ended = node.wait_for(&["run", "show", run], |run| !run["ended_at"].is_null());
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let outputs: Vec<&Value> = (0..3).map(|step| &ended["steps"][step]["output"]).collect();
        let expected = [json!("one two three"), json!({ "words": 4 }), json!({ "words": 3 })];
        assert_eq!(outputs, expected.iter().collect::<Vec<_>>(), "{ended:#}");
    }
    for worker in [cli, python, shell] {
        worker.signal(Signal::KILL);
    }
}

#[test]
fn what_a_killed_worker_had_begun_another_finishes() {
    let home = Home::new().with("long.yaml", LONG);
    let node = home.serve();
    let (begun, stop) = (home.path("begun"), home.path("stop"));
    let script = format!(
        "echo $PUNCTUAL_RUN > {}; for i in $(seq 300); do [ -e {} ] && exit; sleep 0.1; done",
        begun.display(),
        stop.display()
    );
    let run = node.json(&["run", "long"])["id"].as_str().expect("an id").to_owned();
    let doomed = worker(&node, &["--queue", "long", "--lease", "1", "--name", "doomed"], &script);
    assert_eq!(line_of(&begun).trim(), run);
    doomed.signal(Signal::KILL);
    let other = worker(&node, &["--queue", "long", "--name", "other"], "echo 7");
    let ended = node.wait_for(&["run", "show", &run], |run| !run["ended_at"].is_null());
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!(7)), "{ended:#}");
    let late = json!({ "token": 1, "output": "late" });
    let path = format!("/api/v1/attempts/{run}.1/complete");
    let (status, said) = post(&node.url, &path, &late).expect("it answers");
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("too late"), "{said}");
    fs::write(stop, "").expect("written");
    assert_eq!(node.json(&["run", "show", &run])["output"], 7);
    let said = other.stop();
    assert!(said.contains("completed"), "{said}");
    until("nothing is queued", || node.get("/api/v1/queues").1 == r#"{"items":[]}"#);
    drop(doomed);
}
