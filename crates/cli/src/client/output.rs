//! Prints the output of a run's commands and scripts as it arrives.

use std::collections::HashMap;
use std::io::Write;

use serde_json::Value;

use super::shown::field;
use super::{Ask, Client};
use crate::failure::Failure;
use crate::terminal::{Cell, DIM};

/// How much of each step's output was printed, by step id.
#[derive(Default)]
pub(super) struct Said(HashMap<String, Shown>);

#[derive(Default)]
struct Shown {
    attempt: u64,
    /// Bytes of this attempt's output that were printed.
    bytes: u64,
    has_ended: bool,
}

impl Said {
    /// Prints the lines of a step that have arrived since the last call.
    pub(super) fn tell(
        &mut self,
        client: &Client,
        run: &Value,
        step: &Value,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (id, attempts) = (field(step, "id"), step["attempts"].as_u64().unwrap_or_default());
        let speaks = matches!(step["type"].as_str(), Some("exec" | "script"));
        if !speaks || attempts == 0 {
            return Ok(());
        }
        let is_running = step["status"] == "running";
        let shown = self.0.entry(id.clone()).or_default();
        if shown.attempt != attempts {
            *shown = Shown { attempt: attempts, ..Shown::default() };
        }
        if std::mem::replace(&mut shown.has_ended, !is_running) {
            Ok(())
        } else {
            tell_one(client, run, &id, shown, out)
        }
    }
}

fn tell_one(
    client: &Client,
    run: &Value,
    id: &str,
    shown: &mut Shown,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let path = ["runs", &field(run, "id"), "steps", id, "output"];
    // Failing to read the output is no reason to stop following the run.
    let Ok(said) = client.ask(Ask::get(&path)) else { return Ok(()) };
    let text = said["text"].as_str().unwrap_or_default();
    let offset = said["offset"].as_u64().unwrap_or_default();
    if said["attempt"].as_u64() != Some(shown.attempt) {
        return Ok(());
    }
    let from = usize::try_from(shown.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
    let Some(new) = text.get(from..) else { return Ok(()) };
    // An incomplete line is printed when the rest has arrived.
    let whole = if shown.has_ended { new.len() } else { new.rfind('\n').map_or(0, |at| at + 1) };
    shown.bytes = shown.bytes.max(offset) + whole as u64;
    for line in new[..whole].lines() {
        let name = Cell::styled(id, DIM).paint(16);
        writeln!(out, "  {name} {DIM}|{DIM:#} {}", harmless(line))?;
    }
    Ok(())
}

/// Replaces control characters, so that a line cannot affect the terminal.
fn harmless(line: &str) -> String {
    let shown =
        |letter: char| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter };
    line.chars().map(shown).collect()
}
