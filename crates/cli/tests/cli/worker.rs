//! Tests of `punctual worker`, and of the example workers in other languages, with a fake node.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::{finished, punctual, run};

/// A worker that is killed at the end of its test.
pub(crate) struct Worker(Option<Child>);

impl Worker {
    fn start(node: &FakeNode, options: &[&str], script: &str) -> Worker {
        let mut command = punctual();
        command.args(["worker", "--queue", "q"]).args(options).args(["--", "sh", "-c", script]);
        Worker::spawn(command, &node.url())
    }

    pub(crate) fn spawn(mut command: Command, url: &str) -> Worker {
        let command = command.env("PUNCTUAL_URL", url).env("MINE", "1");
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Worker(Some(command.spawn().expect("the worker starts")))
    }

    /// Starts a worker whose log goes to a file, which the test reads while the worker runs.
    fn spawn_logging(mut command: Command, url: &str, log: &Path) -> Worker {
        let log = fs::File::create(log).expect("a file");
        let command = command.env("PUNCTUAL_URL", url).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(log);
        Worker(Some(command.spawn().expect("the worker starts")))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// Waits until the worker has exited. Returns its exit code and output.
    fn ended(mut self) -> (i32, String) {
        let child = self.0.take().expect("it runs");
        let (code, out, err) = finished(child.wait_with_output().expect("it ends"));
        (code, out + &err)
    }

    /// Sends SIGINT repeatedly until the worker has exited. Two signals sent at once could arrive
    /// as one.
    fn insist(mut self) -> (i32, String) {
        for _ in 0..300 {
            if self.0.as_mut().is_some_and(|child| child.try_wait().expect("ours").is_some()) {
                return self.ended();
            }
            self.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("it goes on and on");
    }

    /// Stops the worker with SIGINT.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::INT);
        let (code, said) = self.ended();
        assert_eq!(code, 0, "{said}");
        said
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a process runs. A zombie has ended and only waits to be reaped.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Waits for the end of a process that was killed, which takes a moment.
fn is_gone(pid: &str) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs(pid)
    })
}

/// Waits until the file contains a line.
pub(crate) fn line_of(path: &Path) -> String {
    for _ in 0..3000 {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("{} was not written", path.display());
}

#[test]
fn each_attempt_is_one_run_of_the_command() {
    let node = FakeNode::start();
    let script = r#"read line; case "$line" in
        *json*) echo "{\"got\": $line}" ;;
        *environment*) echo "$PUNCTUAL_RUN $PUNCTUAL_STEP $PUNCTUAL_ATTEMPT $PUNCTUAL_IDEMPOTENCY_KEY $MINE" ;;
        *) echo "doing" >&2; echo "it is broken" >&2; exit 3 ;;
    esac"#;
    node.give("run-1", json!("json"));
    node.give("run-2", json!("environment"));
    node.give("run-3", json!("else"));
    let worker = Worker::start(&node, &["--name", "ann", "--queue", "r"], script);
    assert_eq!(node.heard("run-1", "complete"), json!({ "output": { "got": "json" } }));
    assert_eq!(node.heard("run-2", "complete"), json!({ "output": "run-2 s 2 run-2/s 1" }));
    let failure = node.heard("run-3", "fail");
    assert_eq!((&failure["code"], &failure["retryable"]), (&json!("exit_code"), &json!(true)));
    let message = failure["message"].as_str().expect("a text");
    assert!(message.contains("code 3") && message.ends_with("it is broken"), "{message}");
    let claim = json!({
        "queues": ["q", "r"], "max": 1, "worker": "ann", "lease_seconds": 30, "wait_seconds": 20,
    });
    assert_eq!(node.heard("", "claim"), claim);
    worker.stop();
}

#[test]
fn signs_of_life_come_at_a_third_of_the_lease() {
    let node = FakeNode::start();
    node.give("run-1", Value::Null);
    let worker = Worker::start(&node, &["--lease", "1"], "sleep 2");
    node.heard("run-1", "complete");
    let beats = node.heard_times("run-1", "heartbeat", 3);
    assert!(beats.len() <= 6, "{beats:?}");
    assert_eq!(beats[0], json!({ "lease_seconds": 1 }));
    worker.stop();
}

#[test]
fn a_cancel_ends_the_command_and_all_it_started() {
    let node = FakeNode::start();
    let dir = tempfile::tempdir().expect("a folder");
    let note = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", note.display());
    node.give("run-1", Value::Null);
    let worker = Worker::start(&node, &["--lease", "1"], &script);
    let pid = line_of(&note);
    assert!(runs(&pid));
    node.cancel("run-1");
    let failure = node.heard("run-1", "fail");
    assert_eq!((&failure["code"], &failure["retryable"]), (&json!("cancelled"), &json!(false)));
    assert!(is_gone(&pid));
    worker.stop();
}

#[test]
fn an_attempt_that_is_lost_is_ended_and_not_reported() {
    let node = FakeNode::start();
    let dir = tempfile::tempdir().expect("a folder");
    let note = dir.path().join("pid");
    let script =
        format!("read line; [ \"$line\" = 1 ] || exit 0; echo $$ > {}; sleep 1000", note.display());
    node.answer("heartbeat", 409);
    node.give("run-1", json!(1));
    node.give("run-2", json!(2));
    let worker = Worker::start(&node, &["--lease", "1"], &script);
    node.heard("run-2", "complete");
    assert!(is_gone(&line_of(&note)));
    let said = worker.stop();
    assert!(said.contains("is another's now"), "{said}");
    let reports = node.said().into_iter().filter(|said| said.run == "run-1");
    let verbs: Vec<_> = reports.map(|said| said.verb).collect();
    assert!(verbs.iter().all(|verb| verb == "heartbeat"), "{verbs:?}");
}

#[test]
fn reports_that_are_not_taken_hold_nobody_up() {
    let node = FakeNode::start();
    node.answer("complete", 409);
    node.answer("complete", 413);
    for run in ["late", "large", "fine"] {
        node.give(run, json!(run));
    }
    let worker = Worker::start(&node, &[], "cat");
    assert_eq!(node.heard("fine", "complete"), json!({ "output": "fine" }));
    let refused = node.heard("large", "fail");
    assert_eq!(
        (&refused["code"], &refused["retryable"]),
        (&json!("output_refused"), &json!(false))
    );
    let said = worker.stop();
    assert!(said.contains("the report came too late"), "{said}");
    assert!(!node.said().iter().any(|said| said.run == "late" && said.verb == "fail"));
}

#[test]
fn a_node_that_is_away_is_waited_for() {
    let first = FakeNode::start();
    let (port, url) = (first.port, first.url());
    let dir = tempfile::tempdir().expect("a folder");
    let [begun, go_on] = ["begun", "go_on"].map(|name| dir.path().join(name));
    let script = format!(
        "read line; echo > {}; until [ -e {} ]; do sleep 0.05; done; echo done",
        begun.display(),
        go_on.display()
    );
    drop(first);
    let mut command = punctual();
    command.args(["worker", "--queue", "q", "--", "sh", "-c", &script]);
    let log = dir.path().join("log");
    let worker = Worker::spawn_logging(command, &url, &log);
    let outages = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.matches("asking again until there is an answer").count()
    };
    crate::node::until("the worker asks again", || outages() > 0);
    let second = FakeNode::at(port);
    second.answer("claim", 503);
    second.give("run-1", json!(1));
    line_of(&begun);
    drop(second);
    let before = outages();
    fs::write(&go_on, "").expect("written");
    crate::node::until("the worker reports again", || outages() > before);
    let third = FakeNode::at(port);
    third.answer("complete", 500);
    assert_eq!(third.heard_times("run-1", "complete", 2)[1], json!({ "output": "done" }));
    worker.stop();
    let said = fs::read_to_string(&log).expect("the worker logs");
    assert!(said.contains("the node answers again"), "{said}");
}

#[test]
fn as_many_at_once_as_asked_for() {
    let node = FakeNode::start();
    let dir = tempfile::tempdir().expect("a folder");
    // Each of the two attempts waits for the other.
    let script = format!(
        "cd {}; read n; : > $n; until [ -e 1 ] && [ -e 2 ]; do sleep 0.05; done; echo $n",
        dir.path().display()
    );
    node.give("run-1", json!(1));
    node.give("run-2", json!(2));
    let worker = Worker::start(&node, &["--concurrency", "2"], &script);
    for (run, output) in [("run-1", 1), ("run-2", 2)] {
        assert_eq!(node.heard(run, "complete"), json!({ "output": output }));
    }
    worker.stop();
    assert!(node.said().iter().all(|said| said.verb != "claim" || said.body["max"] != 0));
}

#[test]
fn a_signal_lets_finish_what_goes_on() {
    let node = FakeNode::start();
    let dir = tempfile::tempdir().expect("a folder");
    let [begun, go_on] = ["begun", "go_on"].map(|name| dir.path().join(name));
    let script = format!(
        "echo $$ > {}; until [ -e {} ]; do sleep 0.05; done; echo 1",
        begun.display(),
        go_on.display()
    );
    node.give("run-1", Value::Null);
    let mut command = punctual();
    command.args(["worker", "--queue", "q", "--", "sh", "-c", &script]);
    let log = dir.path().join("log");
    let worker = Worker::spawn_logging(command, &node.url(), &log);
    line_of(&begun);
    worker.signal(Signal::TERM);
    let has_heard = || fs::read_to_string(&log).is_ok_and(|text| text.contains("finishing"));
    crate::node::until("the signal is heard", has_heard);
    node.give("run-2", Value::Null);
    fs::write(&go_on, "").expect("written");
    let (code, said) = worker.ended();
    assert_eq!(code, 0, "{said}");
    assert_eq!(node.heard("run-1", "complete"), json!({ "output": 1 }));
    assert!(!node.said().iter().any(|said| said.run == "run-2"));
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let node = FakeNode::start();
    let dir = tempfile::tempdir().expect("a folder");
    let note = dir.path().join("pid");
    node.give("run-1", Value::Null);
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait", note.display());
    let worker = Worker::start(&node, &[], &script);
    let pid = line_of(&note);
    let (code, said) = worker.insist();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("1 attempts were left undone"), "{said}");
    assert!(is_gone(&pid));
}

/// A pipe that everything a command has started holds open. It is closed when all of these
/// processes have ended.
struct Lifeline {
    folder: tempfile::TempDir,
}

impl Lifeline {
    fn new() -> Lifeline {
        let lifeline = Lifeline { folder: tempfile::tempdir().expect("a folder") };
        for fifo in ["held", "go"] {
            let made = Command::new("mkfifo").arg(lifeline.path(fifo)).status();
            assert!(made.expect("mkfifo").success());
        }
        lifeline
    }

    fn path(&self, fifo: &str) -> PathBuf {
        self.folder.path().join(fifo)
    }

    /// A script that starts a process with its own session and an empty environment, which holds
    /// the pipe, and then waits for a line.
    fn script(&self) -> String {
        let (held, go) = (self.path("held"), self.path("go"));
        let (held, go) = (held.display(), go.display());
        let escape = "setsid env -i /bin/sh -c 'echo >&3; exec /bin/sleep 1000'";
        format!("exec 3>{held}; {escape} & read line < {go}; echo done")
    }

    /// Waits until the pipe is held.
    fn held(&self) -> fs::File {
        let mut held = fs::File::open(self.path("held")).expect("a pipe");
        held.read_exact(&mut [0]).expect("a line");
        held
    }
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let (node, lifeline) = (FakeNode::start(), Lifeline::new());
    node.give("run-1", Value::Null);
    let worker = Worker::start(&node, &[], &lifeline.script());
    let mut held = lifeline.held();
    fs::write(lifeline.path("go"), "\n").expect("the command reads");
    assert_eq!(node.heard("run-1", "complete"), json!({ "output": "done" }));
    assert_eq!(held.read_to_end(&mut Vec::new()).expect("a pipe"), 0);
    worker.stop();
}

#[test]
fn a_killed_worker_leaves_nothing_running() {
    let (node, lifeline) = (FakeNode::start(), Lifeline::new());
    node.give("run-1", Value::Null);
    let worker = Worker::start(&node, &[], &lifeline.script());
    let mut held = lifeline.held();
    worker.signal(Signal::KILL);
    assert_eq!(held.read_to_end(&mut Vec::new()).expect("a pipe"), 0);
}

#[test]
fn a_node_that_refuses_is_not_asked_again() {
    for (status, expected, says) in [(401, 1, "PUNCTUAL_TOKEN"), (404, 1, "404"), (422, 1, "422")] {
        let node = FakeNode::start();
        node.answer("claim", status);
        let (code, said) = Worker::start(&node, &[], "true").ended();
        assert_eq!(code, expected, "{said}");
        assert!(said.contains(says), "{status}: {said}");
        assert_eq!(node.said().len(), 1);
    }
}

#[test]
fn a_command_that_cannot_start_fails_for_good() {
    let node = FakeNode::start();
    node.give("run-1", Value::Null);
    let mut command = punctual();
    command.args(["worker", "--queue", "q", "--", "/no/such/program"]);
    let worker = Worker::spawn(command, &node.url());
    let failure = node.heard("run-1", "fail");
    assert_eq!((&failure["code"], &failure["retryable"]), (&json!("exec_start"), &json!(false)));
    worker.stop();
}

#[test]
fn the_command_line_is_checked() {
    for args in [
        &["worker", "--", "true"] as &[_],
        &["worker", "--queue", "q"],
        &["worker", "--queue", "q", "--concurrency", "0", "--", "true"],
        &["worker", "--queue", "q", "--lease", "0", "--", "true"],
    ] {
        let (code, _, said) = run(args);
        assert_eq!(code, 2, "{args:?}: {said}");
    }
}

/// The command of an example worker; `None` if a program that it needs is not installed.
pub(crate) fn example(program: &str, file: &str) -> Option<Command> {
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if let Some(missing) = [program, "python3", "curl"].into_iter().find(|name| !is_there(name)) {
        eprintln!("skipped: {missing} is not installed");
        return None;
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workers"));
    let mut command = Command::new(program);
    command.arg(folder.join(file)).arg("q").env("PUNCTUAL_LEASE", "3").env_remove("PUNCTUAL_TOKEN");
    Some(command)
}

fn check_example(program: &str, file: &str) {
    let Some(command) = example(program, file) else { return };
    let node = FakeNode::start();
    node.answer("claim", 503);
    node.give("run-1", json!({ "text": "one two  three" }));
    node.give("run-2", json!({ "number": 7 }));
    node.give("run-3", json!({ "text": "", "seconds": 1000 }));
    let worker = Worker::spawn(command, &node.url());
    assert_eq!(node.heard("run-1", "complete"), json!({ "output": { "words": 3 } }));
    let failure = node.heard("run-2", "fail");
    assert!(failure["message"].as_str().expect("a text").contains("text"), "{failure}");
    assert_eq!(failure["retryable"], true);
    assert_eq!(node.heard("run-3", "heartbeat"), json!({ "lease_seconds": 3 }));
    node.cancel("run-3");
    node.heard("run-3", "fail");
    node.give("run-4", json!({ "text": "a b", "seconds": 3 }));
    node.heard("run-4", "heartbeat");
    worker.signal(Signal::TERM);
    let (code, said) = worker.ended();
    assert_eq!(code, 0, "{said}");
    assert_eq!(node.heard("run-4", "complete"), json!({ "output": { "words": 2 } }));
}

#[test]
fn the_example_in_python_is_a_worker() {
    check_example("python3", "worker.py");
}

#[test]
fn the_example_in_bash_is_a_worker() {
    check_example("bash", "worker.sh");
}
