//! Fires schedules of a store, one turn after the other on a single thread, for tools that count
//! instructions: `cargo run --release -p punctual-store --example fires -- FILE [SCHEDULES]`
//! creates a file whose schedules are due; the same with `once` or `twice` instead of a number
//! fires them all, with runs that end in the turn that begins them or in the next one.

#![expect(clippy::print_stdout, reason = "counts are this program's output")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use calendar::Zones;
use engine::run::AttemptEnd;
use engine::turn::{Answer, ById, Capacity, Command, Effect, NewSchedule};
use engine::{Moment, NodeId, WorkflowId};
use jiff::Timestamp;
use language::definition::{self, ReadContext};
use language::schedule::read_written;
use serde_json::value::RawValue;
use store::{CommandRequest, Queries as _, Report, Sqlite, SqliteOptions, Store, TurnRequest};
use tokio::runtime::Runtime;

type Done<T = ()> = Result<T, Box<dyn Error>>;

const WORKFLOWS: usize = 20;
/// As many as the driver claims in a turn.
const CLAIMED: usize = 1_000;
/// A time in 2026 when the schedules are created, and how many seconds later all of them are due.
const CREATED: i64 = 1_794_822_000;
const DUE: i64 = CREATED + 3_600;

fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let what = arguments.next().unwrap_or_else(|| "20000".to_owned());
    let options = SqliteOptions { sync: false, inline: true, ..SqliteOptions::default() };
    let store = Sqlite::open(Path::new(&path), Zones::bundled(), options)?;
    let runtime = Runtime::new()?;
    match what.as_str() {
        "once" => runtime.block_on(fire(&store, true)),
        "twice" => runtime.block_on(fire(&store, false)),
        count => runtime.block_on(create(&store, count.parse()?)),
    }
}

fn moment(second: i64) -> Done<Moment> {
    let now = Timestamp::from_second(second)?;
    Ok(Moment::new(now, Timestamp::from_second(CREATED)?))
}

async fn command(store: &Sqlite, command: Command) -> Done<Answer> {
    let (moment, node) = (moment(CREATED)?, NodeId(0));
    let request =
        CommandRequest { command, moment, node, idempotency: None, audit: None, traced: false };
    Ok(store.command(request).await?.answer)
}

async fn create(store: &Sqlite, count: usize) -> Done {
    let rules = store.rules();
    let now = Timestamp::from_second(CREATED)?;
    let context = ReadContext { zones: rules.zones(), now, known_calendar: &|_| None };
    let mut workflows: Vec<WorkflowId> = Vec::new();
    for number in 0..WORKFLOWS {
        let source = format!("name: nothing-{number}\nsteps:\n  - {{id: nothing, type: noop}}\n");
        let read = definition::read(&source, &context).map_err(|flaws| format!("{flaws:?}"))?;
        let definition = Arc::new(read);
        let save = Command::SaveWorkflow { source, definition, publish: true, folder: None };
        if let Answer::Workflow { id, .. } = command(store, save).await? {
            workflows.push(id);
        }
    }
    let first = Timestamp::from_second(DUE)?;
    let mut new = Vec::new();
    for number in 0..count {
        let workflow = workflows[number % WORKFLOWS];
        let text = format!(
            r#"{{"name":"backup acme {number}","workflow_id":"{workflow}","interval":"1d","anchor":"{first}","payload":{{"customer":{number}}}}}"#
        );
        let written = read_written(&text).map_err(|mistakes| format!("{mistakes:?}"))?;
        let declared = written.declared;
        new.push(NewSchedule { workflow, declared_by: None, declared });
    }
    command(store, Command::CreateSchedules(new)).await?;
    println!("{count} schedules");
    Ok(())
}

async fn fire(store: &Sqlite, ends_noops: bool) -> Done {
    let moment = moment(DUE + 1)?;
    let node = store.join("fires", moment).await?.node;
    let (mut fires, mut reports) = (0, Vec::new());
    loop {
        let request = TurnRequest {
            moment,
            node,
            reports: std::mem::take(&mut reports),
            limit: CLAIMED,
            begin: None,
            capacity: Capacity { rescan: false, ends_noops, ..Capacity::new(4 * CLAIMED) },
            held: ById::default(),
            performed: None,
            traced: false,
        };
        let turned = store.turn(request).await?;
        fires += turned.claimed;
        for effect in turned.effects {
            if let Effect::Perform(perform) = effect {
                let end = AttemptEnd::Succeeded { output: RawValue::NULL.to_owned() };
                reports.push(Report { run: perform.run, token: perform.token, end });
            }
        }
        if turned.claimed == 0 && reports.is_empty() {
            break;
        }
    }
    println!("{fires} fires");
    Ok(())
}
