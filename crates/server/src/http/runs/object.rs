//! Runs in API responses.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::run::RunError;
use engine::{RunId, WorkflowId};
use jiff::Timestamp;
use language::definition::DeadlineEnd;
use serde::Serialize;
use serde_json::value::RawValue;
use store::{AlertView, RunView};
use utoipa::ToSchema;

use super::{StepObject, WholeRun};
use crate::http::App;
use crate::http::problem::Problem;
use crate::http::shapes;
use crate::http::workflows::{AuthorVersion, MutationObject, author_version, workflow_if_readable};

/// One execution of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunObject {
    /// `sched-{schedule_id}-n{n}-rc{retry}`, or a UUID.
    pub(in crate::http) id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: String,
    /// The producer or consumer, if it is a handler's run.
    handler: Option<String>,
    /// The version that the author gave the definition.
    version: AuthorVersion,
    /// The revision of the definition, counted by the server.
    revision: u32,
    schedule_id: Option<String>,
    /// The trigger that started the run or declares its schedule.
    trigger_id: Option<String>,
    /// The number of the occurrence.
    n: Option<u64>,
    /// 0, or the number of the retry of the occurrence.
    retry: u32,
    /// `schedule`, `manual`, `retry`, `sub_process`, `deadline`, `webhook` or `event`.
    #[schema(value_type = shapes::TriggeredBy)]
    triggered_by: &'static str,
    /// Who started it, if no schedule did.
    by: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    nominal_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_at: Option<Timestamp>,
    /// `pending`, `running`, `waiting`, `suspended`, `succeeded`, `failed`, `cancelled` or
    /// `timed_out`.
    #[schema(value_type = shapes::RunStatus)]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Whether it missed its deadline.
    overdue: bool,
    #[schema(value_type = Value)]
    input: Box<RawValue>,
    #[schema(value_type = Option<Value>)]
    output: Option<Box<RawValue>>,
    #[schema(value_type = Option<shapes::RunError>)]
    error: Option<RunError>,
    /// The run that this one retries.
    retry_of: Option<String>,
    /// The run that started this one.
    parent: Option<String>,
}

/// A run with its steps.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunWithSteps {
    #[serde(flatten)]
    run: RunObject,
    /// Its position among the waiting runs, from 1, while it waits because its workflow has as many
    /// active runs as it may.
    pub(super) position: Option<u64>,
    /// Its deadline, while one applies.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// The address of the list of runs that this run has started.
    children: String,
    /// Its steps; for a handler's run, its phases.
    steps: Vec<StepObject>,
    /// The actions that its deadlines have triggered.
    alerts: Vec<AlertObject>,
    /// The mutation that a consumer's run has made, or may have made.
    mutation: Option<MutationObject>,
}

/// An action that a deadline has triggered.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct AlertObject {
    /// The step whose deadline it is; null for the run's own deadline.
    step: Option<String>,
    /// When the action was due.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    happened_at: Timestamp,
    /// The deadline itself.
    #[schema(value_type = String, format = DateTime)]
    deadline: Timestamp,
    /// `fail`, `cancel`, `complete` or `skip`.
    #[schema(value_type = Option<shapes::LateEnding>)]
    ended: Option<DeadlineEnd>,
    /// The runs that it started: messages to people, and the runs that the deadline names.
    started: Vec<String>,
    /// Why a run could not be started.
    refused: Option<String>,
}

/// The versions that authors gave, by workflow and revision.
pub(super) type Versions = HashMap<(WorkflowId, u32), AuthorVersion>;

/// The versions of the revisions that these runs use.
pub(super) async fn versions(app: &App, views: &[RunView]) -> Result<Versions, Problem> {
    let mut versions = Versions::new();
    for RunView { run, .. } in views {
        let key = (run.workflow, run.version);
        if let Entry::Vacant(unknown) = versions.entry(key) {
            let (workflow, revision) = (run.workflow.to_string(), Some(run.version));
            let view = workflow_if_readable(app, &workflow, revision).await?;
            let version = view.map(|view| author_version(view.definition.version));
            unknown.insert(version.unwrap_or_default());
        }
    }
    Ok(versions)
}

impl RunObject {
    pub(super) fn new(view: RunView, versions: &Versions) -> RunObject {
        let version = versions.get(&(view.run.workflow, view.run.version)).cloned();
        RunObject::with_version(view, version.unwrap_or_default())
    }

    fn with_version(view: RunView, version: AuthorVersion) -> RunObject {
        let RunView { run, workflow_name, parent } = view;
        let trigger_id = engine::run::trigger_of(&run);
        let (n, retry) = match run.id {
            RunId::Occurrence { n, retry, .. } => (Some(n), retry),
            RunId::Other(_) => (None, 0),
        };
        RunObject {
            id: run.id.to_string(),
            workflow_id: run.workflow.to_string(),
            workflow: workflow_name,
            handler: run.handler,
            version,
            revision: run.version,
            schedule_id: run.schedule.map(|id| id.to_string()),
            trigger_id,
            n,
            retry,
            triggered_by: run.triggered_by.name(),
            overdue: run.overdue,
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
            parent: parent.map(|id| id.to_string()),
        }
    }
}

impl RunWithSteps {
    pub(super) fn new(whole: WholeRun) -> RunWithSteps {
        let WholeRun { view, definition, steps, alerts, mutation, position } = whole;
        let version = author_version(definition.version);
        let watch = view.run.state.watches.iter().find(|watch| watch.step.is_none());
        RunWithSteps {
            position,
            deadline: watch.map(|watch| watch.due),
            children: format!("/api/v1/runs?parent={}", view.run.id),
            alerts: alerts.into_iter().map(AlertObject::from).collect(),
            mutation: mutation.map(MutationObject::from),
            run: RunObject::with_version(view, version),
            steps,
        }
    }
}

impl From<AlertView> for AlertObject {
    fn from(alert: AlertView) -> AlertObject {
        AlertObject {
            step: alert.step,
            at: alert.at,
            happened_at: alert.happened_at,
            deadline: alert.due,
            ended: alert.ended,
            started: alert.started.iter().map(ToString::to_string).collect(),
            refused: alert.refused,
        }
    }
}
