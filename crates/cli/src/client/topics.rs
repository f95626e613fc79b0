//! Runs `punctual topic …`.

use std::env;
use std::io::{Read as _, Write};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::shown::{self, distance, field, state, table, time, typed_raw};
use super::{Ask, Client};
use crate::args::topic::{EventStateArg, TopicArgs, TopicCommand, WhichTopic};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// The largest request that a node accepts.
const LARGEST_FILE: u64 = 16 << 20;
/// How much of a payload is shown in a line.
const SHOWN: usize = 60;

/// Runs `punctual topic …`.
pub(crate) fn run(args: &TopicArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    match &args.command {
        TopicCommand::List { name, workflow, page } => {
            let page = client.ask(
                Ask::get(&["topics"])
                    .with("name", name.as_ref())
                    .with("workflow", workflow.as_ref())
                    .with("limit", Some(page.limit))
                    .with("cursor", page.cursor.as_ref()),
            )?;
            if args.json { shown::json(out, &page) } else { list(&page, out) }
        }
        TopicCommand::Show { which } => {
            let path = ["topics", &which.topic];
            let topic = client.ask(of(Ask::get(&path), which))?;
            if args.json { shown::json(out, &topic) } else { show(&topic, out) }
        }
        TopicCommand::Publish { which, id, title, payload, cause, file } => {
            let body = match (file, id) {
                (Some(file), _) => events_of(file)?,
                (None, Some(id)) => one(id, title.as_deref(), payload.as_deref(), cause)?,
                (None, None) => return Err(Failure::Mistake("--id or --file is missing".into())),
            };
            publish(&client, which, body, args.json, out)
        }
        TopicCommand::Events { which, state, oldest, page } => {
            let path = ["topics", &which.topic, "events"];
            let ask = of(Ask::get(&path), which)
                .with("state", state.map(state_name))
                .with("order", oldest.then_some("oldest"))
                .with("limit", Some(page.limit))
                .with("cursor", page.cursor.as_ref());
            let page = client.ask(ask)?;
            if args.json { shown::json(out, &page) } else { events(&page, out) }
        }
        TopicCommand::Event { which, id } => {
            let path = ["topics", &which.topic, "events", id];
            let event = client.ask(of(Ask::get(&path), which))?;
            if args.json { shown::json(out, &event) } else { show_event(&event, out) }
        }
        TopicCommand::Skip { which, id, by } => {
            let path = ["topics", &which.topic, "events", id, "skip"];
            let by = by.clone().or_else(|| env::var("USER").ok());
            let ask = of(Ask::post(&path), which).json(&json!({ "by": by }));
            let event = client.ask(ask)?;
            if args.json {
                return shown::json(out, &event);
            }
            let (state, reason) = (field(&event, "state"), field(&event, "reason"));
            Ok(writeln!(out, "event {id} of {} is {state} ({reason})", which.topic)?)
        }
    }
}

fn of<'a>(ask: Ask<'a>, which: &'a WhichTopic) -> Ask<'a> {
    ask.with("workflow", which.workflow.as_ref())
}

fn list(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    table(out, &HEADINGS, shown::items(page).iter().map(row).collect())?;
    shown::more(out, page)
}

/// The columns of a topic in a table.
pub(super) const HEADINGS: [&str; 7] =
    ["TOPIC", "OF", "PENDING", "RESERVED", "CONSUMED", "SKIPPED", "OLDEST PENDING"];

/// A topic as a row of a table.
pub(super) fn row(topic: &Value) -> Vec<Cell> {
    let count = |name: &str| Cell::plain(field(topic, name));
    vec![
        Cell::plain(field(topic, "name")),
        whose(topic),
        count("pending"),
        count("reserved"),
        count("consumed"),
        count("skipped"),
        distance(topic, "oldest_pending_at", clock::instant()),
    ]
}

fn whose(topic: &Value) -> Cell {
    if topic["shared"] == true {
        Cell::styled("shared", DIM)
    } else {
        Cell::plain(field(topic, "workflow"))
    }
}

fn show(topic: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    shown::details(
        out,
        &format!("topic {}", field(topic, "name")),
        vec![
            ("id", Cell::plain(field(topic, "id"))),
            ("of", whose(topic)),
            ("pending", Cell::plain(field(topic, "pending"))),
            ("oldest pending", time(topic, "oldest_pending_at")),
            ("reserved", Cell::plain(field(topic, "reserved"))),
            ("consumed", Cell::plain(field(topic, "consumed"))),
            ("skipped", Cell::plain(field(topic, "skipped"))),
            ("given back at most", Cell::plain(field(topic, "max_attempts"))),
            ("created", time(topic, "created_at")),
        ],
    )
}

fn events(page: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(page).iter().map(|event| {
        let what = match event["title"].as_str() {
            Some(title) => title.to_owned(),
            None => cut(&field(event, "payload")),
        };
        vec![
            Cell::plain(field(event, "message_id")),
            state(&field(event, "state")),
            Cell::plain(field(event, "attempt")),
            distance(event, "created_at", clock::instant()),
            Cell::plain(field(event, "run_id")),
            Cell::plain(what),
            Cell::styled(field(event, "reason"), DIM),
        ]
    });
    let headings = ["EVENT", "STATE", "GIVEN BACK", "PUBLISHED", "RUN", "WHAT", "WHY"];
    table(out, &headings, rows.collect())?;
    shown::more(out, page)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn show_event(event: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let causes: Vec<String> = shown::items(&event["causes"]).iter().map(shown::plain).collect();
    shown::details(
        out,
        &format!("event {}", field(event, "message_id")),
        vec![
            ("title", Cell::plain(field(event, "title"))),
            ("state", state(&field(event, "state"))),
            ("why", Cell::plain(field(event, "reason"))),
            ("given back", Cell::plain(field(event, "attempt"))),
            ("run", Cell::plain(field(event, "run_id"))),
            ("published", time(event, "created_at")),
            ("in this state since", time(event, "updated_at")),
            ("causes", Cell::plain(causes.join(", "))),
            ("payload", Cell::plain(event["payload"].to_string())),
        ],
    )
}

fn publish(
    client: &Client,
    which: &WhichTopic,
    body: String,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let path = ["topics", &which.topic, "events"];
    let answer = client.ask(of(Ask::post(&path), which).json_text(body))?;
    if json {
        return shown::json(out, &answer);
    }
    let (published, replaced) = (field(&answer, "published"), field(&answer, "replaced"));
    Ok(writeln!(out, "{published} published, {replaced} replaced in {}", which.topic)?)
}

/// One event as JSON, with its payload unchanged.
fn one(
    id: &str,
    title: Option<&str>,
    payload: Option<&str>,
    causes: &[String],
) -> Result<String, Failure> {
    let payload = typed_raw("--payload", payload.unwrap_or("null"))?;
    let (id, title, causes) = (json!(id), json!(title), json!(causes));
    Ok(format!(r#"{{"message_id":{id},"title":{title},"causes":{causes},"payload":{payload}}}"#))
}

/// Reads all events of a file: one JSON value, or one on each line.
fn events_of(file: &Path) -> Result<String, Failure> {
    let name = file.display();
    let fail = |error: std::io::Error| Failure::Environment(format!("{name}: {error}"));
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(LARGEST_FILE + 1).read_to_string(&mut text),
        _ => {
            let opened = std::fs::File::open(file).map_err(fail)?;
            opened.take(LARGEST_FILE + 1).read_to_string(&mut text)
        }
    };
    if read.map_err(fail)? as u64 > LARGEST_FILE {
        return Err(Failure::Mistake(format!(
            "{name}: more than 16 MiB of events at once\n  try: several files"
        )));
    }
    let values = serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>();
    let values = values.collect::<Result<Vec<&RawValue>, _>>().map_err(|error| {
        Failure::Mistake(format!("{name}:{}:{}: not JSON: {error}", error.line(), error.column()))
    })?;
    match values.as_slice() {
        [] => Err(Failure::Mistake(format!("{name}: there is no event in it"))),
        [one] => Ok(one.get().to_owned()),
        many => {
            let all: Vec<&str> = many.iter().map(|value| value.get()).collect();
            Ok(format!("[{}]", all.join(",")))
        }
    }
}

fn state_name(state: EventStateArg) -> &'static str {
    match state {
        EventStateArg::Pending => "pending",
        EventStateArg::Reserved => "reserved",
        EventStateArg::Consumed => "consumed",
        EventStateArg::Skipped => "skipped",
    }
}
