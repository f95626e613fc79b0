//! `punctual validate`: reports every mistake in definitions, without a node.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use calendar::{Calendar, Zones};
use language::definition::{Definition, Flaw, ReadContext};
use serde_json::{Value, json};

use crate::args::remote::ValidateArgs;
use crate::calendars::load;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::scripts;
use crate::terminal::NOTE;

pub(crate) fn run(args: &ValidateArgs, zones: &Zones, out: &mut dyn Write) -> Result<(), Failure> {
    let calendars = match &args.calendars {
        Some(path) => load::calendars(path, zones, None)?,
        None => Vec::new(),
    };
    let named = calendars.into_iter().map(|calendar| (calendar.id().to_owned(), calendar));
    let checker = Checker { zones, calendars: named.collect() };
    let (mut documents, mut unreadable) = (Vec::new(), Vec::new());
    for path in &args.files {
        match Document::read(path) {
            Ok(document) => documents.push(document),
            Err(Failure::Mistake(told)) => unreadable.push((path, told)),
            Err(failure) => return Err(failure),
        }
    }
    let checked = documents.iter().map(|text| checker.check(text));
    let checked = checked.collect::<Result<Vec<Checked>, Failure>>()?;
    let wrong = checked.iter().filter(|checked| !checked.flaws.is_empty()).count();
    if args.json {
        let pairs = documents.iter().zip(&checked);
        let read = pairs.map(|(text, checked)| checked.json(text));
        let all: Vec<Value> =
            read.chain(unreadable.iter().map(|(path, told)| unreadable_json(path, told))).collect();
        let wrong = wrong + unreadable.len();
        serde_json::to_writer_pretty(&mut *out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
        let said = format!("{wrong} of {} wrong", counted(all.len(), "definition"));
        return if wrong == 0 { Ok(()) } else { Err(Failure::Mistake(said)) };
    }
    for (document, checked) in documents.iter().zip(&checked) {
        for warning in &checked.warnings {
            writeln!(out, "{NOTE}{}{NOTE:#}", placed(document, warning))?;
        }
    }
    if wrong == 0 && unreadable.is_empty() {
        return Ok(writeln!(out, "{} fine", counted(checked.len(), "definition"))?);
    }
    let pairs = documents.iter().zip(&checked);
    let told = pairs.flat_map(|(text, checked)| checked.flaws.iter().map(|f| placed(text, f)));
    let told: Vec<String> = told.chain(unreadable.into_iter().map(|(_, told)| told)).collect();
    Err(Failure::Mistake(told.join("\n\n")))
}

/// Checks definitions against zones and calendars.
pub(crate) struct Checker<'a> {
    pub(crate) zones: &'a Zones,
    /// Calendars that definitions may refer to, by id.
    pub(crate) calendars: HashMap<String, Calendar>,
}

/// The result of checking a definition.
pub(crate) struct Checked {
    /// The definition, if it has no mistakes.
    pub(crate) definition: Option<Definition>,
    pub(crate) flaws: Vec<Flaw>,
    /// Warnings: valid, but perhaps unexpected.
    pub(crate) warnings: Vec<Flaw>,
}

impl Checker<'_> {
    pub(crate) fn check(&self, document: &Document) -> Result<Checked, Failure> {
        let find = |id: &str| self.calendars.get(id).cloned();
        let context = ReadContext { zones: self.zones, now: clock::now(), known_calendar: &find };
        let source = scripts::source(document)?;
        Ok(match source.and_then(|source| source.read(&context)) {
            Ok((definition, warnings)) => {
                Checked { definition: Some(definition), flaws: Vec::new(), warnings }
            }
            Err(flaws) => Checked { definition: None, flaws, warnings: Vec::new() },
        })
    }
}

impl Checked {
    fn json(&self, document: &Document) -> Value {
        let list = |flaws: &[Flaw]| flaws.iter().map(flaw_json).collect::<Vec<Value>>();
        json!({
            "file": document.name,
            "name": self.definition.as_ref().map(|definition| &definition.name),
            "valid": self.flaws.is_empty(),
            "errors": list(&self.flaws),
            "warnings": list(&self.warnings),
        })
    }
}

/// A file that cannot be read, in the form of a definition with one mistake.
fn unreadable_json(path: &Path, told: &str) -> Value {
    json!({
        "file": path.display().to_string(),
        "name": Value::Null,
        "valid": false,
        "errors": [{ "code": "unreadable", "message": told }],
        "warnings": [],
    })
}

fn flaw_json(flaw: &Flaw) -> Value {
    json!({
        "path": flaw.path,
        "code": flaw.code,
        "message": flaw.message,
        "line": flaw.line,
        "column": flaw.column,
        "allowed": flaw.allowed,
        "try": flaw.remedy,
    })
}

/// Formats a mistake as `file:line:column: message`, the line, a caret, a remedy.
pub(crate) fn placed(document: &Document, flaw: &Flaw) -> String {
    match flaw.line {
        0 => format!("{}: {flaw}", document.name),
        line => format!("{}:{line}:{}: {flaw}", document.name, flaw.column),
    }
}

/// Formats a count: `1 definition`, `3 definitions`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Whether a file of a folder holds a definition, by its name. A broken link counts as a file that
/// cannot be read, unless its name is hidden, as those of editors' lock files are.
pub(crate) fn is_definition(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let leads_nowhere = path.is_symlink() && !path.exists() && !is_hidden;
    (path.is_file() || leads_nowhere)
        && matches!(ending, Some("yaml" | "yml" | "json" | "js" | "mjs"))
}
