//! A run as it is shown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::run::{Run, RunError, RunStatus, StepStatus};
use engine::{RunId, WorkflowId};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use store::{RunDetail, RunView, StepView};
use utoipa::ToSchema;

use crate::http::App;
use crate::http::problem::Problem;
use crate::http::workflows::{AuthorVersion, author_version};

/// One execution of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunObject {
    /// `sched-{schedule_id}-n{n}-rc{retry}`, or a UUID.
    pub(in crate::http) id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: String,
    /// The version that its author gave the definition.
    #[schema(value_type = String)]
    version: AuthorVersion,
    /// The revision of the definition, as it is counted here.
    revision: u32,
    schedule_id: Option<String>,
    /// The occurrence's number.
    n: Option<u64>,
    /// 0, or which retry of the occurrence.
    retry: u32,
    /// `schedule`, `manual` or `retry`.
    triggered_by: &'static str,
    /// Who started it, if it was started by hand.
    by: Option<String>,
    #[schema(value_type = Option<String>)]
    nominal_at: Option<Timestamp>,
    #[schema(value_type = Option<String>)]
    effective_at: Option<Timestamp>,
    /// `pending`, `running`, `waiting`, `suspended`, `succeeded`, `failed`, `cancelled`, `timed_out`.
    status: &'static str,
    #[schema(value_type = String)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>)]
    ended_at: Option<Timestamp>,
    /// Whether it goes on although its time is up.
    overdue: bool,
    #[schema(value_type = Object)]
    input: Box<RawValue>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    #[schema(value_type = Option<Object>)]
    error: Option<RunError>,
    /// The run that this one tries again.
    retry_of: Option<String>,
}

/// A run with its steps.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunWithSteps {
    #[serde(flatten)]
    run: RunObject,
    steps: Vec<StepObject>,
}

/// A step of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct StepObject {
    id: String,
    /// What it is called, for people.
    name: Option<String>,
    /// `http`, `exec` or `noop`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// `pending`, `running`, `waiting`, `suspended`, `completed`, `failed`, `skipped`, `cancelled`.
    status: &'static str,
    /// Why it stands there, in words.
    reason: Option<String>,
    attempts: u32,
    #[schema(value_type = Option<String>)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>)]
    ended_at: Option<Timestamp>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    #[schema(value_type = Option<Object>)]
    error: Option<RunError>,
}

/// The versions that authors gave, by workflow and revision.
pub(super) type Versions = HashMap<(WorkflowId, u32), AuthorVersion>;

/// The versions of the revisions that these runs use.
pub(super) async fn versions(app: &App, views: &[RunView]) -> Result<Versions, Problem> {
    let mut versions = Versions::new();
    for RunView { run, .. } in views {
        let key = (run.workflow, run.version);
        if let Entry::Vacant(unknown) = versions.entry(key) {
            let view = app.store().workflow(&run.workflow.to_string(), Some(run.version)).await?;
            let version = view.map(|view| author_version(view.definition.version));
            unknown.insert(version.unwrap_or_default());
        }
    }
    Ok(versions)
}

impl RunObject {
    pub(super) fn new(view: RunView, versions: &Versions, now: Timestamp) -> RunObject {
        let version = versions.get(&(view.run.workflow, view.run.version)).cloned();
        RunObject::with_version(view, version.unwrap_or_default(), now)
    }

    fn with_version(view: RunView, version: AuthorVersion, now: Timestamp) -> RunObject {
        let RunView { run, workflow_name } = view;
        let (n, retry) = match run.id {
            RunId::Occurrence { n, retry, .. } => (Some(n), retry),
            RunId::Other(_) => (None, 0),
        };
        RunObject {
            id: run.id.to_string(),
            workflow_id: run.workflow.to_string(),
            workflow: workflow_name,
            version,
            revision: run.version,
            schedule_id: run.schedule.map(|id| id.to_string()),
            n,
            retry,
            triggered_by: run.triggered_by.name(),
            overdue: is_overdue(&run, now),
            by: run.by,
            nominal_at: run.nominal,
            effective_at: run.effective,
            status: run.status.name(),
            created_at: run.created_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
            input: run.input,
            output: run.output,
            error: run.error,
            retry_of: run.retry_of.map(|id| id.to_string()),
        }
    }
}

fn is_overdue(run: &Run, now: Timestamp) -> bool {
    let limit = run.started_at.and_then(|at| at.checked_add(run.timeout).ok());
    !run.status.has_ended() && limit.is_some_and(|limit| limit < now)
}

impl RunWithSteps {
    pub(super) fn new(detail: RunDetail, now: Timestamp) -> RunWithSteps {
        let RunDetail { view, definition, steps } = detail;
        let mut records: HashMap<u32, StepView> =
            steps.into_iter().map(|record| (record.step, record)).collect();
        let steps = definition.steps.iter().zip(0..);
        let steps = steps.map(|(step, place)| {
            let standing = Standing::new(&view.run, place, records.remove(&place));
            standing.shown(step, &view.run)
        });
        let steps = steps.collect();
        let version = author_version(definition.version);
        RunWithSteps { run: RunObject::with_version(view, version, now), steps }
    }
}

/// Where a step of a run stands.
enum Standing {
    /// The run is at it.
    Current(Option<StepView>),
    /// It has ended.
    Ended(StepView),
    /// The run that this one tries again has done it.
    DoneBefore,
    /// It has not been reached.
    Ahead,
}

impl Standing {
    fn new(run: &Run, place: u32, record: Option<StepView>) -> Standing {
        let is_current = place == run.position.step && !run.status.has_ended();
        match record {
            record if is_current && run.status != RunStatus::Pending => Standing::Current(record),
            Some(record) => Standing::Ended(record),
            None if place < run.position.step => Standing::DoneBefore,
            None => Standing::Ahead,
        }
    }

    fn shown(self, step: &engine::definition::Step, run: &Run) -> StepObject {
        let mut object = StepObject {
            id: step.id.clone(),
            name: step.name.clone(),
            kind: step.action.name(),
            status: "pending",
            reason: None,
            attempts: 0,
            started_at: None,
            ended_at: None,
            output: None,
            error: None,
        };
        match self {
            Standing::Ahead => {}
            Standing::DoneBefore => {
                object.status = StepStatus::Skipped.name();
                let before = run.retry_of.as_ref();
                object.reason =
                    before.map(|run| format!("done by run {run}, which is tried again"));
            }
            Standing::Ended(record) => object.fill(record),
            Standing::Current(record) => {
                if let Some(record) = record {
                    object.fill(record);
                }
                object.go_on(run);
            }
        }
        object
    }
}

impl StepObject {
    fn fill(&mut self, record: StepView) {
        self.status = record.status.name();
        self.attempts = record.attempts;
        (self.started_at, self.ended_at) = (Some(record.started_at), Some(record.ended_at));
        self.output = record.output;
        self.reason = record.error.as_ref().map(|error| error.message.clone());
        self.error = record.error;
    }

    /// An attempt is going on, or is waited for.
    fn go_on(&mut self, run: &Run) {
        let position = &run.position;
        self.status = run.status.name();
        self.attempts = position.attempt;
        self.started_at = position.since;
        self.reason = match (run.status, position.retry_at, &position.ending) {
            (RunStatus::Waiting, Some(at), _) => Some(format!("it is tried again at {at}")),
            (RunStatus::Waiting, None, _) => Some("it waits for a free place".to_owned()),
            (RunStatus::Suspended, ..) => run.error.as_ref().map(|error| error.message.clone()),
            (_, _, Some(ending)) => Some(format!("told to end: {}", ending.message)),
            _ => None,
        };
        if run.status == RunStatus::Running {
            (self.ended_at, self.output, self.error) = (None, None, None);
        }
    }
}
