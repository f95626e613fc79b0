//! `punctual apply`: sends definitions to the node, or shows what they would change.

use std::io::Write;

use calendar::Problem;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::problem::{self, ErrorPlace};
use super::shown::{self, field};
use super::{Ask, Client};
use crate::args::remote::ApplyArgs;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, columns};

/// A comparison over less time than this is not called 30 days. It is less than 30 days because the
/// clocks of two machines differ a little.
const NEARLY_30_DAYS: SignedDuration = SignedDuration::from_hours(29 * 24);

pub(crate) fn apply(args: &ApplyArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let documents = args.files.iter().map(|path| Document::read(path));
    let documents = documents.collect::<Result<Vec<Document>, Failure>>()?;
    let client = Client::from_environment()?;
    // All definitions are checked before any of them is saved.
    let publish = !args.draft;
    let plans = ask_all(&client, &documents, publish, true)?;
    if args.plan {
        return tell(args, &documents, &plans, out);
    }
    let saved = ask_all(&client, &documents, publish, false)?;
    tell(args, &documents, &saved, out)
}

fn tell(
    args: &ApplyArgs,
    documents: &[Document],
    answers: &[Value],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.json {
        return shown::json(out, &Value::Array(answers.to_vec()));
    }
    for (document, answer) in documents.iter().zip(answers) {
        show(document, answer, args, out)?;
    }
    Ok(())
}

/// Sends all definitions, and reports the mistakes of all of them.
fn ask_all(
    client: &Client,
    documents: &[Document],
    publish: bool,
    dry_run: bool,
) -> Result<Vec<Value>, Failure> {
    let mut answers = Vec::new();
    let mut wrong = Vec::new();
    for document in documents {
        let ask = Ask::post(&["workflows"])
            .with("publish", publish.then_some(true))
            .with("dry_run", dry_run.then_some(true))
            .definition(document);
        match client.ask(ask).map_err(|failure| refused_text(document, failure)) {
            Ok(answer) => answers.push(answer),
            Err(Failure::Mistake(said)) => wrong.push(said),
            Err(other) => return Err(other),
        }
    }
    if wrong.is_empty() { Ok(answers) } else { Err(Failure::Mistake(wrong.join("\n\n"))) }
}

/// Adds the positions in the file to a node's refusal of a text.
pub(super) fn refused_text(document: &Document, failure: Failure) -> Failure {
    match failure {
        Failure::Invalid { body, .. } => {
            let errors = problem::read(&body).errors;
            let told: Vec<String> = errors.iter().map(|place| placed(document, place)).collect();
            Failure::Mistake(told.join("\n\n"))
        }
        Failure::Mistake(said) => Failure::Mistake(format!("{}: {said}", document.name)),
        other => other,
    }
}

/// The mistakes and warnings that came with an answer.
pub(super) fn remarks(document: &Document, problems: &Value) -> (Vec<String>, Vec<String>) {
    let (mut mistakes, mut notes) = (Vec::new(), Vec::new());
    for problem in problems.as_array().into_iter().flatten() {
        let Ok(place) = serde_json::from_value::<ErrorPlace>(problem.clone()) else { continue };
        let told = placed(document, &place);
        if problem["severity"] == "warning" { notes.push(told) } else { mistakes.push(told) }
    }
    (mistakes, notes)
}

/// Formats a mistake as `file:line:column: message`, the line, a caret.
fn placed(document: &Document, place: &ErrorPlace) -> String {
    let Some(number) = place.line.filter(|line| *line > 0) else {
        return format!("{}: {place}", document.name);
    };
    let column = place.column.unwrap_or(1).max(1);
    let line = document.text.lines().nth(number as usize - 1).unwrap_or("");
    let at = line.char_indices().nth(column as usize - 1).map_or(line.len(), |(at, _)| at);
    let word = line[at..].find([' ', ',', '}', ']']).unwrap_or(line.len() - at);
    let mut problem = Problem::new("", line, at..at + word.max(1), place.message.clone());
    problem.allowed = place.allowed.as_deref().map(Box::from);
    problem.remedy = place.remedy.as_deref().map(Box::from);
    format!("{}:{number}:{column}: {problem}", document.name)
}

/// `30 days: 30 added, 30 lost`, or empty if no occurrence changes. For a rule with very many
/// times, fewer than 30 days are compared: `until 2026-11-17 12:00:00Z: 3000 added`.
fn in_30_days(times: &Value, now: Timestamp) -> String {
    let count = |kind: &str| times[kind].as_u64().filter(|count| *count > 0);
    let told = ["added", "moved", "lost"]
        .iter()
        .filter_map(|kind| count(kind).map(|count| format!("{count} {kind}")));
    let told = told.collect::<Vec<_>>().join(", ");
    let until = shown::instant(&times["until"]);
    let is_whole = until.is_none_or(|until| until.duration_since(now) >= NEARLY_30_DAYS);
    match (told.is_empty(), is_whole) {
        (true, _) => told,
        (false, true) => format!("30 days: {told}"),
        (false, false) => format!("until {}: {told}", shown::time(times, "until").paint(0)),
    }
}

fn show(
    document: &Document,
    answer: &Value,
    args: &ApplyArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let plan = args.plan;
    let (name, version) = (field(answer, "name"), field(answer, "version"));
    let what = match (plan, answer["changed"] == true, answer["id"].is_null()) {
        (_, false, _) => "stays as it is",
        (true, _, true) => "would be new",
        (true, ..) => "would change",
        (false, ..) if args.draft => "is saved as a draft",
        (false, ..) => "is published",
    };
    writeln!(out, "{BOLD}{name} {version}{BOLD:#} {what} {DIM}({}){DIM:#}", document.name)?;
    triggers(answer, out)?;
    let (_, notes) = remarks(document, &answer["problems"]);
    for note in notes {
        writeln!(out, "{NOTE}{note}{NOTE:#}")?;
    }
    Ok(())
}

/// Prints how each trigger changes.
pub(super) fn triggers(answer: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let rows = answer["triggers"].as_array().into_iter().flatten().map(|trigger| {
        let (change, id) = (field(trigger, "change"), field(trigger, "id"));
        let said = match trigger["status"].as_str() {
            _ if trigger["lives_again"] == true => "changed, lives again".to_owned(),
            Some(status @ ("dead" | "done")) if change != "new" => {
                let name = field(answer, "name");
                // A schedule that is done may only need a rule with a later time.
                let or = if status == "done" { "a later time, or " } else { "" };
                format!("{change}, stays {status}: {or}punctual schedule revive {name}/{id}")
            }
            _ => change.clone(),
        };
        let sign = match change.as_str() {
            "new" => "+",
            "changed" => "~",
            "removed" => "-",
            _ => " ",
        };
        vec![
            Cell::plain(sign),
            Cell::plain(id),
            Cell::plain(said),
            shown::time(trigger, "next_run_at"),
            Cell::plain(in_30_days(&trigger["next_30_days"], clock::instant())),
            Cell::styled(field(trigger, "words"), DIM),
        ]
    });
    Ok(write!(out, "{}", columns(&rows.collect::<Vec<_>>()))?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_that_stays_dead_or_done_says_what_to_do() {
        let trigger = |change: &str, status: &str, lives_again: bool| {
            let trigger = json!({"id": "t", "change": change, "status": status,
                "lives_again": lives_again});
            let mut out = Vec::new();
            triggers(&json!({"name": "w", "triggers": [trigger]}), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for (change, status, lives_again, said) in [
            ("unchanged", "dead", false, "unchanged, stays dead: punctual schedule revive w/t"),
            ("changed", "done", false, "stays done: a later time, or punctual schedule revive w/t"),
            ("changed", "active", true, "changed, lives again"),
        ] {
            let shown = trigger(change, status, lives_again);
            assert!(shown.contains(said), "{shown}");
        }
        assert!(!trigger("new", "done", false).contains("revive"));
    }
}
