//! The steps of a run in API responses: how they ended, and what is running.

use engine::run::{
    Activity, ActivityStatus, AttemptRecord, Item, Run, RunError, StepState, StepStatus, Watch,
};
use jiff::Timestamp;
use language::definition::{Definition, Step};
use serde::Serialize;
use serde_json::value::RawValue;
use store::StepView;
use utoipa::ToSchema;

use crate::http::shapes;

/// A step of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepObject {
    pub(crate) id: String,
    /// Its name, for people.
    pub(crate) name: Option<String>,
    /// `http`, `exec`, `timer`, …
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) depends_on: Vec<String>,
    #[serde(flatten)]
    pub(crate) part: PartObject,
    /// Its deadline, while one applies.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) deadline: Option<Timestamp>,
    /// The state of the compensation that undoes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compensation: Option<PartObject>,
    /// The state of the check whether it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reconcile: Option<PartObject>,
    /// Its items, if it runs for each item of a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<PartObject>,
}

/// A step itself, one of its items, its compensation or its check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartObject {
    /// The index of an item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    /// `pending`, `ready`, `running`, `waiting`, `completed`, `failed`, `skipped`, `cancelled`.
    #[schema(value_type = shapes::StepStatus)]
    pub(crate) status: &'static str,
    /// Why it has this status, in words.
    pub(crate) reason: Option<String>,
    pub(crate) attempts: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) ended_at: Option<Timestamp>,
    /// Whether it missed its deadline.
    pub(crate) overdue: bool,
    #[schema(value_type = Option<Value>)]
    pub(crate) output: Option<Box<RawValue>>,
    #[schema(value_type = Option<shapes::RunError>)]
    pub(crate) error: Option<RunError>,
    /// Earlier attempts, before the one described by the other fields, oldest first. For a run with
    /// more than 2,000 attempts only the first are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<AttemptObject>,
}

/// An attempt that was followed by another one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EarlierAttempt)]
pub(crate) struct AttemptObject {
    /// The number of the attempt. An attempt that was lost with its node or worker does not count:
    /// the next one has the same number. After a jump back in the run, numbers begin with 1 again.
    pub(crate) attempt: u32,
    /// `failed`, `cancelled` (it was lost, or is known not to have happened), or the status of the
    /// step before the run jumped back.
    #[schema(value_type = shapes::StepStatus)]
    pub(crate) status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) ended_at: Timestamp,
    #[schema(value_type = Option<shapes::RunError>)]
    pub(crate) error: Option<RunError>,
}

/// All steps of a run, in the order of its definition.
pub(super) fn shown(
    run: &Run,
    definition: &Definition,
    records: Vec<StepView>,
    earlier: Vec<AttemptRecord>,
) -> Vec<StepObject> {
    let mut records = records.into_iter().peekable();
    let mut earlier = earlier.into_iter().peekable();
    let steps = definition.steps.iter().zip(0_u32..);
    steps
        .map(|(step, step_index)| {
            let mut own = Vec::new();
            while let Some(record) = records.next_if(|record| record.step <= step_index) {
                own.push(record);
            }
            let mut shown = one(run, step, step_index, own);
            while let Some(attempt) = earlier.next_if(|attempt| attempt.step <= step_index) {
                shown.tried_before(attempt);
            }
            shown
        })
        .collect()
}

fn one(run: &Run, step: &Step, step_index: u32, records: Vec<StepView>) -> StepObject {
    let (mut whole, mut undoing, mut looking, mut items) = (None, None, None, Vec::new());
    for record in records {
        match record.item {
            Item::Whole => whole = Some(record),
            Item::Undoing => undoing = Some(record),
            Item::Reconciling => looking = Some(record),
            _ => items.push(record),
        }
    }
    let watch = run.state.watches.iter().find(|watch| watch.step == Some(step_index));
    let active = |item: Item| run.state.part(step_index, item);
    let beside = |item: Item, record: Option<StepView>, watch: Option<&Watch>| {
        let active = active(item);
        let is_there = active.is_some() || record.is_some();
        is_there.then(|| PartObject::new(run, active, record, watch))
    };
    let compensation = beside(Item::Undoing, undoing, watch);
    let reconcile = beside(Item::Reconciling, looking, None);
    let mut shown: Vec<PartObject> = Vec::new();
    for record in items {
        let active = active(record.item);
        shown.push(PartObject::new(run, active, Some(record.clone()), None).item(record.item));
    }
    let is_new = |active: &&Activity| {
        let index = active.item.index();
        active.step == step_index && active.item.is_nth() && !shown.iter().any(|p| p.index == index)
    };
    let new: Vec<&Activity> = run.state.active.iter().filter(is_new).collect();
    for active in new {
        shown.push(PartObject::new(run, Some(active), None, None).item(active.item));
    }
    shown.sort_unstable_by_key(|part| part.index);
    let mut part = PartObject::new(run, active(Item::Whole), whole, watch);
    if active(Item::Whole).is_none() {
        part.settle(run.state.states.of(step_index));
    }
    StepObject {
        id: step.id.clone(),
        name: step.name.clone(),
        kind: step.action.name(),
        depends_on: step.depends_on.clone(),
        part,
        deadline: watch.map(|watch| watch.due),
        compensation,
        reconcile,
        items: shown,
    }
}

impl StepObject {
    fn tried_before(&mut self, attempt: AttemptRecord) {
        let part = match attempt.item {
            Item::Whole => Some(&mut self.part),
            Item::Undoing => self.compensation.as_mut(),
            Item::Reconciling => self.reconcile.as_mut(),
            Item::Nth(index) => {
                let index = Some(index);
                // Items are sorted by index.
                let found = self.items.binary_search_by_key(&index, |part| part.index);
                found.ok().and_then(|found| self.items.get_mut(found))
            }
        };
        if let Some(part) = part {
            part.tried_before(attempt);
        }
    }
}

impl PartObject {
    fn tried_before(&mut self, attempt: AttemptRecord) {
        let own = (self.attempts, self.started_at, self.ended_at);
        // Until the next attempt begins, the part itself describes the last one.
        if own == (attempt.attempt, Some(attempt.started_at), Some(attempt.ended_at)) {
            return;
        }
        self.earlier.push(AttemptObject {
            attempt: attempt.attempt,
            status: attempt.status.name(),
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            error: attempt.error,
        });
    }

    fn new(
        run: &Run,
        active: Option<&Activity>,
        record: Option<StepView>,
        watch: Option<&Watch>,
    ) -> PartObject {
        let mut part = PartObject {
            index: None,
            status: StepStatus::Pending.name(),
            reason: None,
            attempts: 0,
            started_at: None,
            ended_at: None,
            overdue: watch.is_some_and(|watch| watch.overdue),
            output: None,
            error: None,
            earlier: Vec::new(),
        };
        if let Some(record) = record {
            part.status = record.status.name();
            part.attempts = record.attempts;
            (part.started_at, part.ended_at) = (Some(record.started_at), Some(record.ended_at));
            part.output = record.output;
            part.overdue |= record.overdue;
            let message = record.error.as_ref().map(|error| error.message.clone());
            part.reason = record.reason.or(message);
            part.error = record.error;
        }
        if let Some(active) = active {
            part.go_on(run, active);
        }
        part
    }

    fn item(mut self, item: Item) -> PartObject {
        self.index = item.index();
        self
    }

    /// Sets the status of a part that is not running. A run that has jumped back may have an older
    /// record of it.
    fn settle(&mut self, state: StepState) {
        self.status = state.status().name();
        if matches!(state, StepState::Pending) {
            (self.started_at, self.ended_at) = (None, None);
            (self.output, self.error, self.reason) = (None, None, None);
        }
    }

    /// Sets the status of a part that is running or waiting.
    fn go_on(&mut self, run: &Run, active: &Activity) {
        self.status = active.status.status().name();
        self.attempts = active.attempt;
        self.reason = Some(why(run, active)).filter(|why| !why.is_empty());
        if let Some(since) = active.status.since() {
            self.started_at = Some(since);
            (self.ended_at, self.output, self.error) = (None, None, None);
        }
    }
}

fn why(run: &Run, active: &Activity) -> String {
    if let Some(ending) = run.state.ending.as_ref().filter(|ending| ending.until.is_some()) {
        let why = ending.error.as_ref().map_or("the run ends", |error| error.message.as_str());
        return format!("told to end: {why}");
    }
    match &active.status {
        ActivityStatus::Ready if run.waits_for_slot => "it waits for a free slot".to_owned(),
        ActivityStatus::Ready => "it waits for other steps of the run to end".to_owned(),
        ActivityStatus::Performed { owner, .. } => format!("node {owner} performs it"),
        ActivityStatus::Queued { queue } => format!("it waits for a worker of queue {queue}"),
        ActivityStatus::Claimed { worker, lease_until, .. } => {
            format!(
                "worker {worker} performs it, and is heard of until {lease_until} at the latest"
            )
        }
        ActivityStatus::Retrying { at } => format!("it is tried again at {at}"),
        ActivityStatus::Timer { until, .. } => format!("it waits until {until}"),
        ActivityStatus::Asked { assignees, .. } if assignees.is_empty() => {
            "it waits for somebody to decide".to_owned()
        }
        ActivityStatus::Asked { assignees, .. } => {
            format!("it waits for {} to decide", assignees.join(" or "))
        }
        ActivityStatus::Awaiting { until: None, .. } => "it waits for an event".to_owned(),
        ActivityStatus::Awaiting { .. } => {
            let until = active.status.wake_at().map(|at| at.to_string()).unwrap_or_default();
            format!("it waits for an event, until {until}")
        }
        ActivityStatus::Child { .. } => "it waits for the run it has started".to_owned(),
        ActivityStatus::Items { count, ended, .. } => format!("{ended} of {count} items are done"),
        ActivityStatus::Unknown { .. } => {
            let error = run.error.as_ref().map(|error| error.message.clone());
            error.unwrap_or_else(|| "what became of its attempt is not known".to_owned())
        }
    }
}
