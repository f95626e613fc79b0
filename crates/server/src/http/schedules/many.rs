//! Controls many schedules with one request. If one of them is refused, the others are still done.

use axum::extract::State;
use engine::ScheduleId;
use engine::turn::{Command, IfBusy, NewRun, Starter, Verb};
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use store::Idempotency;
use utoipa::ToSchema;

use super::control::IdText;
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::JsonBody;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::Query;

/// How many schedules one request may control: each is a command of its own.
const LARGEST: usize = 1_000;
/// How many commands run at a time: commands that wait together are committed together.
const TOGETHER: usize = 64;
/// How many reasons the summary names; the list has all of them.
const TOLD: usize = 3;

/// An action, and the schedules to apply it to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Control {
    /// Ids of schedules.
    #[schema(max_items = 1000)]
    schedule_ids: Vec<IdText>,
    action: Action,
}

/// What to do with each schedule.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Pause,
    Resume,
    Revive,
    Trigger,
}

/// The result of the action.
#[derive(Serialize, ToSchema)]
pub(super) struct Controlled {
    /// How many schedules it was applied to.
    done: usize,
    /// The schedules it was not applied to, and why.
    refused: Vec<RefusedOne>,
    /// The result in a sentence.
    summary: String,
}

/// A schedule to which the action was not applied.
#[derive(Serialize, ToSchema)]
struct RefusedOne {
    id: String,
    /// The reason.
    detail: String,
}

/// Pauses, resumes, revives or triggers up to 1,000 schedules, each on its own.
#[utoipa::path(post, path = "/schedules/batch-control", tag = "schedules",
    params(("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = Control,
    responses((status = 200, body = Controlled), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 422, body = Problem),
        (status = 503, body = Problem)))]
pub(super) async fn batch_control(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Control { schedule_ids, action } = body.read()?;
    if schedule_ids.len() > LARGEST {
        let message = format!("{} schedules at once", schedule_ids.len());
        let wrong = Wrong::new("schedule_ids", "limit", message);
        return Err(Problem::invalid([wrong.allow(format!("up to {LARGEST}"))]));
    }
    let asked = schedule_ids.len();
    let hub = app.hub().clone();
    let controlling = async move {
        Ok::<_, Problem>(control_all(&app, &caller, schedule_ids, action, body.idempotency).await)
    };
    let refused = hub.uninterrupted(controlling).await?;
    let done = asked - refused.len();
    let summary = summary(action, done, &refused);
    answer::ok(&Controlled { done, refused, summary })
}

/// Applies the action to each schedule, and returns those that refused it.
async fn control_all(
    app: &App,
    caller: &Caller,
    ids: Vec<IdText>,
    action: Action,
    key: Option<Idempotency>,
) -> Vec<RefusedOne> {
    let key = key.as_ref();
    let one = |id: IdText| async move {
        let text = id.text();
        let done = control(app, caller, id.schedule(), &text, action, key).await;
        done.err().map(|problem| RefusedOne { id: text, detail: problem.detail().to_owned() })
    };
    stream::iter(ids).map(one).buffered(TOGETHER).filter_map(std::future::ready).collect().await
}

async fn control(
    app: &App,
    caller: &Caller,
    id: Option<ScheduleId>,
    text: &str,
    action: Action,
    key: Option<&Idempotency>,
) -> Result<(), Problem> {
    let id = id.ok_or_else(|| Problem::not_found("schedule", text))?;
    let command = match action {
        Action::Pause => Command::ControlSchedule { id, verb: Verb::Pause },
        Action::Resume => Command::ControlSchedule { id, verb: Verb::Resume { catch_up: false } },
        Action::Revive => Command::ControlSchedule { id, verb: Verb::Revive },
        Action::Trigger => {
            let (id_of_run, by) = (app.new_run_id(), caller.name.to_string());
            let if_busy = IfBusy::Wait;
            let run = NewRun {
                id: id_of_run,
                payload: None,
                by: Starter::Caller(by),
                trace: None,
                if_busy,
            };
            Command::StartSchedule { id, run }
        }
    };
    // Each schedule has its own idempotency key: on a repeated request, successful actions are not
    // repeated, and refused ones are tried again.
    let key = key.map(|key| Idempotency { key: format!("{}/{id}", key.key), ..key.clone() });
    app.command(caller, command, key).await?;
    Ok(())
}

fn summary(action: Action, done: usize, refused: &[RefusedOne]) -> String {
    let word = match action {
        Action::Pause => "Paused",
        Action::Resume => "Resumed",
        Action::Revive => "Revived",
        Action::Trigger => "Started",
    };
    let mut summary = format!("{word}: {done}.");
    if !refused.is_empty() {
        summary.push_str(&format!(" Refused: {}.", refused.len()));
    }
    for RefusedOne { id, detail } in refused.iter().take(TOLD) {
        summary.push_str(&format!(" {id}: {detail}"));
    }
    if refused.len() > TOLD {
        summary.push_str(" And more.");
    }
    summary
}
