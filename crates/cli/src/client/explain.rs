//! `punctual explain`: why something ran, waited or did not.

use std::io::Write;

use serde_json::{Value, json};

use super::shown::{self, field};
use super::{Ask, Client, schedules};
use crate::args::remote::ExplainArgs;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    let answer = match args.what.parse::<engine::RunId>() {
        Ok(_) => of_run(&client, &args.what)?,
        Err(()) => {
            let id = schedules::find(&client, &args.what)?;
            of_schedule(&client, &id, args.at.as_deref())?
        }
    };
    if args.json {
        return shown::json(out, &answer);
    }
    for sentence in sentences(&answer) {
        writeln!(out, "{sentence}")?;
    }
    Ok(())
}

fn of_schedule(client: &Client, id: &str, at: Option<&str>) -> Result<Value, Failure> {
    client.ask(Ask::get(&["schedules", id, "explain"]).with("at", at))
}

fn sentences(answer: &Value) -> Vec<String> {
    let list = answer["sentences"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(shown::plain).collect()
}

/// What the run itself tells, then what its schedule tells of the occurrence.
fn of_run(client: &Client, id: &str) -> Result<Value, Failure> {
    let run = client.ask(Ask::get(&["runs", id]))?;
    let mut told = vec![own_words(&run)];
    for step in run["steps"].as_array().into_iter().flatten() {
        if let Some(why) = step["error"]["message"].as_str() {
            let (step, attempts) = (field(step, "id"), field(step, "attempts"));
            told.push(format!("Step {step} failed, at attempt {attempts} the last time: {why}."));
        }
    }
    if let (Some(schedule), Some(nominal)) =
        (run["schedule_id"].as_str(), run["nominal_at"].as_str())
    {
        // A schedule that is gone has nothing to tell any more; the run still has.
        if let Ok(answer) = of_schedule(client, schedule, Some(nominal)) {
            told.extend(sentences(&answer));
        }
    }
    Ok(json!({ "run": run, "sentences": told }))
}

fn own_words(run: &Value) -> String {
    let (id, workflow, status) = (field(run, "id"), field(run, "workflow"), field(run, "status"));
    let cause = match (field(run, "triggered_by"), run["n"].as_u64()) {
        (_, Some(n)) if run["retry"].as_u64().unwrap_or(0) > 0 => {
            format!(
                "is retry {} of occurrence {n} of schedule {}",
                run["retry"],
                field(run, "schedule_id")
            )
        }
        (_, Some(n)) => format!("is occurrence {n} of schedule {}", field(run, "schedule_id")),
        (by, None) => format!("was started by {}", if by == "manual" { "hand" } else { &by }),
    };
    format!("Run {id} of {workflow} {cause}; it is {status}.")
}
