//! The output of a step: live while it runs, and stored afterwards.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use engine::run::{Activity, ActivityStatus, Item, Part, StepRecord};
use serde::Serialize;
use serde_json::Value;
use store::RunDetail;
use utoipa::ToSchema;

use super::super::path::{PathId, part};
use super::super::query::{Parameters, Query, Values};
use super::{Answered, App, Problem, answer, found};
use crate::live::Tail;

/// The output of a step.
#[derive(Serialize, ToSchema)]
pub(super) struct OutputObject {
    step_id: String,
    /// The number of the attempt, from 1; 0 if none has begun.
    attempt: u32,
    /// Whether more output may follow.
    is_live: bool,
    /// The node that performs the attempt. Only this node can show its live output.
    node: Option<String>,
    /// The worker that performs the attempt. Its output is known when the attempt ends.
    worker: Option<String>,
    /// The last part of the output, with secrets masked. While live, standard output and standard
    /// error are mixed in the order in which they came.
    text: String,
    /// How many bytes of output come before `text`.
    offset: u64,
    /// Whether `text` is not the whole output.
    truncated: bool,
}

/// The part of the path called `step`.
pub(super) struct StepId(String);

impl<S: Send + Sync> FromRequestParts<S> for StepId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<StepId, Problem> {
        part(parts, state, "step").await.map(StepId)
    }
}

/// The index of an item, for a step that runs for each item of a list.
pub(super) struct WhichItem(Option<u64>);

impl Parameters for WhichItem {
    fn read(values: &mut Values) -> WhichItem {
        WhichItem(values.parsed("index", "the number of an item, from 0"))
    }
}

/// Gets the output of a step: live while this node performs it, stored when it has ended.
#[utoipa::path(get, path = "/runs/{id}/steps/{step}/output", tag = "runs",
    params(("id" = String, Path, description = "The run"),
        ("step" = String, Path, description = "The step"),
        ("index" = Option<u64>, Query, description = "An item, if the step goes over a list")),
    responses((status = 200, body = OutputObject), (status = 404, body = Problem)))]
pub(super) async fn output(
    State(app): State<App>,
    PathId(id): PathId,
    StepId(step): StepId,
    Query(WhichItem(index)): Query<WhichItem>,
) -> Answered {
    let detail = found(&app, &id).await?;
    let unknown = || Problem::not_found("step", &step);
    let step_index = detail.definition.graph().index(&step).ok_or_else(unknown)?;
    let item = match index {
        None => Item::Whole,
        Some(index) => Item::Nth(u32::try_from(index).map_err(|_| unknown())?),
    };
    let object = said(&app, &detail, Part { step: step_index, item }, step).await?;
    answer::ok(&object)
}

async fn said(
    app: &App,
    detail: &RunDetail,
    part: Part,
    step_id: String,
) -> Result<OutputObject, Problem> {
    let run = &detail.view.run;
    let live = |attempt: u32| app.hub().live.tail(run.key, part, attempt);
    let nothing = OutputObject {
        step_id,
        attempt: 0,
        is_live: false,
        node: None,
        worker: None,
        text: String::new(),
        offset: 0,
        truncated: false,
    };
    if let Some(active) = run.state.part(part.step, part.item)
        && matches!(
            active.status,
            ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. }
        )
    {
        let performed = OutputObject { attempt: active.attempt, is_live: true, ..nothing };
        return Ok(performed.by(app, active).await?.with(live(active.attempt)));
    }
    let is_it = |record: &&StepRecord| (record.step, record.item) == (part.step, part.item);
    let Some(record) = detail.steps.iter().find(is_it) else { return Ok(nothing) };
    let ended = OutputObject { attempt: record.attempts, ..nothing };
    Ok(match live(record.attempts) {
        // Live output is in the order in which it came; stored output has standard output first.
        Some(tail) => ended.with(Some(tail)),
        None => ended.stored(record),
    })
}

impl OutputObject {
    /// Adds who performs the attempt.
    async fn by(self, app: &App, active: &Activity) -> Result<OutputObject, Problem> {
        if let ActivityStatus::Claimed { worker, .. } = &active.status {
            return Ok(OutputObject { worker: Some(worker.clone()), ..self });
        }
        let nodes = app.store().nodes().await?;
        let node = nodes.into_iter().find(|node| Some(node.id) == active.owner());
        Ok(OutputObject { node: node.map(|node| node.name), ..self })
    }

    fn with(self, tail: Option<Tail>) -> OutputObject {
        match tail {
            Some(Tail { text, offset }) => {
                OutputObject { text, offset, truncated: offset > 0, ..self }
            }
            None => self,
        }
    }

    /// Adds the stored output of a command, or the stored log of a script.
    fn stored(self, record: &StepRecord) -> OutputObject {
        let output = record.output.as_ref();
        let output = output.and_then(|output| serde_json::from_str::<Value>(output.get()).ok());
        let Some(output) = output else { return self };
        let lines = output["log"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = lines.iter().filter_map(Value::as_str).map(|line| format!("{line}\n"));
        let streams = ["stdout", "stderr"].map(|name| output[name].as_str().unwrap_or_default());
        let is_cut = |name: &str| output[name] == true;
        OutputObject {
            text: lines.collect::<String>() + &streams.concat(),
            truncated: is_cut("stdout_truncated") || is_cut("stderr_truncated"),
            ..self
        }
    }
}
