//! Explains in sentences what a run waits for now, its deadlines, and what they have triggered.

use engine::run::{Activity, ActivityStatus, Item, Run, RunStatus, TriggeredBy, Watch, action_of};
use jiff::Timestamp;
use language::definition::Action;
use store::AlertView;

use super::WholeRun;
use crate::http::App;
use crate::http::problem::Problem;

/// How many parts of a run are listed one by one.
const TOLD: usize = 20;

/// All sentences about what a run waits for, and about its deadlines.
pub(super) async fn told(app: &App, whole: &WholeRun) -> Result<Vec<String>, Problem> {
    let run = &whole.view.run;
    let mut told = Vec::new();
    if run.status == RunStatus::Pending {
        told.push(pending(app, whole).await?);
    }
    let active = &run.state.active;
    for part in active.iter().take(TOLD) {
        told.extend(waits_for(app, whole, part).await?);
    }
    if active.len() > TOLD {
        told.push(format!("{} more of its steps wait or run.", active.len() - TOLD));
    }
    told.extend(run.state.watches.iter().map(|watch| deadline(whole, watch)));
    told.extend(whole.alerts.iter().map(alert));
    Ok(told)
}

/// Why a run has not begun.
async fn pending(app: &App, whole: &WholeRun) -> Result<String, Problem> {
    let run = &whole.view.run;
    let name = &whole.view.workflow_name;
    let view = app.store().workflow(&run.workflow.to_string(), Some(run.version)).await?;
    let workflow = view.map(|view| view.workflow);
    let is_paused = workflow.as_ref().is_some_and(|workflow| workflow.paused);
    let is_held = TriggeredBy::HELD_BY_PAUSE.contains(&run.triggered_by);
    if is_paused && (run.handler.is_some() || is_held) {
        return Ok(format!("It waits until workflow {name} is resumed."));
    }
    let limit = workflow.and_then(|workflow| workflow.concurrency);
    Ok(match (whole.position, run.handler.is_some(), limit) {
        (Some(position), true, _) => format!(
            "It waits its turn, at position {position}: handlers of {name} run one at a time."
        ),
        (Some(position), false, Some(limit)) => format!(
            "It waits its turn, at position {position}: {name} runs at most {limit} at a time."
        ),
        _ => "It waits for a free slot on a node. One workflow cannot take them all.".to_owned(),
    })
}

async fn waits_for(
    app: &App,
    whole: &WholeRun,
    active: &Activity,
) -> Result<Option<String>, Problem> {
    let step = part_name(whole, active);
    Ok(Some(match &active.status {
        ActivityStatus::Ready => format!("{step} waits for a free slot on a node."),
        ActivityStatus::Performed { since, owner, .. } => {
            format!("{step} runs on node {owner} since {since}.")
        }
        ActivityStatus::Queued { queue } => format!("{step} waits for a worker of queue {queue}."),
        ActivityStatus::Claimed { since, worker, .. } => {
            format!("{step} is performed by worker {worker} since {since}.")
        }
        ActivityStatus::Retrying { at } => {
            format!("{step} failed at attempt {} and is tried again at {at}.", active.attempt)
        }
        ActivityStatus::Timer { until, .. } => format!("{step} waits until {until}."),
        ActivityStatus::Asked { since, assignees } => {
            let who = if assignees.is_empty() {
                "anyone who may approve".to_owned()
            } else {
                assignees.join(" or ")
            };
            format!("{step} waits for a decision by {who} since {since}.")
        }
        ActivityStatus::Child { since, run, .. } => {
            let child = child_of(app, &whole.view.run, *run).await?;
            format!("{step} waits for {child} since {since}.")
        }
        ActivityStatus::Awaiting { since, until } => {
            let until = until.and_then(|until| Timestamp::from_millisecond(until).ok());
            let until = until.map_or_else(String::new, |until| format!(", until {until}"));
            let topic = match action_of(&whole.definition, active.part()) {
                Some(Action::WaitFor(wait)) => format!("on topic {}", wait.topic),
                _ => String::new(),
            };
            format!("{step} waits for an event {topic} since {since}{until}.")
        }
        ActivityStatus::Items { count, ended, .. } => {
            format!("{step} has worked on {ended} of {count} items.")
        }
        ActivityStatus::Unknown { since } => format!(
            "{step} began at {since}, and nobody knows what became of it: `punctual run resolve` says so."
        ),
    }))
}

/// The name of a child run that a run waits for.
async fn child_of(app: &App, parent: &Run, child: engine::RunKey) -> Result<String, Problem> {
    let query = store::RunQuery {
        parent: Some(parent.key),
        limit: 1,
        // Runs are listed latest first, so the first one before the next key is this one.
        after: Some(store::Cursor::Number(child.0.saturating_add(1))),
        ..store::RunQuery::default()
    };
    let found = app.views().runs(query).await?.items.pop();
    let found = found.filter(|view| view.run.key == child);
    Ok(found.map_or_else(
        || "a run that it has started".to_owned(),
        |view| format!("run {} of {}", view.run.id, view.workflow_name),
    ))
}

fn step_name(whole: &WholeRun, step: u32) -> String {
    let what = if whole.view.run.handler.is_some() { "Phase" } else { "Step" };
    let id = whole.definition.steps.get(step as usize).map_or("?", |step| &step.id);
    format!("{what} {id}")
}

fn part_name(whole: &WholeRun, active: &Activity) -> String {
    let step = step_name(whole, active.step);
    match active.item {
        Item::Undoing => format!("What undoes {}", step.to_lowercase()),
        Item::Reconciling => format!("What finds out about {}", step.to_lowercase()),
        Item::Nth(index) => format!("{step}, item {},", index + 1),
        Item::Whole => step,
    }
}

fn deadline(whole: &WholeRun, watch: &Watch) -> String {
    let what = watch.step.map_or_else(|| "The run".to_owned(), |step| step_name(whole, step));
    if watch.overdue {
        format!("{what} was to be done by {}, and is overdue.", watch.due)
    } else {
        format!("{what} is to be done by {}.", watch.due)
    }
}

fn alert(alert: &AlertView) -> String {
    let of = alert.step.as_ref().map_or_else(|| "its".to_owned(), |step| format!("step {step}'s"));
    let mut brought = Vec::new();
    if let Some(ended) = alert.ended {
        let word = serde_json::to_value(ended).ok();
        let word = word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
        brought.push(format!("what was late was ended ({word})"));
    }
    if !alert.started.is_empty() {
        let runs: Vec<String> = alert.started.iter().map(ToString::to_string).collect();
        brought.push(format!("run {} was started", runs.join(", ")));
    }
    if let Some(why) = &alert.refused {
        brought.push(format!("not everybody was told, or not everything was started: {why}"));
    }
    if brought.is_empty() {
        brought.push("it was noted".to_owned());
    }
    let (at, due) = (alert.happened_at, alert.due);
    format!("At {at}, because of {of} deadline of {due}: {}.", brought.join("; "))
}
