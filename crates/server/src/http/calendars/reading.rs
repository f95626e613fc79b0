//! Reads a calendar from a request: JSON or YAML, of limited size.

use std::fmt;

use calendar::CalendarSpec;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::http::body::{RawBody, read_json};
use crate::http::problem::{Problem, Wrong};

/// A century of weekends. More dates are a mistake, and take long to compute.
const MOST_DATES: usize = 10_000;
/// More parts than anyone can follow.
const MOST_PARTS: usize = 100;
/// Ids are shown in tables and are parts of paths.
const LONGEST_ID: usize = 64;

/// The declaration in the body, with the id of the path.
pub(super) fn spec(id: &str, body: &RawBody) -> Result<CalendarSpec, Problem> {
    let Mapping(mut spec) = match body.content_type.as_deref() {
        Some("application/json") => {
            body.require_json()?;
            read_json(&body.text)?
        }
        Some("application/yaml" | "text/yaml" | "application/x-yaml" | "text/x-yaml") => {
            serde_saphyr::from_str(&body.text).map_err(|error| unreadable(&error))?
        }
        kind => {
            return Err(Problem::wrong_type(format!(
                "The body is {}. Send Content-Type: application/json or application/yaml.",
                kind.unwrap_or("nothing")
            )));
        }
    };
    let wrong = mistakes(id, &spec);
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    id.clone_into(&mut spec.id);
    Ok(spec)
}

/// A declaration as a mapping: a list of values in the order of the keys is refused.
struct Mapping(CalendarSpec);

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mapping, D::Error> {
        struct PageContext;
        impl<'de> Visitor<'de> for PageContext {
            type Value = CalendarSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the keys of a calendar")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CalendarSpec, A::Error> {
                CalendarSpec::deserialize(MapAccessDeserializer::new(map))
            }
        }
        // If asked for a mapping, the parser would accept YAML's `null` as an empty one.
        deserializer.deserialize_any(PageContext).map(Mapping)
    }
}

fn mistakes(id: &str, spec: &CalendarSpec) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !first || !id.chars().all(plain) || id.len() > LONGEST_ID {
        let allowed = format!("letters, digits, - _ . and at most {LONGEST_ID} characters");
        wrong.push(Wrong::new("id", "name", "is not an id").allow(allowed));
    }
    if !spec.id.is_empty() && spec.id != id {
        wrong.push(Wrong::new("id", "conflict", "is another id than that of the path"));
    }
    let mut limit = |path: &str, count: usize, most: usize| {
        if count > most {
            let message = format!("{count} entries are too many");
            wrong.push(Wrong::new(path, "limit", message).allow(format!("at most {most}")));
        }
    };
    limit("holidays", spec.holidays.len(), MOST_DATES);
    limit("exceptions", spec.exceptions.len(), MOST_DATES);
    limit("hours", spec.hours.as_ref().map_or(0, |hours| hours.len()), MOST_PARTS);
    limit("union", spec.union.len(), MOST_PARTS);
    limit("intersection", spec.intersection.len(), MOST_PARTS);
    limit("all_but", spec.all_but.len(), MOST_PARTS);
    wrong
}

fn unreadable(error: &serde_saphyr::Error) -> Problem {
    let message = error.without_snippet().to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
    let mut wrong = Wrong::new("", "document", calendar::without_type_names(message));
    if let Some(at) = error.location().filter(|at| at.line() > 0) {
        (wrong.line, wrong.column) = (Some(at.line() as usize), Some(at.column() as usize));
    }
    Problem::invalid([wrong])
}
