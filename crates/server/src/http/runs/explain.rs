//! Explains in sentences what happened to a run and why, from stored rows.

use axum::extract::State;
use engine::handlers::{Mutation, MutationStatus};
use engine::run::{RunStatus, TriggeredBy};
use engine::turn::Wakeup;
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use language::definition::handlers::PREPARE;
use serde::Serialize;
use serde_json::Value;
use store::Failure;
use utoipa::ToSchema;

use super::{WholeRun, waiting, whole};
use crate::http::App;
use crate::http::answer::{self, Answered};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::schedules::occurrences;

/// How many failed steps an explanation lists.
const TOLD: usize = 20;

/// Why a run ran, and how it ended.
#[derive(Serialize, ToSchema)]
pub(super) struct RunExplanation {
    run_id: String,
    sentences: Vec<String>,
}

/// Explains a run in sentences: why it ran, how it ended, what it waits for.
/// Deadlines and alerts are explained as well.
#[utoipa::path(get, path = "/runs/{id}/explain", tag = "runs",
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, body = RunExplanation), (status = 404, body = Problem)))]
pub(super) async fn explain(
    State(app): State<App>,
    PathId(id): PathId,
    Query(()): Query<()>,
) -> Answered {
    let whole = whole(&app, &id).await?;
    let sentences = told(&app, &whole).await?;
    answer::ok(&RunExplanation { run_id: whole.view.run.id.to_string(), sentences })
}

/// Sentences about the run itself, followed by those of its schedule about the occurrence.
pub(crate) async fn told(app: &App, whole: &WholeRun) -> Result<Vec<String>, Problem> {
    let run = &whole.view.run;
    let mut told = vec![own_words(app, whole)];
    if !run.status.has_ended() {
        told.extend(set_aside(app, Wakeup::Run(run.key)).await?);
    }
    if run.handler.is_some() {
        told.extend(of_handler(whole));
    }
    let what = if run.handler.is_some() { "Phase" } else { "Step" };
    let wrong = whole.steps.iter().filter_map(|step| Some((step, step.part.error.as_ref()?)));
    told.extend(wrong.take(TOLD).map(|(step, error)| {
        let attempts = step.part.attempts;
        match step.part.status {
            // The error of a cancelled step says why the run ends; the step itself did nothing
            // wrong.
            "cancelled" => format!("{what} {} was cancelled.", step.id),
            "skipped" => format!("{what} {} was skipped: {}.", step.id, error.message),
            _ => format!(
                "{what} {} failed, at attempt {attempts} the last time: {}.",
                step.id, error.message
            ),
        }
    }));
    told.extend(waiting::told(app, whole).await?);
    if let (Some(schedule), Some(nominal)) = (run.schedule, run.nominal) {
        told.extend(of_schedule(app, schedule, nominal).await?);
    }
    Ok(told)
}

/// That nothing of a run or schedule happens because it cannot be read or decided, and what to do.
pub(in crate::http) async fn set_aside(app: &App, what: Wakeup) -> Result<Option<String>, Problem> {
    let aside = app.store().all_set_aside().await?;
    let own = aside.into_iter().find(|one| one.what == what);
    Ok(own.map(|one| {
        let reason = app.secrets().mask(&one.reason).into_owned();
        format!(
            "It is set aside since {}, and nothing of it happens: it could not be read or decided \
             ({reason}). `punctual doctor` says what is wrong with it and what to do; `punctual \
             doctor --repair` lets it be tried again.",
            one.since
        )
    }))
}

/// Sentences from the run's schedule; none if the schedule was deleted. A schedule that cannot be
/// read does not hide its runs.
async fn of_schedule(app: &App, id: ScheduleId, at: Timestamp) -> Result<Vec<String>, Problem> {
    match app.store().schedule(id).await {
        Ok(Some(found)) => occurrences::sentences(app, &found, Some(at)).await,
        Ok(None) => Ok(Vec::new()),
        Err(Failure::Undecidable { .. }) => Ok(vec![format!(
            "Schedule {id} cannot be read: `punctual doctor` says what is wrong with it and what to do."
        )]),
        Err(failure) => Err(failure.into()),
    }
}

fn own_words(app: &App, whole: &WholeRun) -> String {
    let run = &whole.view.run;
    let workflow = match &run.handler {
        Some(handler) => format!("{handler} of {}", whole.view.workflow_name),
        None => whole.view.workflow_name.clone(),
    };
    let cause = match (&run.id, run.triggered_by) {
        (RunId::Occurrence { schedule, n, retry: 0 }, _) => {
            format!("is occurrence {n} of schedule {schedule}")
        }
        (RunId::Occurrence { schedule, n, retry }, _) => {
            format!("is retry {retry} of occurrence {n} of schedule {schedule}")
        }
        (_, TriggeredBy::Manual) => "was started by hand".to_owned(),
        (_, by) => format!("was started by {}", by.name()),
    };
    let standing = match run.status {
        RunStatus::Succeeded | RunStatus::Failed => format!("it has {}", run.status.name()),
        RunStatus::TimedOut => "it has taken longer than it may".to_owned(),
        RunStatus::Cancelled => "it was cancelled".to_owned(),
        open => format!("it is {}", open.name()),
    };
    // Why a run failed is told with its steps.
    let reason = match (run.status, &run.error) {
        (RunStatus::TimedOut | RunStatus::Cancelled, Some(error)) => {
            let message = app.secrets().mask(&error.message);
            format!(" ({})", message.trim_start_matches("cancelled: "))
        }
        _ => String::new(),
    };
    format!("Run {} of {workflow} {cause}; {standing}{reason}.", run.id)
}

/// Why a consumer's run began, how far it came, and which mutation it made.
fn of_handler(whole: &WholeRun) -> Vec<String> {
    let mut told = Vec::new();
    let input: Value = serde_json::from_str(whole.view.run.input.get()).unwrap_or_default();
    let cause = match input["cause"].as_str() {
        Some("published") => "something was published to one of its topics since it last looked",
        Some("woken") => "the time that it slept until had come",
        Some("by_hand") => "somebody asked for it",
        Some("more") => "there was more than its run before had worked on",
        Some("retry") => "its run before had failed",
        Some("deployed") => "it was new, and there were events already",
        _ => "",
    };
    match &whole.view.run.retry_of {
        // Its input is that of the run before, and so is the cause in it.
        Some(before) => told.push(format!("It goes on where run {before} ended.")),
        None if !cause.is_empty() => told.push(format!("It looked because {cause}.")),
        None => {}
    }
    let prepared = whole.steps.iter().find(|step| step.id == PREPARE);
    let output = prepared.and_then(|step| step.part.output.as_ref());
    let output: Option<Value> = output.and_then(|json| serde_json::from_str(json.get()).ok());
    if let Some(count) = output.and_then(|output| output["count"].as_u64()) {
        told.push(match count {
            0 => "It found nothing to work on, and sleeps.".to_owned(),
            1 => "It reserved 1 event.".to_owned(),
            count => format!("It reserved {count} events."),
        });
    }
    told.extend(whole.mutation.as_ref().map(|view| of_mutation(&view.mutation)));
    told
}

fn of_mutation(mutation: &Mutation) -> String {
    let says = match &mutation.said_by {
        Some(who) => format!(", says {who}"),
        None => String::new(),
    };
    match mutation.status {
        MutationStatus::InFlight => "Its mutation is under way.".to_owned(),
        MutationStatus::Applied => {
            format!("Its mutation has happened{says}: it is not done again.")
        }
        MutationStatus::Failed => format!("Its mutation has not happened{says}."),
        MutationStatus::Skipped => format!("It goes on without its mutation{says}."),
        MutationStatus::Unknown => {
            "What became of its mutation is not known: `punctual run resolve` says so.".to_owned()
        }
    }
}
