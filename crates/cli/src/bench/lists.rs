//! Measures listing, filtering and searching among many schedules.

use engine::WorkflowId;
use engine::schedule::Status;
use hdrhistogram::Histogram;
use server::Stopwatch;
use store::{Cursor, ScheduleQuery, Store};

use super::schedules;
use crate::failure::Failure;

/// Schedules on one page.
const PAGE: usize = 50;

/// How long queries of one kind took, in microseconds.
pub(super) struct QueryTimes {
    pub(super) kind: &'static str,
    pub(super) took: Histogram<u64>,
}

/// Sends `queries` queries of each kind, each with other parameters.
pub(super) async fn ask(
    store: &dyn Store,
    queries: u32,
    most: u64,
    workflows: &[WorkflowId],
) -> Result<Vec<QueryTimes>, Failure> {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    for (kind, make) in KINDS {
        let mut took = Histogram::new_with_bounds(1, 3_600_000_000, 3)
            .map_err(|error| Failure::Environment(error.to_string()))?;
        for _ in 0..queries {
            let query = ScheduleQuery { limit: PAGE, ..make(&mut chance, most, workflows) };
            let watch = Stopwatch::start();
            store.schedules(query).await?;
            took.saturating_record(watch.elapsed().as_micros() as u64);
        }
        all.push(QueryTimes { kind, took });
    }
    Ok(all)
}

type Make = fn(&mut Chance, u64, &[WorkflowId]) -> ScheduleQuery;

const KINDS: [(&str, Make); 8] = [
    ("a page by cursor", |chance, most, _| after(chance.below(most))),
    ("a page by offset", |chance, most, _| offset(chance.below(most))),
    ("with a status", |chance, most, _| ScheduleQuery {
        status: Some(Status::ALL[chance.below(4) as usize]),
        ..after(chance.below(most))
    }),
    ("with a status, by offset", |chance, most, _| ScheduleQuery {
        status: Some(Status::Active),
        ..offset(chance.below(most))
    }),
    ("of a workflow", |chance, most, workflows| ScheduleQuery {
        workflow: Some(workflows[chance.below(workflows.len() as u64) as usize]),
        ..offset(chance.below(most / workflows.len() as u64))
    }),
    ("search for a number", |chance, most, _| search(chance.below(most).to_string())),
    ("search for a word", |chance, most, _| {
        let name = schedules::name(chance.below(most));
        search(name.split(' ').next().unwrap_or("").to_owned())
    }),
    ("search for a whole name", |chance, most, _| search(schedules::name(chance.below(most)))),
];

fn after(number: u64) -> ScheduleQuery {
    ScheduleQuery { after: Some(Cursor::Number(number as i64)), ..ScheduleQuery::default() }
}

fn offset(offset: u64) -> ScheduleQuery {
    ScheduleQuery { offset, ..ScheduleQuery::default() }
}

fn search(words: String) -> ScheduleQuery {
    ScheduleQuery { search: Some(words), ..ScheduleQuery::default() }
}

/// Pseudo-random numbers that are the same in every measurement (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}
