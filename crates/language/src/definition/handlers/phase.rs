//! What producers and consumers have in common: their names and their phases.

use std::collections::HashSet;

use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading, names};
use crate::definition::steps::{self, Action, script};
use crate::definition::text::{Flaw, Kind, cut, join};

/// The types of action that a phase can be.
pub(crate) const TYPES: [&str; 4] = ["script", "http", "exec", "worker"];

/// The example of a phase for a flaw: a function in a script, an action elsewhere.
pub(crate) fn remedy(
    reading: &Reading<'_>,
    function: &'static str,
    action: &'static str,
) -> &'static str {
    if reading.is_described() { function } else { action }
}

/// Names that were used, to find a second use.
#[derive(Default)]
pub(crate) struct Names<'n>(HashSet<&'n str>);

impl<'n> Names<'n> {
    /// The handlers of a mapping by name. Those with invalid names are left out.
    pub(crate) fn read(
        &mut self,
        reading: &mut Reading<'_>,
        field: &Field<'n>,
    ) -> Vec<(&'n str, Field<'n>)> {
        let entries = reading.named(field, "a mapping of names to handlers").unwrap_or_default();
        if self.0.len() + entries.len() > limits::HANDLERS {
            let count = self.0.len() + entries.len();
            let flaw = Flaw::new("limit", format!("{count} producers and consumers"));
            reading.refuse(field, flaw.allow(format!("at most {}", limits::HANDLERS)));
            return Vec::new();
        }
        let mut handlers = Vec::new();
        for entry in entries {
            let (name, path) = (entry.key.as_str(), join(&field.path, &entry.key));
            let is_new = self.0.insert(name);
            if !names::is_handler(name) {
                let message = format!("{} is not the name of a handler", names::quoted(name));
                let allowed = format!(
                    "letters, digits, _ and -, beginning with a letter, at most {} characters",
                    limits::NAME_LENGTH
                );
                reading.report(&path, entry.key_span, Flaw::new("name", message).allow(allowed));
            } else if !is_new {
                let message = format!("there is a producer with the name {name} already");
                reading.report(&path, entry.key_span, Flaw::new("repeated", message));
            }
            handlers.push((name, Field { path, node: &entry.value }));
        }
        handlers
    }
}

/// Reads a phase: `{ type: http, … }`, `{ script: … }`, or a script alone. Its texts may mention
/// the phases in `before`.
pub(crate) fn read(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    before: &[&str],
) -> Option<Action> {
    let remedy = remedy(reading, "async (ctx, state) => { … }", "{ script: return state }");
    let action = match &field.node.kind {
        Kind::Text(_) | Kind::Function(_) => script::source_of(reading, field).map(Action::Script),
        Kind::Map(_) => {
            let fields = Fields::of(reading, field, remedy)?;
            let is_short =
                field.node.entry("type").is_none() && field.node.entry("script").is_some();
            if is_short {
                short(reading, fields)
            } else {
                steps::action_within(reading, fields, &TYPES, None)
            }
        }
        _ => {
            let message =
                format!("expected a script or an action, found {}", field.node.describe());
            reading.refuse(field, Flaw::new("type", message).suggest(remedy));
            None
        }
    };
    known(reading, before);
    action
}

fn short(reading: &mut Reading<'_>, mut fields: Fields<'_>) -> Option<Action> {
    let script = fields.require("script", "script: return state");
    let script = script.and_then(|field| script::source_of(reading, &field));
    fields.finish(reading);
    script.map(Action::Script)
}

/// Reports mentions of steps. A phase sees only the phases before it, as steps, and no steps of the
/// workflow.
fn known(reading: &mut Reading<'_>, before: &[&str]) {
    for reference in reading.templates.take() {
        let id = reference.id.as_str();
        if before.contains(&id) {
            continue;
        }
        let message = format!("steps.{} is not known here", cut(id));
        let flaw = Flaw::new("no-step", message).did_you_mean(id, before.iter().copied());
        let phases: Vec<String> = before.iter().map(|phase| format!("steps.{phase}")).collect();
        let allowed = if phases.is_empty() {
            "no steps: nothing runs before this phase".to_owned()
        } else {
            phases.join(", ")
        };
        reading.report(&reference.path, reference.span, flaw.allow(allowed));
    }
}
