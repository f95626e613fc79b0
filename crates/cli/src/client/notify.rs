//! Runs `punctual notify …` and `punctual incident …`.

use std::io::Write;

use serde_json::{Value, json};

use super::shown::{self, distance, field, table};
use super::{Ask, Client, schedules};
use crate::args::notify::{IncidentArgs, IncidentCommand, NotifyArgs, NotifyCommand};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual notify …`.
pub(crate) fn notify(args: &NotifyArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    match &args.command {
        NotifyCommand::Test { channel } => {
            let body = json!({ "channel": channel });
            let sent = client.ask(Ask::post(&["channels", "test"]).json(&body))?;
            if args.json {
                return shown::json(out, &sent);
            }
            Ok(writeln!(out, "a test message was sent: {}", field(&sent, "channel"))?)
        }
        NotifyCommand::Channels => {
            let channels = client.ask(Ask::get(&["channels"]))?;
            if args.json { shown::json(out, &channels) } else { list(&channels, out) }
        }
    }
}

fn list(channels: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(channels).iter().map(|channel| {
        let is_set_up = channel["configured"] == true;
        vec![
            Cell::plain(field(channel, "kind")),
            Cell::plain(if is_set_up { "set up" } else { "not set up" }.to_owned()),
            Cell::plain(through(channel)),
            Cell::styled(field(channel, "remedy"), DIM),
        ]
    });
    table(out, &["CHANNEL", "STATE", "THROUGH", "TRY"], rows.collect())?;
    for (key, what) in [("on_failure", "on failure"), ("on_recovery", "on recovery")] {
        writeln!(out, "{what}: {}", listed(&channels[key], "nobody, unless a definition says so"))?;
    }
    if let Some(url) = channels["public_url"].as_str() {
        writeln!(out, "links begin with {url}")?;
    }
    Ok(())
}

fn through(channel: &Value) -> String {
    if let (Some(host), Some(from)) = (channel["host"].as_str(), channel["from"].as_str()) {
        return format!("{host}, from {from}");
    }
    let others = if channel["other_hosts"] == true { "every other host" } else { "" };
    let hosts = listed(&channel["hosts"], "");
    match (hosts.is_empty(), others.is_empty()) {
        (false, false) => format!("{hosts}, {others}"),
        (false, true) => hosts,
        (true, false) => "every host".to_owned(),
        (true, true) => String::new(),
    }
}

fn listed(texts: &Value, none: &str) -> String {
    let texts: Vec<String> = shown::items(texts).iter().map(shown::plain).collect();
    if texts.is_empty() { none.to_owned() } else { texts.join(", ") }
}

/// Runs `punctual incident …`.
pub(crate) fn incidents(args: &IncidentArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    let IncidentCommand::List { open, workflow, schedule, page } = &args.command;
    let schedule = schedule.as_deref().map(|named| schedules::find(&client, named));
    let page = client.ask(
        Ask::get(&["incidents"])
            .with("open", open.then_some(true))
            .with("workflow", workflow.as_ref())
            .with("schedule_id", schedule.transpose()?)
            .with("limit", Some(page.limit))
            .with("cursor", page.cursor.as_ref()),
    )?;
    if args.json {
        return shown::json(out, &page);
    }
    let now = clock::instant();
    let rows = shown::items(&page).iter().map(|incident| {
        let of = incident["schedule"].as_str().or(incident["workflow"].as_str());
        let state = incident["ending"].as_str().unwrap_or("open");
        vec![
            Cell::plain(field(incident, "id")),
            Cell::plain(of.unwrap_or_default().to_owned()),
            Cell::plain(state.to_owned()),
            distance(incident, "began_at", now),
            Cell::plain(field(incident, "run_id")),
            Cell::plain(told(&incident["told"])),
            Cell::plain(field(incident, "error").lines().next().unwrap_or_default().to_owned()),
        ]
    });
    table(out, &["ID", "OF", "STATE", "SINCE", "RUN", "TOLD", "ERROR"], rows.collect())?;
    if shown::items(&page).is_empty() {
        writeln!(out, "{DIM}there is no incident{DIM:#}")?;
    }
    shown::more(out, &page)
}

fn told(all: &Value) -> String {
    let one = |told: &Value| match told["refused"].as_str() {
        Some(why) => format!("not {}: {why}", field(told, "what")),
        None => field(told, "what"),
    };
    shown::items(all).iter().map(one).collect::<Vec<_>>().join(", ")
}
