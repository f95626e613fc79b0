//! Runs `punctual approval …`.

use std::env;
use std::io::Write;

use serde_json::{Value, json};

use super::shown::{self, distance, field, table};
use super::{Ask, Client};
use crate::args::approval::{ApprovalArgs, ApprovalCommand, DecisionArgs};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual approval …`.
pub(crate) fn run(args: &ApprovalArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    match &args.command {
        ApprovalCommand::List { assignee, page } => {
            let page = client.ask(
                Ask::get(&["approvals"])
                    .with("assignee", assignee.as_ref())
                    .with("limit", Some(page.limit))
                    .with("cursor", page.cursor.as_ref()),
            )?;
            if args.json { shown::json(out, &page) } else { list(&page, out) }
        }
        ApprovalCommand::Approve(decision) => {
            decide(&client, decision, "approve", "approved", args.json, out)
        }
        ApprovalCommand::Reject(decision) => {
            decide(&client, decision, "reject", "rejected", args.json, out)
        }
    }
}

fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let now = clock::instant();
    let rows = shown::items(page).iter().map(|asked| {
        let who: Vec<String> = shown::items(&asked["assignees"]).iter().map(shown::plain).collect();
        let who = if who.is_empty() { "anyone".to_owned() } else { who.join(", ") };
        vec![
            Cell::plain(field(asked, "run_id")),
            Cell::plain(field(asked, "step_id")),
            Cell::plain(field(asked, "workflow")),
            Cell::plain(who),
            distance(asked, "asked_at", now),
            distance(asked, "deadline", now),
            Cell::plain(field(asked, "title")),
        ]
    });
    let headings = ["RUN", "STEP", "WORKFLOW", "FOR", "ASKED", "DUE", "WHAT"];
    table(out, &headings, rows.collect())?;
    if shown::items(page).is_empty() {
        writeln!(out, "{DIM}nobody is asked anything{DIM:#}")?;
    }
    shown::more(out, page)
}

fn decide(
    client: &Client,
    decision: &DecisionArgs,
    verb: &str,
    done: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let DecisionArgs { run, step, by, comment } = decision;
    let by = by.clone().or_else(|| env::var("USER").ok()).filter(|name| !name.trim().is_empty());
    let nobody = || Failure::Mistake("who decides is not known\n  try: --by NAME".to_owned());
    let by = by.ok_or_else(nobody)?;
    let body = json!({ "by": by, "comment": comment });
    let after = client.ask(Ask::post(&["approvals", run, step, verb]).json(&body))?;
    if json {
        return shown::json(out, &after);
    }
    let (id, status) = (field(&after, "id"), field(&after, "status"));
    Ok(writeln!(out, "step {step} of run {id} is {done} by {by} (the run is {status})")?)
}
