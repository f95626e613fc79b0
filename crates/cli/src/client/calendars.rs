//! `punctual calendar put`: declares a calendar on the node.

use std::io::Write;
use std::path::Path;

use reqwest::Method;
use serde::Deserialize;

use super::apply::refused_text;
use super::shown::{self, field};
use super::{Ask, Client};
use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::NOTE;

/// The only field of a calendar that is read here: the node checks the rest.
#[derive(Deserialize)]
struct Named {
    id: Option<String>,
}

pub(crate) fn put_calendar(
    file: &Path,
    id: Option<&str>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let document = Document::read(file)?;
    let wrong = |what: &str| Failure::Mistake(format!("{}: {what}", document.name));
    if document.has_field("calendars") {
        return Err(wrong("a list of calendars\n  try: a file for each, with the fields of one"));
    }
    let id = match id {
        Some(id) => id.to_owned(),
        None => document.parse::<Named>()?.id.ok_or_else(|| {
            wrong("the calendar has no id\n  try: id: NAME in the file, or --id NAME")
        })?,
    };
    let path = ["calendars", id.as_str()];
    let ask = Ask::get(&path).method(Method::PUT).definition(&document);
    let put =
        Client::from_environment()?.ask(ask).map_err(|failure| refused_text(&document, failure))?;
    if as_json {
        return shown::json(out, &put);
    }
    writeln!(
        out,
        "calendar {id} is declared; schedules recomputed: {}",
        field(&put, "recomputed")
    )?;
    for warning in put["warnings"].as_array().into_iter().flatten() {
        writeln!(out, "{NOTE}{}{NOTE:#}", field(warning, "message"))?;
    }
    Ok(())
}
