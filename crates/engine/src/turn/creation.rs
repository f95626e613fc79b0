//! Runs are created: for an occurrence, a retry, or because something else asks for one.

use std::sync::Arc;

use language::definition::{DeclaredBy, Definition};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::command::{Answer, NewRun, Starter};
use super::worklist::Work;
use super::{Damaged, TransactionReader, Turn};
use crate::ids::{RunId, RunKey, ScheduleId, WorkflowId};
use crate::run::{self, Parent, Run, RunState, RunStatus, TriggeredBy};
use crate::schedule::{Numbered, Override, OverrideAction, Schedule, Start};

/// A run that a command has created and that has not begun: all that a caller is shown of it.
#[derive(Clone, Debug)]
pub struct CreatedRun {
    pub run: Run,
    pub workflow_name: String,
    /// The definition whose steps the run goes through.
    pub definition: Arc<Definition>,
    /// Whether the run's workflow has a concurrency limit: the run may have to wait for others.
    pub is_limited: bool,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// The run that a command with this answer has created. `None` if it created none, or one that
    /// more must be read to show: a handler's run, a child, or a run that goes on with an earlier
    /// one's steps.
    pub fn created_run(&self, answer: &Answer) -> Option<CreatedRun> {
        let Answer::Run(id) = answer else { return None };
        let id: RunId = id.parse().ok()?;
        // A command's run is among the last that the turn has touched.
        let mut touched = (0..self.loaded.runs.len()).rev();
        let loaded = touched.find_map(|at| {
            let loaded = self.loaded.runs.loaded(self.loaded.runs.nth(at)?)?;
            (loaded.now.id == id).then_some(loaded)
        })?;
        let run = &*loaded.now;
        let is_plain = run.handler.is_none() && run.parent.is_none() && run.retry_of.is_none();
        if !loaded.is_new || run.status != RunStatus::Pending || !is_plain {
            return None;
        }
        let workflow = self.loaded.workflows.get(run.workflow)?;
        Some(CreatedRun {
            run: run.clone(),
            workflow_name: workflow.name.clone(),
            definition: self.loaded.definitions.get(&(run.workflow, run.version))?.clone(),
            is_limited: workflow.concurrency.is_some(),
        })
    }

    /// Creates the run of an occurrence, a retry or a start by hand. It begins if it can.
    pub(super) fn create_scheduled_run(
        &mut self,
        id: ScheduleId,
        start: &Start,
        by_hand: Option<&NewRun>,
        overrides: &[Override],
    ) -> Result<(), B::Error> {
        let schedule = self.schedule(id)?;
        let workflow_id = schedule.workflow;
        let payload = match by_hand.and_then(|new| new.payload.as_deref()) {
            Some(payload) => Some(payload),
            None => payload_of(schedule, start, overrides),
        };
        let producer = schedule.producer().map(str::to_owned);
        let mut run = Run {
            key: start.run,
            id: run_id(id, start, by_hand),
            workflow: workflow_id,
            version: 0,
            handler: producer.clone(),
            schedule: Some(id),
            triggered_by: match by_hand {
                Some(new) if start.occurrence.is_none() && new.by != Starter::Publish => {
                    TriggeredBy::Manual
                }
                _ => TriggeredBy::Schedule,
            },
            by: by_hand.map(|new| new.by.name().to_owned()),
            nominal: start.occurrence.map(|(occurrence, _)| occurrence.due.nominal),
            effective: start.occurrence.map(|(occurrence, _)| occurrence.due.effective),
            status: RunStatus::Pending,
            created_at: self.context.moment.now,
            started_at: None,
            ended_at: None,
            timeout: schedule.declared.timeout(),
            input: input_of_schedule(schedule, start, payload),
            output: None,
            error: None,
            retry_of: None,
            parent: None,
            trace: by_hand.and_then(|new| new.trace),
            overdue: false,
            waits_for_slot: false,
            state: RunState {
                tries_once: schedule.declared.max_retries() > 0,
                ..RunState::default()
            },
        };
        let unlimited = schedule.declared.timeout_seconds.is_none();
        let live = self.workflow(workflow_id)?.live;
        let live = live.ok_or_else(|| {
            Damaged(format!("schedule {id} starts workflow {workflow_id}, which is not published"))
        })?;
        run.version = live;
        let definition = self.definition(workflow_id, live)?;
        let own = producer.as_deref().and_then(|name| definition.handler(name).cloned());
        let definition = own.unwrap_or(definition);
        if unlimited {
            run.timeout = definition.timeout;
        }
        run::watch_new_run(&mut run, &definition, self.context.rules);
        let key = run.key;
        self.loaded.runs.insert_new(Box::new(run));
        self.worklist.add(Work::Begin(key));
        Ok(())
    }

    /// Creates a run that no schedule asked for. It begins when the driver finds a free slot.
    pub(super) fn create_run(
        &mut self,
        new: &NewRun,
        workflow: WorkflowId,
        live: u32,
        origin: Origin,
    ) -> Result<RunKey, B::Error> {
        let definition = self.process(workflow, live, origin.handler.as_deref())?;
        let timeout = definition.timeout;
        let Origin { key, triggered_by, retry_of, schedule, input, parent, state, handler } =
            origin;
        let key = match key {
            Some(key) => key,
            None => self.reader.new_run_key(),
        };
        let mut run = Run {
            key,
            id: RunId::Other(new.id),
            workflow,
            version: live,
            handler,
            schedule,
            triggered_by,
            by: Some(new.by.name().to_owned()),
            nominal: None,
            effective: None,
            status: RunStatus::Pending,
            created_at: self.context.moment.now,
            started_at: None,
            ended_at: None,
            timeout,
            input: input.unwrap_or_else(|| input_by_hand(new)),
            output: None,
            error: None,
            retry_of,
            parent,
            trace: new.trace,
            overdue: false,
            waits_for_slot: false,
            state,
        };
        run::watch_new_run(&mut run, &definition, self.context.rules);
        self.loaded.runs.insert_new(Box::new(run));
        self.capacity.rescan = true;
        Ok(key)
    }
}

/// The origin of a run that no schedule asked for.
pub(super) struct Origin {
    pub(super) key: Option<RunKey>,
    pub(super) triggered_by: TriggeredBy,
    pub(super) retry_of: Option<RunId>,
    pub(super) schedule: Option<ScheduleId>,
    /// The run's input, if it is more than the payload.
    pub(super) input: Option<Box<RawValue>>,
    pub(super) parent: Option<Parent>,
    pub(super) state: RunState,
    /// The producer or consumer that the run belongs to.
    pub(super) handler: Option<String>,
}

impl Origin {
    /// An origin with this trigger and nothing else.
    pub(super) fn of(triggered_by: TriggeredBy) -> Origin {
        Origin {
            key: None,
            triggered_by,
            retry_of: None,
            schedule: None,
            input: None,
            parent: None,
            state: RunState::default(),
            handler: None,
        }
    }
}

fn run_id(id: ScheduleId, start: &Start, by_hand: Option<&NewRun>) -> RunId {
    match (start.occurrence, by_hand) {
        (Some((Numbered { n, .. }, retry)), _) => RunId::Occurrence { schedule: id, n, retry },
        (None, Some(new)) => RunId::Other(new.id),
        (None, None) => RunId::Other(start.run.0 as u128),
    }
}

/// The payload of the occurrence: the one an override gives it, or else the schedule's.
fn payload_of<'a>(
    schedule: &'a Schedule,
    start: &Start,
    overrides: &'a [Override],
) -> Option<&'a RawValue> {
    let nominal = start.occurrence.map(|(occurrence, _)| occurrence.due.nominal);
    let given = overrides.iter().find(|over| Some(over.nominal) == nominal);
    match given.map(|over| &over.action) {
        Some(OverrideAction::Payload(payload)) => Some(payload),
        _ => schedule.declared.payload.as_deref(),
    }
}

/// The input of a run that a schedule starts.
#[derive(Serialize)]
struct InputOfSchedule<'a> {
    payload: Option<&'a RawValue>,
    schedule_id: &'a str,
    schedule_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominal_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coalesced: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_node_id: Option<&'a str>,
}

fn input_of_schedule(
    schedule: &Schedule,
    start: &Start,
    payload: Option<&RawValue>,
) -> Box<RawValue> {
    let occurrence = start.occurrence.map(|(occurrence, _)| occurrence);
    let nominal = occurrence.map(|Numbered { due, .. }| due.nominal.to_string());
    // Mostly the same time, which need not be written twice.
    let other = occurrence.filter(|Numbered { due, .. }| due.effective != due.nominal);
    let other = other.map(|Numbered { due, .. }| due.effective.to_string());
    let input = InputOfSchedule {
        payload,
        schedule_id: &schedule.id.to_string(),
        schedule_name: &schedule.declared.name,
        n: occurrence.map(|occurrence| occurrence.n),
        retry: start.occurrence.map(|(_, retry)| retry),
        nominal_at: nominal.as_deref(),
        effective_at: other.as_deref().or(nominal.as_deref()),
        coalesced: occurrence.map(|occurrence| occurrence.merged).filter(|merged| *merged > 0),
        trigger_id: match &schedule.declared_by {
            Some(DeclaredBy::Trigger(trigger)) => Some(trigger),
            _ => None,
        },
        trigger_node_id: schedule.declared.trigger_node_id.as_deref(),
    };
    // Text, numbers and a payload that was read as JSON can be written as JSON.
    to_raw_value(&input).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn input_by_hand(new: &NewRun) -> Box<RawValue> {
    let payload = new.payload.as_deref().map_or("null", RawValue::get);
    json(format!(r#"{{"payload":{payload}}}"#))
}

fn json(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
