//! Fills a new embedded store with what a busy week leaves behind, and asks what pages ask: `cargo
//! run --release -p punctual-store --example fill -- week.db [SCHEDULES] [RUNS]`. A file that is
//! there is only asked, and so is a PostgreSQL (`postgres://…`, filled by `punctual migrate`).
#![expect(clippy::print_stdout, reason = "times are this program's output")]
#![expect(clippy::disallowed_methods, reason = "it measures, and decides nothing")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use calendar::Zones;
use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::turn::Command;
use engine::{Moment, NodeId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::definition::{self, ReadContext};
use language::schedule::read_written;
use rusqlite::Connection;
use store::{
    CommandRequest, NotRunQuery, Postgres, PostgresOptions, Queries as _, RunQuery, ScheduleQuery,
    Sqlite, SqliteOptions, Store, WorkflowQuery,
};
use tokio::runtime::Runtime;

type Done<T = ()> = Result<T, Box<dyn Error>>;

const WORKFLOWS: u64 = 50;

fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let number = |given: Option<String>| given.map_or(Ok(1_000_000), |text| text.parse::<u64>());
    let (schedules, runs) = (number(arguments.next())?, number(arguments.next())?);
    let runtime = tokio::runtime::Runtime::new()?;
    if path.starts_with("postgres://") {
        let options = PostgresOptions::new(path);
        let store = runtime.block_on(Postgres::open(Zones::bundled(), options))?;
        return ask(&runtime, &store);
    }
    let (path, begun) = (Path::new(&path), Instant::now());
    if !path.exists() {
        declare(path)?;
        fill(path, schedules.max(10), runs.max(1))?;
        println!("filled in {:.1} s", begun.elapsed().as_secs_f64());
    }
    ask(&runtime, &open(path)?)
}

fn open(path: &Path) -> Done<Sqlite> {
    let options = SqliteOptions { sync: false, inline: true, ..SqliteOptions::default() };
    Ok(Sqlite::open(path, Zones::bundled(), options)?)
}

/// Workflows, as people declare them.
fn declare(path: &Path) -> Done {
    let store = open(path)?;
    let (rules, now) = (store.rules(), Timestamp::now());
    let known = |id: &str| rules.calendar(id).cloned();
    let context = ReadContext { zones: rules.zones(), now, known_calendar: &known };
    for number in 1..=WORKFLOWS {
        let source = format!("name: workflow-{number:02}\nsteps: [{{id: a, type: noop}}]\n");
        let read = definition::read(&source, &context).map_err(|flaws| format!("{flaws:?}"))?;
        let command = Command::SaveWorkflow {
            source,
            definition: Arc::new(read),
            publish: true,
            folder: None,
        };
        let moment = Moment::new(now, now);
        let request = CommandRequest {
            command,
            moment,
            node: NodeId(0),
            idempotency: None,
            audit: None,
            traced: false,
        };
        futures_executor::block_on(store.command(request))?;
    }
    Ok(())
}

fn fill(path: &Path, schedules: u64, runs: u64) -> Done {
    let written = read_written(r#"{"name": "NAME", "interval": "1d"}"#);
    let declared = written.map_err(|mistakes| format!("{mistakes:?}"))?.declared;
    let declared = format!("'{}'", serde_json::to_string(&declared)?.replace('\'', "''"));
    let mut sql = include_str!("fill.sql").to_owned();
    for (name, value) in [
        (":schedules", schedules.to_string()),
        (":runs", runs.to_string()),
        (":workflows", WORKFLOWS.to_string()),
        (":now", Timestamp::now().as_millisecond().to_string()),
        (":declared", declared),
    ] {
        sql = sql.replace(name, &value);
    }
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -500_000)?;
    connection.execute_batch(&format!("BEGIN; {sql} COMMIT"))?;
    Ok(())
}

/// How long each page takes, the first time and the tenth.
fn ask(runtime: &Runtime, store: &dyn Store) -> Done {
    let now = Timestamp::now();
    let ago = |hours: i64| Some(now - SignedDuration::from_hours(hours));
    let workflow = Some(WorkflowId(7));
    let runs = |query: RunQuery| runtime.block_on(store.runs(RunQuery { limit: 50, ..query }));
    let of = |status: &[RunStatus]| RunQuery { status: status.to_vec(), ..RunQuery::default() };
    let bad = [RunStatus::Failed, RunStatus::TimedOut];
    let not_run = |outcome| NotRunQuery { outcome, limit: 50, ..NotRunQuery::default() };
    let schedules = |query: ScheduleQuery| {
        runtime
            .block_on(store.schedules(ScheduleQuery { limit: 50, ..query }))
            .map(|page| page.items.len())
    };
    let search = |words: &str| Some(words.to_owned());
    let paused = || ScheduleQuery { status: Some(Status::Paused), ..ScheduleQuery::default() };
    let workflows: Vec<WorkflowId> = (1..=50).map(WorkflowId).collect();
    let counted = |runs: Result<store::Page<store::RunView>, store::Failure>| {
        runs.map(|page| page.items.len())
    };
    type Question<'a> = Box<dyn Fn() -> Result<usize, store::Failure> + 'a>;
    let questions: Vec<(&str, Question<'_>)> = vec![
        ("runs", Box::new(|| counted(runs(RunQuery::default())))),
        ("failed and timed out", Box::new(|| counted(runs(of(&bad))))),
        ("failed of a workflow", Box::new(|| counted(runs(RunQuery { workflow, ..of(&bad) })))),
        (
            "cancelled of long ago",
            Box::new(|| {
                let (since, until) = (ago(150), ago(149));
                counted(runs(RunQuery { since, until, ..of(&[RunStatus::Cancelled]) }))
            }),
        ),
        (
            "an hour of long ago",
            Box::new(|| {
                counted(runs(RunQuery { since: ago(150), until: ago(149), ..RunQuery::default() }))
            }),
        ),
        (
            "open",
            Box::new(|| {
                counted(runs(of(&[RunStatus::Running, RunStatus::Pending, RunStatus::Suspended])))
            }),
        ),
        (
            "overdue",
            Box::new(|| counted(runs(RunQuery { overdue: Some(true), ..RunQuery::default() }))),
        ),
        ("last runs", Box::new(|| Ok(runtime.block_on(store.last_runs(workflows.clone()))?.len()))),
        ("not_run", Box::new(|| Ok(runtime.block_on(store.not_run(not_run(None)))?.items.len()))),
        (
            "missed",
            Box::new(|| {
                Ok(runtime.block_on(store.not_run(not_run(Some(Outcome::Missed))))?.items.len())
            }),
        ),
        (
            "tallies of a day",
            Box::new(|| Ok(runtime.block_on(store.tallies(ago(24).unwrap_or(now), now))?.len())),
        ),
        (
            "tallies of a week",
            Box::new(|| Ok(runtime.block_on(store.tallies(ago(168).unwrap_or(now), now))?.len())),
        ),
        (
            "workflows",
            Box::new(|| {
                let query = WorkflowQuery { limit: 50, ..WorkflowQuery::default() };
                Ok(runtime.block_on(store.workflows(query))?.items.len())
            }),
        ),
        ("coming", Box::new(|| Ok(runtime.block_on(store.coming(200))?.len()))),
        ("schedules", Box::new(|| schedules(ScheduleQuery::default()))),
        ("paused of a workflow", Box::new(|| schedules(ScheduleQuery { workflow, ..paused() }))),
        (
            "paused, by a word",
            Box::new(|| schedules(ScheduleQuery { search: search("acme"), ..paused() })),
        ),
        (
            "paused of a workflow, by two words",
            Box::new(|| {
                schedules(ScheduleQuery { workflow, search: search("acme backup"), ..paused() })
            }),
        ),
        (
            "stats",
            Box::new(|| runtime.block_on(store.stats(now)).map(|stats| stats.schedules.len())),
        ),
    ];
    println!("{:>36} {:>6} {:>9} {:>9}", "", "found", "first ms", "tenth ms");
    for (name, question) in questions {
        let (mut times, mut found) = (Vec::new(), 0);
        for _ in 0..10 {
            let begun = Instant::now();
            found = question()?;
            times.push(begun.elapsed().as_secs_f64() * 1_000.0);
        }
        println!("{name:>36} {found:>6} {:>9.2} {:>9.2}", times[0], times[9]);
    }
    Ok(())
}
