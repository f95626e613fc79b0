//! Runs `punctual token …` and `punctual audit`.

use std::io::Write;

use serde_json::{Value, json};

use super::shown::{self, field, state, table, time};
use super::{Ask, Client};
use crate::args::access::{AuditArgs, TokenArgs, TokenCommand};
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual token …`.
pub(crate) fn tokens(args: &TokenArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    match &args.command {
        TokenCommand::Create { name, role, queue, expires } => {
            let mut body = json!({ "name": name, "roles": role });
            if !queue.is_empty() {
                body["queues"] = json!(queue);
            }
            if let Some(expires) = expires {
                body["expires_in"] = Value::from(expires.as_str());
            }
            let made = client.ask(Ask::post(&["tokens"]).json(&body))?;
            if args.json { shown::json(out, &made) } else { show(&made, out) }
        }
        TokenCommand::List => {
            let tokens = client.ask(Ask::get(&["tokens"]))?;
            if args.json { shown::json(out, &tokens) } else { list(&tokens, out) }
        }
        TokenCommand::Revoke { token } => {
            let revoked = client.ask(Ask::post(&["tokens", token, "revoke"]))?;
            if args.json {
                return shown::json(out, &revoked);
            }
            Ok(writeln!(out, "token {} is revoked", field(&revoked, "name"))?)
        }
    }
}

fn show(made: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = vec![
        ("roles", Cell::plain(texts(&made["roles"]))),
        ("queues", queues(made)),
        ("expires", expiry(made)),
        ("secret", Cell::plain(field(made, "secret"))),
    ];
    shown::details(out, &format!("token {}", field(made, "name")), rows)?;
    Ok(writeln!(out, "{DIM}the secret is shown this once: PUNCTUAL_TOKEN=SECRET{DIM:#}")?)
}

fn texts(list: &Value) -> String {
    shown::items(list).iter().map(shown::plain).collect::<Vec<_>>().join(", ")
}

/// Whether the node could not read the stored row of this token. The node then answers only its id
/// and name.
fn is_unreadable(token: &Value) -> bool {
    token["created_at"].is_null()
}

fn queues(token: &Value) -> Cell {
    if is_unreadable(token) {
        Cell::plain("")
    } else if token["queues"].is_null() {
        Cell::styled("all", DIM)
    } else {
        Cell::plain(texts(&token["queues"]))
    }
}

fn expiry(token: &Value) -> Cell {
    if token["expires_at"].is_null() && !is_unreadable(token) {
        Cell::styled("never", DIM)
    } else {
        time(token, "expires_at")
    }
}

fn list(tokens: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = shown::items(tokens).iter().map(|token| {
        vec![
            Cell::plain(field(token, "id")),
            Cell::plain(field(token, "name")),
            state(&field(token, "status")),
            Cell::plain(texts(&token["roles"])),
            queues(token),
            expiry(token),
            time(token, "created_at"),
            Cell::plain(field(token, "created_by")),
        ]
    });
    let headings = ["ID", "NAME", "STATUS", "ROLES", "QUEUES", "EXPIRES", "MADE", "BY"];
    table(out, &headings, rows.collect())
}

pub(crate) fn audit(args: &AuditArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    let page = client.ask(
        Ask::get(&["audit"])
            .with("who", args.who.as_ref())
            .with("since", args.since.as_ref())
            .with("limit", Some(args.page.limit))
            .with("cursor", args.page.cursor.as_ref()),
    )?;
    if args.json {
        return shown::json(out, &page);
    }
    let rows = shown::items(&page).iter().map(|change| {
        vec![
            time(change, "at"),
            Cell::plain(field(change, "who")),
            Cell::styled(field(change, "from"), DIM),
            Cell::plain(done(change)),
            Cell::plain(field(change, "detail")),
        ]
    });
    table(out, &["AT", "WHO", "FROM", "WHAT", "DETAIL"], rows.collect())?;
    shown::more(out, &page)
}

/// The HTTP method and the path of a change.
fn done(change: &Value) -> String {
    let action = field(change, "action");
    let method = action.split(' ').next().unwrap_or_default();
    format!("{method} {}", field(change, "target"))
}
