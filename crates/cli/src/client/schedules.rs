//! Runs `punctual schedule …`.

use std::io::Write;

use reqwest::Method;
use serde_json::{Value, json};

use super::schedule_fields::fields;
use super::schedule_views::{
    backfilled, difference, line, list, next, occurrences, overridden, show,
};
use super::shown::{self, field, typed_json};
use super::{Ask, Client, runs};
use crate::args::remote::{ScheduleArgs, ScheduleCommand};
use crate::args::schedule::Id;
use crate::failure::Failure;

/// The most pages, of 200 schedules each, that are searched for a name.
const PAGES: usize = 50;
/// The most schedules of one name that a message lists.
const TOLD: usize = 10;

/// Runs `punctual schedule …`.
pub(crate) fn run(args: &ScheduleArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let asking = Asking { client: Client::from_environment()?, json: args.json };
    match &args.command {
        ScheduleCommand::List { status, workflow, query, page } => {
            let ask = Ask::get(&["schedules"])
                .with("status", status.as_ref())
                .with("workflow_id", workflow.as_ref())
                .with("q", query.as_ref())
                .with("limit", Some(page.limit))
                .with("cursor", page.cursor.as_ref());
            asking.tell(ask, out, list)
        }
        ScheduleCommand::Show(which) => {
            let id = asking.find(which)?;
            asking.tell(Ask::get(&["schedules", &id]), out, show)
        }
        ScheduleCommand::Create { name, workflow, fields: given } => {
            let mut body = fields(given)?;
            body.insert("name".to_owned(), name.clone().into());
            if let Some(workflow) = workflow {
                body.insert("workflow_id".to_owned(), workflow.clone().into());
            }
            asking.tell(Ask::post(&["schedules"]).json(&Value::Object(body)), out, show)
        }
        ScheduleCommand::Edit { which, name, fields: given, dry_run } => {
            let mut body = fields(given)?;
            body.extend(name.clone().map(|name| ("name".to_owned(), name.into())));
            if body.is_empty() {
                let message = "nothing is to be changed\n  try: --cron, --set FIELD=VALUE, …";
                return Err(Failure::Mistake(message.to_owned()));
            }
            let id = asking.find(which)?;
            let path = ["schedules", &id];
            let ask = Ask::get(&path).method(Method::PATCH).json(&Value::Object(body));
            if *dry_run {
                asking.tell(ask.with("dry_run", Some(true)), out, difference)
            } else {
                asking.tell(ask, out, show)
            }
        }
        ScheduleCommand::Pause(which) => asking.verb(which, "pause", out),
        ScheduleCommand::Enable(which) => asking.verb(which, "enable", out),
        ScheduleCommand::Disable(which) => asking.verb(which, "disable", out),
        ScheduleCommand::Revive(which) => asking.verb(which, "revive", out),
        ScheduleCommand::Resume { which, catch_up } => {
            let id = asking.find(which)?;
            let path = ["schedules", &id, "resume"];
            let ask = Ask::post(&path).json(&json!({ "catch_up": catch_up }));
            asking.tell(ask, out, line)
        }
        other => asking.occurrences_of(other, out),
    }
}

/// The id of the schedule with this id; or of the trigger `workflow/trigger`, whatever its name and
/// the names of others; or with this name; or with the name `workflow/name` where several workflows
/// have a schedule of that name.
pub(super) fn find(client: &Client, named: &str) -> Result<String, Failure> {
    if !named.is_empty() && named.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(named.to_owned());
    }
    let mut found = with_name(client, named)?;
    // The name of a trigger's schedule itself contains a slash.
    if let Some((workflow, name)) = named.split_once('/') {
        let is_meant = |one: &Value| one["workflow"] == workflow && one["trigger"] == name;
        let mut of_workflow = with_name(client, name)?;
        of_workflow.retain(|schedule| schedule["workflow"] == workflow);
        found.extend(of_workflow);
        // A trigger usually has the name that is asked for. Otherwise it may be any schedule of
        // the workflow.
        let mut triggers: Vec<Value> = found.iter().filter(|one| is_meant(one)).cloned().collect();
        if triggers.is_empty() {
            triggers = matching(client, "workflow_id", Some(workflow.to_owned()), is_meant)?;
        }
        if let Some(trigger) = triggers.first() {
            return Ok(field(trigger, "id"));
        }
    }
    match found.as_slice() {
        [only] => Ok(field(only, "id")),
        [] => Err(Failure::Mistake(format!(
            "there is no schedule named {named}\n  try: punctual schedule list"
        ))),
        several => Err(Failure::Mistake(which_one(client, named, several)?)),
    }
}

/// All schedules with exactly this name.
fn with_name(client: &Client, name: &str) -> Result<Vec<Value>, Failure> {
    // The API searches names by the beginnings of their words, so the punctuation is removed.
    let words: Vec<&str> =
        name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let query = Some(words.join(" ")).filter(|words| !words.is_empty());
    matching(client, "q", query, |schedule| schedule["name"] == name)
}

/// The schedules that a parameter of the list finds and that are meant.
fn matching(
    client: &Client,
    parameter: &'static str,
    value: Option<String>,
    is_meant: impl Fn(&Value) -> bool,
) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let ask = Ask::get(&["schedules"]).with(parameter, value.as_ref()).with("limit", Some(200));
        let page = client.ask(ask.with("cursor", cursor.as_ref()))?;
        found.extend(shown::items(&page).iter().filter(|schedule| is_meant(schedule)).cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Lists how each of several schedules of one name can be referred to.
fn which_one(client: &Client, named: &str, several: &[Value]) -> Result<String, Failure> {
    let mut told = format!("several schedules are named {named}");
    for schedule in several.iter().take(TOLD) {
        let (id, workflow) = (field(schedule, "id"), field(schedule, "workflow"));
        let others = several.iter().filter(|other| other["workflow"] == schedule["workflow"]);
        let longer = format!("{workflow}/{}", field(schedule, "name"));
        // A trigger's schedule may have exactly that name.
        let other_name = match others.count() {
            1 if with_name(client, &longer)?.is_empty() => format!(" or {longer}"),
            _ => String::new(),
        };
        let status = field(schedule, "status");
        told.push_str(&format!("\n  try: {id}{other_name} (of workflow {workflow}, {status})"));
    }
    if several.len() > TOLD {
        told.push_str(&format!("\n  and {} more", several.len() - TOLD));
    }
    Ok(told)
}

struct Asking {
    client: Client,
    json: bool,
}

type Show = fn(&Value, &mut dyn Write) -> Result<(), Failure>;

impl Asking {
    fn find(&self, which: &Id) -> Result<String, Failure> {
        find(&self.client, &which.schedule)
    }

    fn tell(&self, ask: Ask<'_>, out: &mut dyn Write, show: Show) -> Result<(), Failure> {
        let answer = self.client.ask(ask)?;
        if self.json { shown::json(out, &answer) } else { show(&answer, out) }
    }

    fn verb(&self, which: &Id, verb: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let id = self.find(which)?;
        self.tell(Ask::post(&["schedules", &id, verb]), out, line)
    }

    fn occurrences_of(
        &self,
        command: &ScheduleCommand,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        match command {
            ScheduleCommand::Trigger { which, payload, refuse_if_busy, follow } => {
                let id = self.find(which)?;
                let mut body = json!({});
                if let Some(text) = payload {
                    body["payload"] = typed_json("--payload", text)?;
                }
                if *refuse_if_busy {
                    body["if_busy"] = "refuse".into();
                }
                let path = ["schedules", &id, "trigger"];
                let answer = self.client.ask(Ask::post(&path).json(&body))?;
                let run = self.client.ask(Ask::get(&["runs", &field(&answer, "run_id")]))?;
                runs::begun(&self.client, &run, *follow, self.json, out)
            }
            ScheduleCommand::Delete { schedules } => self.delete(schedules, out),
            ScheduleCommand::Next { which, count } => {
                let id = self.find(which)?;
                let path = ["schedules", &id, "next"];
                self.tell(Ask::get(&path).with("count", Some(count)), out, next)
            }
            ScheduleCommand::Occurrences { which, outcome, from, to, page } => {
                let id = self.find(which)?;
                let path = ["schedules", &id, "occurrences"];
                let ask = Ask::get(&path)
                    .with("outcome", outcome.as_ref())
                    .with("from", from.as_ref())
                    .with("to", to.as_ref())
                    .with("limit", Some(page.limit))
                    .with("cursor", page.cursor.as_ref());
                self.tell(ask, out, occurrences)
            }
            ScheduleCommand::Override { which, nominal, skip, move_to, payload, clear } => {
                let id = self.find(which)?;
                let path = ["schedules", &id, "occurrences", nominal];
                let body = match (move_to, payload) {
                    (Some(to), _) => json!({ "move_to": to }),
                    (_, Some(text)) => json!({ "payload": typed_json("--payload", text)? }),
                    _ => json!({ "skip": skip }),
                };
                if *clear {
                    self.tell(Ask::get(&path).method(Method::DELETE), out, overridden)
                } else {
                    self.tell(Ask::get(&path).method(Method::PUT).json(&body), out, overridden)
                }
            }
            ScheduleCommand::Backfill { which, from, to, limit, pace, again, dry_run } => {
                let id = self.find(which)?;
                let body = json!({
                    "from": from, "to": to, "limit": limit, "pace": pace, "again": again,
                    "dry_run": dry_run,
                });
                let path = ["schedules", &id, "backfill"];
                self.tell(Ask::post(&path).json(&body), out, backfilled)
            }
            _ => Ok(()),
        }
    }

    fn delete(&self, named: &[String], out: &mut dyn Write) -> Result<(), Failure> {
        let ids = named.iter().map(|named| find(&self.client, named));
        let ids = ids.collect::<Result<Vec<String>, Failure>>()?;
        match ids.as_slice() {
            [only] => {
                self.client.ask(Ask::get(&["schedules", only]).method(Method::DELETE))?;
            }
            _ => {
                let body = json!({ "schedule_ids": ids });
                self.client.ask(Ask::post(&["schedules", "batch-delete"]).json(&body))?;
            }
        }
        if self.json {
            return shown::json(out, &json!({ "deleted": ids }));
        }
        Ok(writeln!(out, "deleted: {}", ids.join(", "))?)
    }
}
