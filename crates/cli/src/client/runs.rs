//! Runs `punctual run …`.

use std::env;
use std::io::Write;

use serde_json::{Value, json};

use super::follow::follow;
use super::run_details::{error, show};
use super::shown::{self, distance, field, state, table, took, typed_json};
use super::{Ask, Client, schedules};
use crate::args::remote::{ResolutionArg, RunArgs, RunCommand};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual run …`.
pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    let Some(command) = &args.command else { return start(&client, args, out) };
    match command {
        RunCommand::List { workflow, schedule, status, since, parent, overdue, system, page } => {
            let schedule = schedule.as_deref().map(|named| schedules::find(&client, named));
            let page = client.ask(
                Ask::get(&["runs"])
                    .with("workflow", workflow.as_ref())
                    .with("schedule_id", schedule.transpose()?)
                    .with("status", status.as_ref())
                    .with("since", since.as_ref())
                    .with("parent", parent.as_ref())
                    .with("overdue", overdue.then_some(true))
                    .with("system", system.then_some(true))
                    .with("limit", Some(page.limit))
                    .with("cursor", page.cursor.as_ref()),
            )?;
            if args.json { shown::json(out, &page) } else { list(&page, out) }
        }
        RunCommand::Show { id } => {
            let run = client.ask(Ask::get(&["runs", id]))?;
            if args.json { shown::json(out, &run) } else { show(&run, out) }
        }
        RunCommand::Cancel { id } => {
            let run = client.ask(Ask::post(&["runs", id, "cancel"]).json(&json!({})))?;
            after_a_word(&run, "is told to end", args.json, out)
        }
        RunCommand::Retry { id, from_start, follow: watch } => {
            let body = json!({ "from": if *from_start { "start" } else { "failed" } });
            let run = client.ask(Ask::post(&["runs", id, "retry"]).json(&body))?;
            begun(&client, &run, *watch, args.json, out)
        }
        RunCommand::Resolve { id, resolution, r#as, step, by } => {
            let Some(resolution) = resolution.or(*r#as) else {
                let allowed = "applied, did-not-happen, failed, skip";
                let message = format!("what became of it is missing\n  try: --as {allowed}");
                return Err(Failure::Mistake(message));
            };
            let by = by.clone().or_else(|| env::var("USER").ok());
            let body = json!({ "resolution": resolution_name(resolution), "step": step, "by": by });
            let run = client.ask(Ask::post(&["runs", id, "resolve"]).json(&body))?;
            after_a_word(&run, "goes on", args.json, out)
        }
    }
}

fn start(client: &Client, args: &RunArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let name = args.name.as_deref().unwrap_or_default();
    let (handler, payload) = (args.handler.as_deref(), args.payload.as_deref());
    let refuse_if_busy = args.refuse_if_busy;
    Start { name, handler, payload, refuse_if_busy }.run(client, args.follow, args.json, out)
}

/// A workflow, or one of its handlers, to start by hand.
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) handler: Option<&'a str>,
    pub(super) payload: Option<&'a str>,
    pub(super) refuse_if_busy: bool,
}

impl Start<'_> {
    pub(super) fn run(
        &self,
        client: &Client,
        follow: bool,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut body = json!({});
        if let Some(text) = self.payload {
            body["payload"] = typed_json("--payload", text)?;
        }
        if let Some(handler) = self.handler {
            body["handler"] = handler.into();
        }
        if self.refuse_if_busy {
            body["if_busy"] = "refuse".into();
        }
        let run = client.ask(Ask::post(&["workflows", self.name, "runs"]).json(&body))?;
        match run["called"].as_str() {
            None => begun(client, &run, follow, json, out),
            Some(_) if json => shown::json(out, &run),
            Some(called) => {
                let name = self.name;
                Ok(writeln!(out, "{called} runs as soon as workflow {name} is free")?)
            }
        }
    }
}

/// Prints the id of a new run, and follows the run if `watch` is set.
pub(super) fn begun(
    client: &Client,
    run: &Value,
    watch: bool,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let id = field(run, "id");
    if !watch {
        return match run["position"].as_u64() {
            Some(position) => {
                let what = format!("was created and waits its turn, at position {position}");
                said(run, &what, json, out)
            }
            None => said(run, "was created", json, out),
        };
    }
    if !json {
        writeln!(out, "run {id}")?;
        out.flush()?;
    }
    follow(client, &id, json, out)
}

/// Prints what a run does after a request; a run that has ended does nothing more.
fn after_a_word(run: &Value, does: &str, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let has_ended = run["ended_at"].is_string();
    said(run, if has_ended { "has ended" } else { does }, json, out)
}

fn said(run: &Value, what: &str, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        return shown::json(out, run);
    }
    let (id, status) = (field(run, "id"), field(run, "status"));
    Ok(writeln!(out, "run {id} {what} ({status})")?)
}

fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|run| {
        vec![
            Cell::plain(field(run, "id")),
            Cell::plain(workflow(run)),
            state(&field(run, "status")),
            Cell::plain(field(run, "triggered_by")),
            distance(run, "created_at", clock::instant()),
            took(run, clock::instant()),
            Cell::styled(error(run), DIM),
        ]
    });
    let headings = ["RUN", "WORKFLOW", "STATUS", "BY", "CREATED", "TOOK", "ERROR"];
    table(out, &headings, rows.collect())?;
    shown::more(out, page)
}

/// The workflow, and the handler if the run belongs to one.
fn workflow(run: &Value) -> String {
    match run["handler"].as_str() {
        Some(handler) => format!("{}/{handler}", field(run, "workflow")),
        None => field(run, "workflow"),
    }
}

fn resolution_name(resolution: ResolutionArg) -> &'static str {
    match resolution {
        ResolutionArg::Applied => "applied",
        ResolutionArg::DidNotHappen => "did_not_happen",
        ResolutionArg::Failed => "failed",
        ResolutionArg::Skip => "skip",
    }
}
