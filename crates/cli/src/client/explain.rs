//! `punctual explain`: explains why something ran, waited or did not run.

use std::io::Write;

use serde_json::{Value, json};

use super::shown;
use super::{Ask, Client, schedules};
use crate::args::remote::ExplainArgs;
use crate::failure::Failure;

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

/// Explains a run: first the run itself, then its occurrence.
fn of_run(client: &Client, id: &str) -> Result<Value, Failure> {
    let run = client.ask(Ask::get(&["runs", id]))?;
    let told = client.ask(Ask::get(&["runs", id, "explain"]))?;
    Ok(json!({ "run": run, "sentences": told["sentences"] }))
}
