//! Routes that list and decide approvals.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use engine::RunId;
use engine::turn::Command;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{ApprovalQuery, ApprovalView};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::access::{Caller, Standing};
use super::answer::{self, Answered, Listed};
use super::body::JsonBody;
use super::path::part;
use super::problem::{Problem, Wrong};
use super::query::{Paging, Parameters, Query, Values};
use super::runs::{self, RunWithSteps};

/// A comment is stored with the run.
const LONGEST_COMMENT: usize = 4 * 1024;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(approve)).routes(routes!(reject))
}

/// The query parameters of the list of approvals.
pub(crate) struct ApprovalListParams {
    pub(crate) assignee: Option<String>,
    paging: Paging,
}

impl Parameters for ApprovalListParams {
    fn read(values: &mut Values) -> ApprovalListParams {
        ApprovalListParams { assignee: values.text("assignee"), paging: values.paging() }
    }
}

impl ApprovalListParams {
    pub(crate) fn query(&self) -> ApprovalQuery {
        let Paging { limit, after } = self.paging.clone();
        ApprovalQuery { assignees: self.assignee.iter().cloned().collect(), limit, after }
    }
}

/// A step that waits for somebody to decide.
#[derive(Serialize, ToSchema)]
struct ApprovalObject {
    run_id: String,
    step_id: String,
    /// The workflow's name.
    workflow: String,
    /// The question, in a line.
    title: String,
    /// The question in full.
    description: Option<String>,
    /// Who may decide; anyone, if empty.
    assignees: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    asked_at: Timestamp,
    /// By when to decide, if the step or its run has a deadline: the earlier one.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// Whether the deadline has passed.
    overdue: bool,
}

impl From<ApprovalView> for ApprovalObject {
    fn from(view: ApprovalView) -> ApprovalObject {
        let ApprovalView {
            run,
            workflow_name,
            step,
            title,
            description,
            assignees,
            asked_at,
            deadline,
            overdue,
        } = view;
        ApprovalObject {
            run_id: run.to_string(),
            step_id: step,
            workflow: workflow_name,
            title,
            description,
            assignees,
            asked_at,
            deadline,
            overdue,
        }
    }
}

/// Lists open approvals, those of the oldest run first.
#[utoipa::path(get, path = "/approvals", tag = "approvals",
    params(("assignee" = Option<String>, Query, description = "Only what this one may decide"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<ApprovalObject>), (status = 400, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<ApprovalListParams>) -> Answered {
    let page = app.views().approvals(params.query()).await?;
    let items: Vec<ApprovalObject> = page.items.into_iter().map(Into::into).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// The run and the step in the path.
struct ApprovalPath {
    run: RunId,
    step: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ApprovalPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ApprovalPath, Problem> {
        let run = part(parts, state, "run_id").await?;
        let step = part(parts, state, "step_id").await?;
        let run = run.parse().map_err(|()| Problem::not_found("run", &run))?;
        Ok(ApprovalPath { run, step })
    }
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Decided {
    /// Who decides; the caller, if left out. A caller with a token decides by the token's name or
    /// one of its roles, and the name is added.
    #[schema(min_length = 1, max_length = 256)]
    by: Option<String>,
    /// Their comment.
    #[schema(max_length = 4096)]
    comment: Option<String>,
}

/// Approves: the step completes, and the run goes on.
#[utoipa::path(post, path = "/approvals/{run_id}/{step_id}/approve", tag = "approvals",
    request_body = Option<Decided>,
    params(("run_id" = String, Path, description = "The run"),
        ("step_id" = String, Path, description = "The step")),
    responses((status = 200, body = RunWithSteps),
        (status = 403, body = Problem, description = "It is for others to decide"),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Nobody is asked, or not any more")))]
async fn approve(
    State(app): State<App>,
    caller: Caller,
    asked: ApprovalPath,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    decide(&app, &caller, asked, true, body).await
}

/// Rejects: the step fails.
#[utoipa::path(post, path = "/approvals/{run_id}/{step_id}/reject", tag = "approvals",
    request_body = Option<Decided>,
    params(("run_id" = String, Path, description = "The run"),
        ("step_id" = String, Path, description = "The step")),
    responses((status = 200, body = RunWithSteps),
        (status = 403, body = Problem, description = "It is for others to decide"),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Nobody is asked, or not any more")))]
async fn reject(
    State(app): State<App>,
    caller: Caller,
    asked: ApprovalPath,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    decide(&app, &caller, asked, false, body).await
}

async fn decide(
    app: &App,
    caller: &Caller,
    asked: ApprovalPath,
    approves: bool,
    body: JsonBody,
) -> Answered {
    let Decided { by: given, comment } = body.read_or_default()?;
    let mut wrong = Vec::new();
    let is_known = caller.standing != Standing::Anyone;
    if given.is_none() && !is_known {
        wrong.push(Wrong::new("by", "missing", "say who decides: there are no tokens to tell"));
    }
    let by = match caller.said_by(given.as_deref()) {
        Ok(by) => by,
        Err(problem) => {
            wrong.extend(problem.into_errors());
            String::new()
        }
    };
    if comment.as_ref().is_some_and(|comment| comment.len() > LONGEST_COMMENT) {
        let allowed = format!("{LONGEST_COMMENT} bytes");
        wrong.push(Wrong::new("comment", "limit", "is too long").allow(allowed));
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    let ApprovalPath { run: id, step } = asked;
    let roles = caller.stands_for(given.as_deref());
    let comment = comment.map(|comment| app.secrets().mask(&comment).into_owned());
    let command = Command::DecideApproval { id, step, approves, by, roles, comment };
    let commanded = app.command(caller, command, body.idempotency).await?;
    runs::answered(app, commanded, false).await
}
