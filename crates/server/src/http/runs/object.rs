//! A run as it is shown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::run::RunError;
use engine::{RunId, WorkflowId, notices};
use jiff::Timestamp;
use language::definition::DeadlineEnd;
use serde::Serialize;
use serde_json::value::RawValue;
use store::{AlertView, RunView};
use utoipa::ToSchema;

use super::{StepObject, WholeRun};
use crate::dispatch::raw;
use crate::http::App;
use crate::http::problem::Problem;
use crate::http::shapes;
use crate::http::workflows::{AuthorVersion, MutationObject, author_version, workflow_if_readable};
use crate::secrets::Secrets;

/// One execution of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunObject {
    /// `sched-{schedule_id}-n{n}-rc{retry}`, or a UUID.
    pub(in crate::http) id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: String,
    /// The producer or consumer whose run it is.
    handler: Option<String>,
    /// The version that its author gave the definition.
    version: AuthorVersion,
    /// The revision of the definition, as it is counted here.
    revision: u32,
    schedule_id: Option<String>,
    /// The occurrence's number.
    n: Option<u64>,
    /// 0, or which retry of the occurrence.
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
    /// `pending`, `running`, `waiting`, `suspended`, `succeeded`, `failed`, `cancelled`, `timed_out`.
    #[schema(value_type = shapes::RunStatus)]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Whether it was not done in the time it was promised.
    overdue: bool,
    #[schema(value_type = Value)]
    input: Box<RawValue>,
    #[schema(value_type = Option<Value>)]
    output: Option<Box<RawValue>>,
    #[schema(value_type = Option<shapes::RunError>)]
    error: Option<RunError>,
    /// The run that this one tries again.
    retry_of: Option<String>,
    /// The run that has started this one.
    parent: Option<String>,
}

/// A run with its steps.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunWithSteps {
    #[serde(flatten)]
    run: RunObject,
    /// While it waits because its workflow has as many active runs as it may: its place among those that wait,
    /// beginning with 1.
    pub(super) position: Option<u64>,
    /// When it is to be done, while its deadline counts.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// Where the runs are that this one has started.
    children: String,
    /// Its steps; of a handler's run, the phases.
    steps: Vec<StepObject>,
    /// What deadlines have brought about.
    alerts: Vec<AlertObject>,
    /// What a consumer's run has changed outside, or may have.
    mutation: Option<MutationObject>,
}

/// What a deadline has brought about.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct AlertObject {
    /// The step whose deadline it is; the run's own, if nothing.
    step: Option<String>,
    /// When it was to happen.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    happened_at: Timestamp,
    /// When the deadline is.
    #[schema(value_type = String, format = DateTime)]
    deadline: Timestamp,
    /// `fail`, `cancel`, `complete` or `skip`.
    #[schema(value_type = Option<shapes::LateEnding>)]
    ended: Option<DeadlineEnd>,
    /// The runs that were started: to tell people, and as the deadline says.
    started: Vec<String>,
    /// Why nothing could be started.
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

/// What a run works on, as people may see it. It is stored as it was given, because it is worked on: what is secret in it
/// is masked here.
pub(crate) fn shown_input(view: &RunView, secrets: &Secrets) -> Box<RawValue> {
    let input = view.run.input.clone();
    if view.workflow_name != notices::NAME {
        return secrets.mask_raw(input);
    }
    let value = serde_json::from_str(input.get()).unwrap_or_default();
    raw(&secrets.mask_json(notices::shown_input(value)))
}

impl RunObject {
    pub(super) fn new(view: RunView, versions: &Versions, secrets: &Secrets) -> RunObject {
        let version = versions.get(&(view.run.workflow, view.run.version)).cloned();
        RunObject::with_version(view, version.unwrap_or_default(), secrets)
    }

    fn with_version(view: RunView, version: AuthorVersion, secrets: &Secrets) -> RunObject {
        let input = shown_input(&view, secrets);
        let RunView { run, workflow_name, parent } = view;
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
            input,
            output: run.output,
            error: run.error,
            retry_of: run.retry_of.map(|id| id.to_string()),
            parent: parent.map(|id| id.to_string()),
        }
    }
}

impl RunWithSteps {
    pub(super) fn new(whole: WholeRun, secrets: &Secrets) -> RunWithSteps {
        let WholeRun { view, definition, steps, alerts, mutation, position } = whole;
        let version = author_version(definition.version);
        let watch = view.run.position.watches.iter().find(|watch| watch.step.is_none());
        RunWithSteps {
            position,
            deadline: watch.map(|watch| watch.due),
            children: format!("/api/v1/runs?parent={}", view.run.id),
            alerts: alerts.into_iter().map(AlertObject::from).collect(),
            mutation: mutation.map(MutationObject::from),
            run: RunObject::with_version(view, version, secrets),
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
