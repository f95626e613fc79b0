//! The scripts that a definition contains as texts, with their positions. The server evaluates them
//! to check them before the definition is published.

use serde_json::Value;

use super::described;
use super::flaw::Flaw;
use super::path::{join, join_index};
use super::source::{Source, Span};
use super::tree::{self, Kind, Node};
use crate::definition::handlers;

/// A script that is written as a text.
#[derive(Clone, Debug)]
pub struct ScriptText {
    pub path: String,
    /// `step`, or the phase of a handler: `handler`, `prepare`, `mutate`, `reconcile`, `next`.
    pub phase: &'static str,
    pub source: String,
    span: Span,
}

/// The scripts in a YAML or JSON definition. Empty if the definition cannot be parsed, which is
/// reported elsewhere.
pub fn script_texts(text: &str) -> Vec<ScriptText> {
    let source = Source::new(text.strip_prefix('\u{feff}').unwrap_or(text));
    tree::parse(&source).map(|(root, _)| of_root(&root)).unwrap_or_default()
}

/// The scripts that are texts in a script's description.
pub fn described_script_texts(text: &str, described: &Value) -> Vec<ScriptText> {
    let source = Source::new(text);
    described::tree(&source, described).map(|root| of_root(&root)).unwrap_or_default()
}

fn of_root(root: &Node) -> Vec<ScriptText> {
    let mut found = Vec::new();
    if let Some(Kind::List(steps)) = below(root, "steps") {
        for (at, step) in steps.iter().enumerate() {
            let path = join_index("steps", at);
            of_action(step, &path, "step", &mut found);
            for key in ["step", "compensation"] {
                if let Some(entry) = step.entry(key) {
                    of_action(&entry.value, &join(&path, key), "step", &mut found);
                }
            }
        }
    }
    let phases: [(&str, &[(&str, &'static str)]); 2] = [
        ("producers", &[("handler", handlers::PRODUCE)]),
        (
            "consumers",
            &[
                ("prepare", handlers::PREPARE),
                ("mutate", handlers::MUTATE),
                ("reconcile", "reconcile"),
                ("next", handlers::NEXT),
            ],
        ),
    ];
    for (kind, phases) in phases {
        let Some(Kind::Map(all)) = below(root, kind) else { continue };
        for handler in all {
            let path = join(kind, &handler.key);
            for (key, phase) in phases {
                let Some(entry) = handler.value.entry(key) else { continue };
                let path = join(&path, key);
                match &entry.value.kind {
                    Kind::Text(_) => found.extend(script(&entry.value, path, phase)),
                    _ => of_action(&entry.value, &path, phase, &mut found),
                }
            }
        }
    }
    found
}

fn below<'n>(node: &'n Node, key: &str) -> Option<&'n Kind> {
    node.entry(key).map(|entry| &entry.value.kind)
}

/// Adds the script of an action. Without a type, the key alone makes it a script.
fn of_action(node: &Node, path: &str, phase: &'static str, found: &mut Vec<ScriptText>) {
    let is_script = match below(node, "type") {
        Some(Kind::Text(kind)) => kind == "script",
        _ => node.entry("type").is_none(),
    };
    for key in ["script", "source"].into_iter().filter(|_| is_script) {
        if let Some(entry) = node.entry(key) {
            found.extend(script(&entry.value, join(path, key), phase));
        }
    }
}

fn script(node: &Node, path: String, phase: &'static str) -> Option<ScriptText> {
    let Kind::Text(source) = &node.kind else { return None };
    Some(ScriptText { path, phase, source: source.clone(), span: node.span })
}

impl ScriptText {
    /// A flaw of the definition for an error at a line and column of this script. Zero means an
    /// unknown position.
    pub fn flaw(&self, text: &str, message: String, line: u32, column: u32) -> Flaw {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = Source::new(text);
        let mut flaw = Flaw::new("script", message);
        flaw.path.clone_from(&self.path);
        let span = self.place(text, line as usize, column as usize).unwrap_or(self.span);
        // In a script's description the text may have no position at all.
        if span != Span::default() {
            (flaw.line, flaw.column) = source.position(span.start);
            flaw.excerpt = Some(source.excerpt(span));
        }
        flaw
    }

    /// The position in the definition's text, if the script's lines appear there unchanged.
    fn place(&self, text: &str, line: usize, column: usize) -> Option<Span> {
        let first = self.source.lines().find(|line| !line.trim().is_empty())?;
        let (start, written) = match text.get(self.span.start..self.span.end) {
            Some(written) if written.contains(first) => (self.span.start, written),
            // A text in a script's description has only an approximate position.
            _ if text.matches(first).count() == 1 => (0, text),
            _ => return None,
        };
        // The lines of the script follow each other, each with indentation in front.
        let mut shown = written.split_inclusive('\n').scan(start, |at, line| {
            *at += line.len();
            Some((*at - line.len(), line))
        });
        let mut found = None;
        for wanted in self.source.lines().take(line).map(str::trim_end) {
            found = shown.find_map(|(at, line)| {
                if wanted.is_empty() {
                    line.trim().is_empty().then_some((at, wanted))
                } else {
                    line.find(wanted).map(|inside| (at + inside, wanted))
                }
            });
            found?;
        }
        let (at, wanted) = found?;
        let before =
            wanted.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
        let width = wanted[before..].chars().next().map_or(0, char::len_utf8);
        Some(Span::new(at + before, at + before + width))
    }
}
