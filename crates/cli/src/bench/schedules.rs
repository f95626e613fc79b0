//! Creates schedules by the thousand, from JSON texts that are parsed as the API parses them.

use std::time::Duration;

use engine::WorkflowId;
use engine::turn::{Answer, Command, NewSchedule};
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use language::schedule::read_written;
use serde_json::value::RawValue;
use server::Stopwatch;

use super::node::Node;
use super::process;
use crate::failure::Failure;

/// Repeating schedules created in one transaction.
const BATCH: usize = 10_000;
/// A day in 2100, far from any measurement.
const FAR: i64 = 4_102_444_800;
const SECONDS_OF_FAR: u64 = 30_000_000;

/// Names as people might give them: words to search for, and a number.
const WHAT: [&str; 8] =
    ["backup", "invoice", "report", "cleanup", "reminder", "import", "export", "renewal"];
const WHOSE: [&str; 8] =
    ["acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "tyrell"];

/// The name of the schedule with this number.
pub(super) fn name(number: u64) -> String {
    let pick = |words: [&'static str; 8], by: u64| words[(number / by % 8) as usize];
    format!("{} {} {number}", pick(WHAT, 1), pick(WHOSE, 8))
}

/// The JSON of a schedule.
fn one(number: u64, rule: &str, workflows: &[WorkflowId]) -> String {
    let workflow = workflows[(number % workflows.len() as u64) as usize];
    format!(
        r#"{{"name":"{}","workflow_id":"{workflow}",{rule},"payload":{{"customer":{number}}}}}"#,
        name(number)
    )
}

/// The JSON list of schedules that are due daily, each for the first time at its time in `due`.
fn text(from: u64, due: &[Timestamp], workflows: &[WorkflowId]) -> String {
    let daily = |(number, at): (u64, &Timestamp)| {
        one(number, &format!(r#""interval":"1d","anchor":"{at}""#), workflows)
    };
    format!("[{}]", (from..).zip(due).map(daily).collect::<Vec<_>>().join(","))
}

/// Parses the text and creates the schedules in one transaction.
async fn create(node: &Node, text: &str) -> Result<Created, Failure> {
    let (watch, cpu) = (Stopwatch::start(), process::cpu_time()?);
    let broken = |error: serde_json::Error| Failure::Environment(error.to_string());
    let written: Vec<&RawValue> = serde_json::from_str(text).map_err(broken)?;
    let mut new = Vec::with_capacity(written.len());
    for one in written {
        let written = read_written(one.get())?;
        let workflow = written.workflow.as_deref().and_then(|id| id.parse::<WorkflowId>().ok());
        let workflow = workflow.ok_or_else(|| Failure::Environment("no workflow".to_owned()))?;
        new.push(NewSchedule { workflow, declared_by: None, declared: written.declared });
    }
    match node.hub.command(Command::CreateSchedules(new), None).await?.answer {
        Answer::Created(ids) => Ok(Created {
            count: ids.len() as u64,
            took: watch.elapsed(),
            cpu: process::cpu_time()?.saturating_sub(cpu),
            longest_log: node.log_size(),
        }),
        other => Err(Failure::Environment(format!("not created: {other:?}"))),
    }
}

/// The result of creating many schedules.
#[derive(Debug, Default)]
pub(super) struct Created {
    pub(super) count: u64,
    pub(super) took: Duration,
    /// CPU time of the whole process meanwhile.
    pub(super) cpu: Duration,
    /// The largest size of the WAL after a transaction, in bytes.
    pub(super) longest_log: u64,
}

impl Created {
    fn add(&mut self, more: &Created) {
        self.count += more.count;
        self.took += more.took;
        self.cpu += more.cpu;
        self.longest_log = self.longest_log.max(more.longest_log);
    }
}

/// Creates schedules due at these times, `batch` of them in one transaction.
pub(super) async fn create_due(
    node: &Node,
    from: u64,
    due: &[Timestamp],
    workflows: &[WorkflowId],
    batch: u64,
) -> Result<Created, Failure> {
    let mut created = Created::default();
    for part in due.chunks(usize::try_from(batch).unwrap_or(usize::MAX)) {
        let text = text(from + created.count, part, workflows);
        created.add(&create(node, &text).await?);
    }
    Ok(created)
}

/// Creates schedules that fire `repeats` times each, from soon on.
pub(super) async fn create_repeating(
    node: &Node,
    from: u64,
    count: u64,
    repeats: u64,
    every: Duration,
    workflows: &[WorkflowId],
) -> Result<(), Failure> {
    let rule = format!(r#""interval":"{}ms","total_repeats":{repeats}"#, every.as_millis().max(1));
    for begin in (from..from + count).step_by(BATCH) {
        let numbers = begin..(from + count).min(begin + BATCH as u64);
        let one = |number| one(number, &rule, workflows);
        let text = format!("[{}]", numbers.map(one).collect::<Vec<_>>().join(","));
        create(node, &text).await?;
    }
    Ok(())
}

/// Creates the schedules numbered `from` up to `to`, due far in the future.
pub(super) async fn create_far(
    node: &Node,
    from: u64,
    to: u64,
    workflows: &[WorkflowId],
    batch: u64,
) -> Result<Created, Failure> {
    let mut created = Created::default();
    for (begin, due) in far_batches(from, to, batch) {
        created.add(&create_due(node, begin, &due, workflows, batch).await?);
    }
    Ok(created)
}

/// Does the same with so many clients at the same time, each of which creates one batch after
/// another. Their texts are written before.
pub(super) async fn create_far_by(
    clients: usize,
    node: &Node,
    from: u64,
    to: u64,
    workflows: &[WorkflowId],
    batch: u64,
) -> Result<Created, Failure> {
    let texts = far_batches(from, to, batch).map(|(begin, due)| text(begin, &due, workflows));
    let texts: Vec<String> = texts.collect();
    let (watch, cpu) = (Stopwatch::start(), process::cpu_time()?);
    let mut all = Created::default();
    let batches = stream::iter(texts.iter().map(|text| create(node, text)));
    let mut batches = batches.buffer_unordered(clients);
    while let Some(created) = batches.next().await {
        all.add(&created?);
    }
    // Of what several do at the same time, the sum would count each moment several times.
    (all.took, all.cpu) = (watch.elapsed(), process::cpu_time()?.saturating_sub(cpu));
    Ok(all)
}

/// The first numbers of these batches of schedules, and their due times.
fn far_batches(from: u64, to: u64, batch: u64) -> impl Iterator<Item = (u64, Vec<Timestamp>)> {
    let begins = (from..to).step_by(usize::try_from(batch).unwrap_or(usize::MAX));
    begins.map(move |begin| (begin, (begin..to.min(begin + batch)).map(far).collect()))
}

/// A due time of the distant year. Times are scattered, so that neighbours by id are not neighbours
/// by time.
fn far(number: u64) -> Timestamp {
    let second = FAR + (number.wrapping_mul(2_654_435_761) % SECONDS_OF_FAR) as i64;
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}
