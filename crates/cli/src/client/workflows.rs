//! Runs `punctual workflow …`.

use std::io::Write;

use serde_json::{Value, json};

use super::apply::{refused_text, remarks, triggers};
use super::runs::Start;
use super::shown::{self, field, state, table, time};
use super::{Ask, Client, handlers, schedule_views, versions};
use crate::args::remote::{WorkflowArgs, WorkflowCommand};
use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual workflow …`.
pub(crate) fn run(args: &WorkflowArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    let verb = |name: &str, verb: &str, out: &mut dyn Write| {
        let workflow = client.ask(Ask::post(&["workflows", name, verb]).json(&json!({})))?;
        if args.json { shown::json(out, &workflow) } else { line(&workflow, out) }
    };
    match &args.command {
        WorkflowCommand::List { system, page } => {
            let page = client.ask(
                Ask::get(&["workflows"])
                    .with("system", system.then_some(true))
                    .with("limit", Some(page.limit))
                    .with("cursor", page.cursor.as_ref()),
            )?;
            if args.json { shown::json(out, &page) } else { list(&page, out) }
        }
        WorkflowCommand::Show { name, source } => {
            let workflow = client.ask(Ask::get(&["workflows", name]))?;
            if args.json {
                return shown::json(out, &workflow);
            }
            show(&client, &workflow, out)?;
            if *source {
                writeln!(out, "\n{}", field(&workflow, "source"))?;
            }
            Ok(())
        }
        WorkflowCommand::Versions { name, page } => {
            versions::list(&client, name, page, args.json, out)
        }
        WorkflowCommand::Diff { name, from, to } => {
            versions::diff(&client, name, *from, *to, args.json, out)
        }
        WorkflowCommand::Publish { name, plan: true } => {
            let path = ["workflows", name, "publish"];
            let plan = client.ask(Ask::post(&path).with("dry_run", Some(true)).json(&json!({})))?;
            if args.json { shown::json(out, &plan) } else { publish_plan(&plan, out) }
        }
        WorkflowCommand::Publish { name, plan: false } => verb(name, "publish", out),
        WorkflowCommand::Archive { name } => verb(name, "archive", out),
        WorkflowCommand::Pause { name } => verb(name, "pause", out),
        WorkflowCommand::Resume { name } => verb(name, "resume", out),
        WorkflowCommand::Start { name, handler, payload, refuse_if_busy, follow } => {
            let (handler, payload) = (handler.as_deref(), payload.as_deref());
            let start = Start { name, handler, payload, refuse_if_busy: *refuse_if_busy };
            start.run(&client, *follow, args.json, out)
        }
        WorkflowCommand::Mutations { name, page } => {
            let path = ["workflows", name, "mutations"];
            let ask = Ask::get(&path)
                .with("limit", Some(page.limit))
                .with("cursor", page.cursor.as_ref());
            let page = client.ask(ask)?;
            if args.json { shown::json(out, &page) } else { handlers::mutations(&page, out) }
        }
        WorkflowCommand::Validate { files } => {
            let documents = files.iter().map(|path| Document::read(path));
            let documents = documents.collect::<Result<Vec<_>, Failure>>()?;
            validate(&client, &documents, args.json, out)
        }
    }
}

fn publish_plan(plan: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let (name, revision) = (field(plan, "name"), field(plan, "revision"));
    let what = if plan["changed"] == true { "would go live" } else { "is live already" };
    writeln!(out, "{name}: revision {revision} {what}")?;
    triggers(plan, out)
}

fn validate(
    client: &Client,
    documents: &[Document],
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let mut answers = Vec::new();
    for document in documents {
        let ask = Ask::post(&["workflows", "validate"]).definition(document);
        match client.ask(ask).map_err(|failure| refused_text(document, failure)) {
            Ok(answer) => {
                let (mistakes, notes) = remarks(document, &answer["problems"]);
                wrong.extend(mistakes);
                if !json && !notes.is_empty() {
                    writeln!(out, "{}", notes.join("\n\n"))?;
                }
                answers.push(answer);
            }
            Err(Failure::Mistake(said)) => wrong.push(said),
            Err(other) => return Err(other),
        }
    }
    if json {
        shown::json(out, &Value::Array(answers))?;
    }
    if !wrong.is_empty() {
        return Err(Failure::Mistake(wrong.join("\n\n")));
    }
    if !json {
        writeln!(out, "{} fine", crate::validate::counted(documents.len(), "definition"))?;
    }
    Ok(())
}

fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|workflow| {
        vec![
            Cell::plain(field(workflow, "id")),
            Cell::plain(field(workflow, "name")),
            Cell::plain(field(workflow, "version")),
            status(workflow),
            Cell::styled(field(workflow, "description"), DIM),
        ]
    });
    table(out, &["ID", "NAME", "VERSION", "STATUS", "FOR"], rows.collect())?;
    shown::more(out, page)
}

/// The status of a workflow. Archived takes precedence over paused, because an archived workflow
/// starts nothing anyway.
fn status(workflow: &Value) -> Cell {
    let is_paused = workflow["paused"] == true && workflow["status"] != "archived";
    if is_paused { state("paused") } else { state(&field(workflow, "status")) }
}

fn line(workflow: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let (name, version) = (field(workflow, "name"), field(workflow, "version"));
    Ok(writeln!(out, "workflow {name} {version}: {}", status(workflow).paint(0))?)
}

fn show(client: &Client, workflow: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let title = format!("workflow {} {}", field(workflow, "name"), field(workflow, "version"));
    shown::details(
        out,
        &title,
        vec![
            ("id", Cell::plain(field(workflow, "id"))),
            ("for", Cell::plain(field(workflow, "description"))),
            ("status", status(workflow)),
            ("paused", Cell::plain(field(workflow, "paused_reason"))),
            ("resuming", Cell::plain(field(workflow, "on_resume"))),
            ("created", time(workflow, "created_at")),
            ("updated", time(workflow, "updated_at")),
        ],
    )?;
    let id = field(workflow, "id");
    let schedules = client.ask(Ask::get(&["schedules"]).with("workflow_id", Some(&id)))?;
    let rows: Vec<Vec<Cell>> = shown::items(&schedules)
        .iter()
        .map(|schedule| {
            vec![
                Cell::plain(field(schedule, "id")),
                Cell::plain(field(schedule, "name")),
                state(&field(schedule, "status")),
                time(schedule, "next_run_at"),
                schedule_views::coming(schedule),
            ]
        })
        .collect();
    if !rows.is_empty() {
        writeln!(out)?;
        table(out, &["SCHEDULE", "NAME", "STATUS", "NEXT", ""], rows)?;
    }
    handlers::show(workflow, out)
}
