//! A node that is killed at any moment, suspended, or out of disk space: nothing is lost, and
//! nothing happens twice.
//!
//! The sizes here are for everyday test runs; `cargo xtask crash` sets `PUNCTUAL_CRASH=full`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::Duration;

use calendar::Zones;
use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::{RunId, ScheduleId};
use rustix::process::Signal;
use store::{LedgerQuery, Queries as _, RunQuery, ScheduleQuery, Sqlite, SqliteOptions};

use crate::node::{Home, Node, processes_with, until};
use crate::punctual;

/// The size of the test.
struct Size {
    kills: u64,
    schedules: u64,
    /// The shortest interval in seconds; the longest is half as long again.
    interval: u64,
    repeats: u64,
    /// The longest time that a node runs once it is ready, in milliseconds.
    life: u64,
    /// How long a node is suspended, in seconds.
    held: u64,
}

fn size() -> Size {
    match std::env::var("PUNCTUAL_CRASH").as_deref() {
        Ok("full") => {
            Size { kills: 50, schedules: 2_000, interval: 20, repeats: 3, life: 2_000, held: 20 }
        }
        _ => Size { kills: 12, schedules: 200, interval: 2, repeats: 4, life: 1_500, held: 7 },
    }
}

/// A definition with many triggers, each with its own interval.
fn definition(name: &str, count: u64, size: &Size, step: &str) -> String {
    let mut text = format!("name: {name}\nsteps:\n  - {{ id: work, {step} }}\ntriggers:\n");
    for at in 0..count {
        let interval = size.interval + at % (size.interval / 2 + 1);
        let repeats = size.repeats;
        let _ = writeln!(
            text,
            "  - {{ id: t{at}, type: schedule, every: {interval}s, total_repeats: {repeats}, \
             catch_up: all, overlap: queue_all }}"
        );
    }
    text
}

/// A random number without a crate for it.
fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0_u8) % below
}

#[test]
fn killed_again_and_again() {
    let size = size();
    let home = Home::new();
    let lines = home.path("lines");
    // Long enough that the node can be killed in the middle of it.
    let append = format!(
        "type: exec, shell: true, command: 'sleep 0.1; echo $PUNCTUAL_RUN_ID >> {}'",
        lines.display()
    );
    let half = size.schedules / 2;
    let home = home
        .with("quick.yaml", &definition("quick", half, &size, "type: noop"))
        .with("append.yaml", &definition("append", half, &size, &append));
    for _ in 0..size.kills {
        let node = home.serve();
        // The node is killed at a random moment.
        std::thread::sleep(Duration::from_millis(random(size.life)));
        node.kill();
    }
    let node = home.serve();
    let done = "punctual_schedules{status=\"done\"}";
    until("all schedules are done", || node.figure(done) == size.schedules as f64);
    assert!(node.stop().success());
    home.doctor();
    let marker = lines.display().to_string();
    until("no command is left", || processes_with(&marker).is_empty());
    let told = std::fs::read_to_string(&lines).expect("lines");
    check_everything_ran_once(&home.db(), &size, &told);
}

/// Checks that each schedule has each of its occurrences, each with one run that succeeded, and
/// that each line was written by one of these runs.
fn check_everything_ran_once(db: &Path, size: &Size, lines: &str) {
    let mut written: HashMap<&str, u64> = HashMap::new();
    for line in lines.lines() {
        *written.entry(line).or_default() += 1;
    }
    let stored = Stored::open(db);
    let schedules = stored.schedules();
    assert_eq!(schedules.len() as u64, size.schedules);
    let mut runs = stored.runs();
    for (schedule, workflow) in schedules {
        let mut ledger = stored.ledger(schedule);
        // On a busy machine a further occurrence is due before the last run has succeeded.
        let beyond = ledger.split_off(ledger.len().min(size.repeats as usize));
        let is_skipped = |(_, outcome): &(u64, Outcome)| *outcome == Outcome::Skipped;
        assert!(beyond.iter().all(is_skipped), "schedule {schedule}: {beyond:?}");
        let numbers: Vec<u64> = ledger.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, (0..size.repeats).collect::<Vec<u64>>(), "schedule {schedule}");
        for (n, outcome) in ledger {
            assert_eq!(outcome, Outcome::Started, "schedule {schedule}, occurrence {n}");
            let id = RunId::Occurrence { schedule, n, retry: 0 };
            assert_eq!(runs.remove(&id.to_string()), Some(RunStatus::Succeeded), "run {id}");
            let lines = written.remove(&*id.to_string()).unwrap_or(0);
            // A command that was killed after its work is run again, so a run may write more than
            // one line, but never none.
            assert_eq!(lines > 0, workflow == "append", "run {id} wrote {lines} lines");
        }
    }
    assert!(runs.is_empty(), "runs of nothing: {runs:?}");
    assert!(written.is_empty(), "lines of nobody: {written:?}");
}

/// The contents of the store, read after the node has ended.
struct Stored {
    store: Sqlite,
    runtime: tokio::runtime::Runtime,
}

impl Stored {
    fn open(db: &Path) -> Stored {
        let store = Sqlite::open(db, Zones::bundled(), SqliteOptions::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Stored { store: store.expect("nobody uses it"), runtime: runtime.expect("a runtime") }
    }

    fn schedules(&self) -> Vec<(ScheduleId, String)> {
        let query = ScheduleQuery { limit: 100_000, ..ScheduleQuery::default() };
        let page = self.runtime.block_on(self.store.schedules(query)).expect("it answers");
        page.items.into_iter().map(|view| (view.schedule.id, view.workflow_name)).collect()
    }

    fn runs(&self) -> HashMap<String, RunStatus> {
        let query = RunQuery { limit: 1_000_000, ..RunQuery::default() };
        let page = self.runtime.block_on(self.store.runs(query)).expect("it answers");
        let total = page.items.len();
        let runs: HashMap<String, RunStatus> =
            page.items.into_iter().map(|view| (view.run.id.to_string(), view.run.status)).collect();
        assert_eq!(runs.len(), total, "run ids are unique");
        runs
    }

    /// The numbers and outcomes of the ledger, first to last. A row that stands for several
    /// occurrences is expanded.
    fn ledger(&self, schedule: ScheduleId) -> Vec<(u64, Outcome)> {
        let query = LedgerQuery {
            schedule,
            outcome: None,
            from: None,
            to: None,
            limit: 10_000,
            after: None,
        };
        let page = self.runtime.block_on(self.store.ledger(query)).expect("it answers");
        let rows = page.items.into_iter().rev();
        rows.flat_map(|row| {
            let (n, count, outcome) = (row.entry.n, row.entry.count, row.entry.outcome);
            (n..n + count).map(move |n| (n, outcome))
        })
        .collect()
    }
}

#[test]
fn held_and_released() {
    let text = "name: beat\nsteps: [{ id: work, type: noop }]\ntriggers:\n  \
                - { id: each, type: schedule, every: 1s, catch_up: all, overlap: queue_all }\n  \
                - { id: last, type: schedule, every: 1s, catch_up: last }\n";
    let home = Home::new().with("beat.yaml", text);
    let mut node = home.serve();
    let size = size();
    until("something runs", || node.figure("punctual_attempts_total") > 2.0);
    node.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(size.held));
    node.signal(Signal::CONT);
    let line = node.logged("was not awake");
    assert_eq!(line["level"], "WARN", "{line}");
    let before = node.figure("punctual_attempts_total");
    until("it goes on", || node.figure("punctual_attempts_total") > before + 2.0);
    node.wait_for(&["schedule", "list"], |page| {
        let schedules = page["items"].as_array().expect("a list");
        schedules.iter().all(|schedule| schedule["queued"] == 0)
    });
    assert!(node.stop().success());
    home.doctor();
    let stored = Stored::open(&home.db());
    let ledgers: Vec<_> = stored.schedules().iter().map(|(id, _)| stored.ledger(*id)).collect();
    let [each, last] = ledgers.as_slice() else { panic!("two schedules") };
    let numbers = |ledger: &[(u64, Outcome)]| ledger.iter().map(|(n, _)| *n).collect::<Vec<u64>>();
    for ledger in [each, last] {
        assert_eq!(numbers(ledger), (0..ledger.len() as u64).collect::<Vec<u64>>(), "{ledger:?}");
    }
    assert!(each.iter().all(|(_, outcome)| *outcome == Outcome::Started), "{each:?}");
    let coalesced = last.iter().filter(|(_, outcome)| *outcome == Outcome::Coalesced).count();
    assert!(coalesced as u64 >= size.held - 3, "{last:?}");
}

#[test]
fn out_of_space() {
    let size = Size { interval: 1, repeats: 0, schedules: 100, ..size() };
    let home = Home::new().with("many.yaml", &definition("many", 100, &size, "type: noop"));
    let mut limited = std::process::Command::new("sh");
    // Files may not grow beyond this number of blocks.
    let script = "ulimit -f 1400; exec \"$0\" \"$@\"";
    limited.args(["-c", script]).arg(punctual().get_program()).args(home.serve_args());
    let mut node = Node::start(limited);
    let line = node.logged("nothing can be decided");
    assert_eq!(line["level"], "ERROR", "{line}");
    until("it is not ready", || node.get("/readyz").0 == 503);
    assert_eq!(node.get("/healthz").0, 200);
    // Requests meanwhile are answered with what was not stored and what to do.
    let large = "x".repeat(60_000);
    let asked = serde_json::json!({"payload": {"text": large}});
    until("nothing more fits", || {
        let (status, body) = node.post("/api/v1/workflows/many/runs", &asked);
        assert!(status < 300 || body.contains("Nothing of this was stored. "), "{status} {body}");
        status == 503
    });
    node.kill();
    let node = home.serve();
    until("it goes on", || node.figure("punctual_attempts_total") > 100.0);
    assert_eq!(node.get("/readyz").0, 200);
    assert!(node.stop().success());
    home.doctor();
    let stored = Stored::open(&home.db());
    for (schedule, _) in stored.schedules() {
        let numbers: Vec<u64> = stored.ledger(schedule).iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<u64>>(), "{schedule}");
    }
}
