//! Creates schedules, one or many at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use axum::extract::State;
use engine::WorkflowId;
use engine::turn::{Answer, Command, NewSchedule, Refused};
use language::schedule::{Written, read_written};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use store::{Failure, Idempotency};
use utoipa::ToSchema;

use super::list::object;
use super::object::{Remark, ScheduleObject};
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::{JsonBody, LARGEST_BATCH, RawBody, unreadable};
use crate::http::problem::{Problem, Wrong};
use crate::http::query::Query;
use crate::http::shapes;

/// How many schedules one batch may create.
pub(in crate::http) const LARGEST: usize = 10_000;
/// How many errors of one batch are reported: enough to see what is wrong.
const TOLD: usize = 100;

/// The result of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Created {
    /// The ids of the new schedules, in the order given.
    items: Vec<CreatedId>,
    created: usize,
}

#[derive(Debug, Serialize, ToSchema)]
struct CreatedId {
    id: String,
}

/// Creates a schedule.
#[utoipa::path(post, path = "/schedules", tag = "schedules",
    params(("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = shapes::ScheduleInput,
    responses((status = 201, body = ScheduleObject), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 409, body = Problem),
        (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let written = read_written(body.required()?)?;
    let mut workflows = Workflows::default();
    let (new, remark) = match workflows.resolve(&app, &caller, written).await? {
        Ok(placed) => placed,
        Err(wrong) => return Err(Problem::invalid([wrong])),
    };
    let (ids, replayed) = command(&app, &caller, vec![new], body.idempotency).await?;
    let id = ids.first().copied().unwrap_or(engine::ScheduleId(0));
    let location = format!("/api/v1/schedules/{id}");
    let response = match object(&app, id).await {
        Ok(object) => answer::created(&location, &object.with_remark(remark))?,
        // The schedule was created, and has been deleted meanwhile.
        Err(_) => answer::created(&location, &json!({ "id": id.to_string() }))?,
    };
    Ok(answer::replayed(response, replayed))
}

/// Creates up to 10,000 schedules: all of them or none.
#[utoipa::path(post, path = "/schedules/batch", tag = "schedules",
    params(("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = shapes::ScheduleBatch,
    responses((status = 201, body = Created), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 409, body = Problem),
        (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn batch(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: RawBody<LARGEST_BATCH>,
) -> Answered {
    body.require_json()?;
    let RawBody { text, idempotency, .. } = body;
    // Parsing thousands of declarations takes a while, so it must not block other requests.
    let read = tokio::task::spawn_blocking(move || read_batch(&text));
    let read = read.await.map_err(|_| Problem::unavailable("The batch was not read."))??;
    let mut workflows = Workflows::default();
    let (mut new, mut wrong) = (Vec::with_capacity(read.len()), Vec::new());
    for (index, written) in read.into_iter().enumerate() {
        match written {
            Err(mistakes) => wrong.extend(mistakes.into_iter().map(|m| at(index, m.into()))),
            Ok(written) => match workflows.resolve(&app, &caller, written).await? {
                Ok((schedule, _)) => new.push(schedule),
                Err(mistake) => wrong.push(at(index, mistake)),
            },
        }
    }
    if !wrong.is_empty() {
        return Err(too_many_to_tell(wrong));
    }
    let (ids, replayed) =
        command(&app, &caller, new, idempotency).await.map_err(|failure| match failure {
            Failure::Refused(Refused::Invalid(all)) => {
                let all = all.into_iter();
                let placed = all.flat_map(|(index, mistakes)| {
                    mistakes.into_iter().map(move |mistake| at(index, mistake.into()))
                });
                too_many_to_tell(placed.collect())
            }
            other => Problem::from(other),
        })?;
    let items: Vec<CreatedId> =
        ids.into_iter().map(|id| CreatedId { id: id.to_string() }).collect();
    let created = Created { created: items.len(), items };
    let response = answer::json(axum::http::StatusCode::CREATED, &created)?;
    Ok(answer::replayed(response, replayed))
}

type Read = Result<Written, Vec<calendar::Mistake>>;

/// Reads a list of schedules, or an object with the list as `schedules`.
fn read_batch(text: &str) -> Result<Vec<Read>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        schedules: Vec<&'a RawValue>,
    }
    let wrapped = text.trim_start().starts_with('{');
    let listed = if wrapped {
        serde_json::from_str(text).map(|Wrapped { schedules }| schedules)
    } else {
        serde_json::from_str::<Vec<&RawValue>>(text)
    };
    let listed = listed.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Problem::invalid([Wrong::new("", "type", "expected a list of schedules")])
        }
        _ => unreadable(&error),
    })?;
    if listed.len() > LARGEST {
        let message = format!("{} schedules at once", listed.len());
        let wrong = Wrong::new("", "limit", message).allow(format!("up to {LARGEST}"));
        return Err(Problem::invalid([wrong]));
    }
    Ok(listed.into_iter().map(|item| read_written(item.get())).collect())
}

fn at(index: usize, mut wrong: Wrong) -> Wrong {
    let dot = if wrong.path.is_empty() { "" } else { "." };
    wrong.path = format!("[{index}]{dot}{}", wrong.path);
    wrong
}

fn too_many_to_tell(mut wrong: Vec<Wrong>) -> Problem {
    let all = wrong.len();
    wrong.truncate(TOLD);
    let mut problem = Problem::invalid(wrong);
    if all > TOLD {
        problem.add_detail(&format!("{all} mistakes in all; the first {TOLD} are told."));
    }
    problem
}

async fn command(
    app: &App,
    caller: &Caller,
    new: Vec<NewSchedule>,
    idempotency: Option<Idempotency>,
) -> Result<(Vec<engine::ScheduleId>, bool), Failure> {
    let commanded = app.command(caller, Command::CreateSchedules(new), idempotency).await?;
    match commanded.answer {
        Answer::Created(ids) => Ok((ids, commanded.replayed)),
        other => Err(Failure::Damaged(format!("an unexpected answer: {other:?}"))),
    }
}

/// A cache of workflows by the name or id given, each looked up once.
#[derive(Default)]
struct Workflows(HashMap<String, Option<Known>>);

struct Known {
    id: WorkflowId,
    name: String,
    triggers: Vec<String>,
}

impl Workflows {
    /// The schedule with its workflow and a remark about its trigger, or what is wrong with it.
    async fn resolve(
        &mut self,
        app: &App,
        caller: &Caller,
        written: Written,
    ) -> Result<Result<(NewSchedule, Option<Remark>), Wrong>, Problem> {
        let Written { workflow, also_workflow, trigger, mut declared } = written;
        if declared.owner.is_none() {
            declared.owner = Some(caller.said_by(None)?);
        }
        let Some(named) = workflow else {
            let wrong = Wrong::new("workflow_id", "missing", "which workflow it starts is missing");
            return Ok(Err(wrong.allow("the id or name of a workflow")));
        };
        let known = match self.0.entry(named) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let found = app.store().workflow(entry.key(), None).await?;
                entry.insert(found.map(|view| Known {
                    id: view.workflow.id,
                    name: view.workflow.name,
                    triggers: view.definition.triggers.iter().map(|t| t.id.clone()).collect(),
                }))
            }
        };
        let Some(known) = known else {
            let message = "there is no such workflow";
            return Ok(Err(Wrong::new("workflow_id", "unknown", message)));
        };
        if also_workflow.is_some_and(|also| also != known.name && also != known.id.to_string()) {
            let message = "workflow_id and workflow name two different workflows";
            return Ok(Err(Wrong::new("workflow_id", "contradiction", message)));
        }
        let unknown = trigger.as_ref().filter(|trigger| !known.triggers.contains(trigger));
        let remark = unknown.map(|trigger| {
            let message =
                format!("the workflow has no trigger {trigger}: the schedule starts it as it is");
            Remark { code: "unknown-trigger", message }
        });
        // The trigger is stored, shown, and passed to runs, but the schedule is not bound to it:
        // the schedule that a trigger declares is replaced with each version, this one is not.
        declared.trigger_node_id = trigger;
        Ok(Ok((NewSchedule { workflow: known.id, declared_by: None, declared }, remark)))
    }
}
