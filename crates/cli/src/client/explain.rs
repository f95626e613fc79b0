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
    told.extend(of_handler(&run));
    for step in run["steps"].as_array().into_iter().flatten() {
        if let Some(why) = step["error"]["message"].as_str() {
            let what = if run["handler"].is_string() { "Phase" } else { "Step" };
            let (step, attempts) = (field(step, "id"), field(step, "attempts"));
            told.push(format!("{what} {step} failed, at attempt {attempts} the last time: {why}."));
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

/// Why a consumer looked, how far its run came, and what it has changed outside.
fn of_handler(run: &Value) -> Vec<String> {
    let mut told = Vec::new();
    let cause = match run["input"]["cause"].as_str() {
        Some("published") => "something was published to one of its topics since it last looked",
        Some("woken") => "the time that it slept until had come",
        Some("by_hand") => "somebody asked for it",
        Some("more") => "there was more than its run before had worked on",
        Some("retry") => "its run before had failed",
        Some("deployed") => "it was new, and there were events already",
        _ => "",
    };
    if !cause.is_empty() {
        told.push(format!("It looked because {cause}."));
    }
    let steps = shown::items(&run["steps"]);
    let prepared = steps.iter().find(|step| step["id"] == "prepare");
    if let Some(count) = prepared.and_then(|step| step["output"]["count"].as_u64()) {
        told.push(match count {
            0 => "It found nothing to work on, and sleeps.".to_owned(),
            1 => "It reserved 1 event.".to_owned(),
            count => format!("It reserved {count} events."),
        });
    }
    told.extend(mutation(&run["mutation"]));
    told
}

fn mutation(mutation: &Value) -> Option<String> {
    let says = match mutation["said_by"].as_str() {
        Some(who) => format!(", says {who}"),
        None => String::new(),
    };
    Some(match mutation["status"].as_str()? {
        "in_flight" => "Its mutation is under way.".to_owned(),
        "applied" => format!("Its mutation has happened{says}: it is not done again."),
        "failed" => format!("Its mutation has not happened{says}."),
        "skipped" => format!("It goes on without its mutation{says}."),
        _ => "What became of its mutation is not known: `punctual run resolve` says so.".to_owned(),
    })
}

fn own_words(run: &Value) -> String {
    let (id, status) = (field(run, "id"), field(run, "status"));
    let workflow = match run["handler"].as_str() {
        Some(handler) => format!("{handler} of {}", field(run, "workflow")),
        None => field(run, "workflow"),
    };
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
