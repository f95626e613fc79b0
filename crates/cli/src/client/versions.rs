//! `punctual workflow versions` and `diff`: lists versions and shows the changes between two of
//! them.

use std::io::Write;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::shown::{self, field, state, table, time};
use super::{Ask, Client};
use crate::args::remote::PageArgs;
use crate::failure::Failure;
use crate::terminal::{ADDED, Cell, DIM, OFF};

/// Unchanged lines shown around a change.
const AROUND: usize = 3;

/// Lists the versions of a workflow, newest first.
pub(super) fn list(
    client: &Client,
    name: &str,
    page: &PageArgs,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let path = ["workflows", name, "versions"];
    let ask = Ask::get(&path).with("limit", Some(page.limit)).with("cursor", page.cursor.as_ref());
    let page = client.ask(ask)?;
    if as_json {
        return shown::json(out, &page);
    }
    let rows = shown::items(&page).iter().map(|version| {
        let is_live = version["revision"] == version["live_revision"];
        vec![
            Cell::plain(field(version, "revision")),
            Cell::plain(field(version, "version")),
            if is_live { state("live") } else { Cell::plain("") },
            time(version, "saved_at"),
            Cell::styled(field(version, "description"), DIM),
        ]
    });
    table(out, &["REVISION", "VERSION", "", "SAVED", "FOR"], rows.collect())?;
    shown::more(out, &page)
}

/// Shows the changes from one revision to another. The default is from the live one to the newest;
/// if the newest is live, from the one before it.
pub(super) fn diff(
    client: &Client,
    name: &str,
    from: Option<u32>,
    to: Option<u32>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let known = client.ask(Ask::get(&["workflows", name]))?;
    let number = |key: &str| known[key].as_u64().and_then(|n| u32::try_from(n).ok());
    let newest = number("versions").unwrap_or(1);
    let to = to.unwrap_or(newest);
    let live = number("live_revision").filter(|live| *live < to);
    let from = from.or(live).unwrap_or(to.saturating_sub(1).max(1));
    let (before, after) = (source(client, name, from)?, source(client, name, to)?);
    let diff = TextDiff::from_lines(&before, &after);
    let mut unified = diff.unified_diff();
    unified.context_radius(AROUND);
    if as_json {
        let text = unified.to_string();
        return shown::json(out, &json!({ "from": from, "to": to, "diff": text }));
    }
    if before == after {
        return Ok(writeln!(out, "revisions {from} and {to} of {name} say the same")?);
    }
    writeln!(out, "--- {name} revision {from}\n+++ {name} revision {to}")?;
    for hunk in unified.iter_hunks() {
        writeln!(out, "{}", Cell::styled(hunk.header().to_string(), DIM).paint(0))?;
        for change in hunk.iter_changes() {
            let line = format!("{}{}", change.tag(), change.value().trim_end_matches('\n'));
            let line = match change.tag() {
                ChangeTag::Delete => Cell::styled(line, OFF),
                ChangeTag::Insert => Cell::styled(line, ADDED),
                ChangeTag::Equal => Cell::plain(line),
            };
            writeln!(out, "{}", line.paint(0))?;
        }
    }
    Ok(())
}

fn source(client: &Client, name: &str, revision: u32) -> Result<String, Failure> {
    let path = ["workflows", name];
    let ask = Ask::get(&path).with("revision", Some(revision));
    let workflow: Value = client.ask(ask)?;
    Ok(field(&workflow, "source"))
}
