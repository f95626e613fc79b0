//! Steps of type `script`, and phases that are scripts: a text, or a function of the definition's
//! own script.

use super::action::ScriptAction;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::text::{Flaw, Kind};

const REMEDY: &str = "script: return input.total * 2";

/// Reads a script. Its text is under `script` or `source`.
pub(crate) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<ScriptAction> {
    let source = fields.take("source");
    let script = match &source {
        Some(_) => fields.take("script"),
        None => fields.require("script", REMEDY),
    };
    if let (Some(_), Some(second)) = (&script, &source) {
        reading.templates.fill(second.node);
        let flaw = Flaw::new("script", "script and source are the same thing");
        reading.refuse(second, flaw.suggest("leave one out"));
    }
    script.or(source).and_then(|field| source_of(reading, &field))
}

/// Reads a text that is a script, or a function.
pub(crate) fn source_of(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<ScriptAction> {
    if let Kind::Function(entry) = &field.node.kind {
        return Some(ScriptAction { source: None, entry: entry.clone() });
    }
    let text = reading.text_such_as(field, "a text, the body of a function")?;
    reading.templates.fill(field.node);
    if text.trim().is_empty() {
        reading.refuse(field, Flaw::new("script", "an empty script").suggest(REMEDY));
        return None;
    }
    Some(ScriptAction { source: Some(text.to_owned()), entry: Vec::new() })
}
