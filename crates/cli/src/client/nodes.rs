//! Runs `punctual node …`.

use std::io::Write;

use serde_json::Value;

use super::shown::{self, distance, field, table, time};
use super::{Ask, Client};
use crate::args::remote::{NodeArgs, NodeCommand};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// Runs `punctual node …`.
pub(crate) fn run(args: &NodeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::from_environment()?;
    match args.command {
        NodeCommand::List => {
            let nodes = client.ask(Ask::get(&["nodes"]))?;
            if args.json { shown::json(out, &nodes) } else { list(&nodes, out) }
        }
    }
}

/// What the node found after downtime, in a few words.
fn recovered(counts: &Value) -> String {
    let words = [
        ("missed", "missed"),
        ("made_up", "made up for"),
        ("coalesced", "coalesced"),
        ("taken_over", "taken over"),
    ];
    let told = words.iter().filter_map(|(key, word)| {
        let count = counts[*key].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {word}"))
    });
    told.collect::<Vec<_>>().join(", ")
}

fn list(nodes: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let now = clock::instant();
    let rows = shown::items(nodes).iter().map(|node| {
        let asked = if node["is_this"] == true { "this one answers" } else { "" };
        vec![
            Cell::plain(field(node, "id")),
            Cell::plain(field(node, "name")),
            time(node, "started_at"),
            distance(node, "seen_at", now),
            Cell::plain(field(node, "attempts")),
            Cell::plain(field(node, "capacity")),
            Cell::plain(recovered(&node["recovered"])),
            Cell::styled(asked, DIM),
        ]
    });
    table(out, &["ID", "NAME", "SINCE", "SEEN", "ATTEMPTS", "OF", "RECOVERED", ""], rows.collect())
}
