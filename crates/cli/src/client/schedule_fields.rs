//! Turns options into the fields of a schedule.

use serde_json::{Map, Value};

use super::shown::typed_json;
use crate::args::schedule::Fields;
use crate::document::Document;
use crate::failure::Failure;

/// The fields of the file, overridden by those of the options.
pub(super) fn fields(given: &Fields) -> Result<Map<String, Value>, Failure> {
    let mut fields = match &given.file {
        Some(path) => Document::read(path)?.parse::<Map<String, Value>>()?,
        None => Map::new(),
    };
    let texts = [
        ("cron", &given.cron),
        ("interval", &given.every),
        ("rrule", &given.rrule),
        ("at", &given.at),
        ("timezone", &given.tz),
        ("calendar", &given.calendar),
        ("roll", &given.roll),
        ("overlap", &given.overlap),
        ("catch_up", &given.catch_up),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            fields.insert(name.to_owned(), text.clone().into());
        }
    }
    if let Some(payload) = &given.payload {
        fields.insert("payload".to_owned(), typed_json("--payload", payload)?);
    }
    for set in &given.set {
        let (name, value) = set.split_once('=').ok_or_else(|| {
            Failure::Mistake(format!("--set {set}: no value\n  try: --set {set}=VALUE"))
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        fields.insert(name.to_owned(), value);
    }
    Ok(fields)
}
