//! Names and ids: their form, and that each is used once.

use std::collections::HashMap;

use calendar::Problem;

use super::fields::Fields;
use super::{Field, Reading};
use crate::definition::limits;
use crate::definition::text::{Flaw, Span, cut};

/// Reads the name of a workflow.
pub(crate) fn workflow(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let name = reading.text(field)?;
    match check_workflow(name) {
        Ok(()) => Some(name.to_owned()),
        Err(problem) => {
            reading.problem(field, *problem);
            None
        }
    }
}

/// Checks that a workflow may have this name.
pub(crate) fn check_workflow(name: &str) -> Result<(), Box<Problem>> {
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= limits::NAME_LENGTH
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good {
        return Ok(());
    }
    let message = format!("{} is not a name", quoted(name));
    let problem = Problem::whole("name", "", message).allow(format!(
        "a-z, 0-9 and -, beginning with a letter, at most {} characters",
        limits::NAME_LENGTH
    ));
    let close = slug(name);
    Err(Box::new(if close.is_empty() { problem } else { problem.suggest(close) }))
}

/// The name reduced to the allowed characters.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(limits::NAME_LENGTH) {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() => slug.push(c),
            c if c.is_ascii_digit() && !slug.is_empty() => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Reads the id of a step, trigger or calendar.
pub(crate) fn identifier(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let id = reading.text(field)?;
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if id.len() <= limits::NAME_LENGTH
        && id.bytes().all(word)
        && id.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    {
        return Some(id.to_owned());
    }
    let flaw = Flaw::new("id", format!("{} is not an id", quoted(id))).allow(format!(
        "letters, digits, _ and -, not beginning with -, at most {} characters",
        limits::NAME_LENGTH
    ));
    reading.refuse(field, flaw);
    None
}

/// Whether this can be the name of a producer or consumer, which becomes part of paths and trigger
/// ids.
pub(crate) fn is_handler(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    name.len() <= limits::NAME_LENGTH
        && name.bytes().all(word)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

pub(crate) fn quoted(text: &str) -> String {
    if text.is_empty() { "an empty text".to_owned() } else { cut(text) }
}

/// Ids that were used, to find a second use.
#[derive(Default)]
pub(crate) struct Ids(HashMap<String, Span>);

impl Ids {
    /// Reads the `id` of an entry and reports it if it was used before.
    pub(crate) fn take(
        &mut self,
        reading: &mut Reading<'_>,
        fields: &mut Fields<'_>,
        remedy: &'static str,
    ) -> Option<String> {
        let field = fields.require("id", remedy)?;
        let id = identifier(reading, &field)?;
        if let Some(first) = self.0.get(&id) {
            let (first, _) = reading.source().position(first.start);
            let (here, _) = reading.source().position(field.node.span.start);
            let message = if reading.is_described() {
                format!("the id {id} is used twice")
            } else if first == here {
                format!("the id {id} is used twice on line {first}")
            } else {
                format!("the id {id} is used on line {first} and again on line {here}")
            };
            reading.refuse(&field, Flaw::new("repeated-id", message));
        } else {
            self.0.insert(id.clone(), field.node.span);
        }
        Some(id)
    }
}
