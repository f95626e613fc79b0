//! Conditions and templates in a definition: which texts are filled in, and what they may mention.

use std::collections::HashSet;
use std::ptr;

use crate::expression::{self, Fault, InputReference, References, Root};
use crate::input_schema::InputSchema;

use super::flaw::Flaw;
use super::limits;
use super::path::{join, join_index};
use super::reading::{Field, Reading};
use super::source::Span;
use super::tree::{Kind, Node, cut};

/// The fields of `input` in the templates of a webhook trigger.
const OF_A_CALL: [&str; 2] = ["body", "headers"];

/// When a text is filled in, which determines the names it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// When the engine decides what a run does. The value is stored with the run.
    Decided,
    /// When an attempt is performed. Secrets are available too.
    Performed,
    /// When a webhook is called.
    Called,
    /// When an event is published.
    Published,
    /// When an event is published that a run may wait for.
    Awaited,
}

impl Place {
    fn roots(self) -> &'static [Root] {
        match self {
            Place::Decided => &[Root::Input, Root::Steps, Root::Run, Root::Workflow],
            Place::Performed => {
                &[Root::Input, Root::Steps, Root::Run, Root::Workflow, Root::Secrets]
            }
            Place::Called => &[Root::Input],
            Place::Published => &[Root::Event],
            Place::Awaited => &[Root::Event, Root::Input, Root::Steps, Root::Run, Root::Workflow],
        }
    }
}

/// A step that a text mentions.
pub(super) struct Mention {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) id: String,
}

/// What was found in the texts read so far.
#[derive(Default)]
pub(super) struct Templates {
    /// Whether `item` and `index` are known.
    pub(super) over_items: bool,
    /// The schema of `input`, if the definition declares one.
    pub(super) input: Option<InputSchema>,
    mentions: Vec<Mention>,
    /// Texts that are filled in, and scripts, where braces mean something else.
    filled: HashSet<*const Node>,
    count: usize,
}

impl Templates {
    /// Whether a text was read as one that is filled in, or as one that is never a template.
    pub(super) fn is_filled(&self, node: &Node) -> bool {
        self.filled.contains(&ptr::from_ref(node))
    }

    /// Marks a text whose braces its own reader handles.
    pub(super) fn fill(&mut self, node: &Node) {
        self.filled.insert(ptr::from_ref(node));
    }

    /// Takes the mentions found since the last call.
    pub(super) fn take(&mut self) -> Vec<Mention> {
        std::mem::take(&mut self.mentions)
    }
}

impl Reading<'_> {
    /// Reads an expression that decides what a run does.
    pub(super) fn condition(&mut self, field: &Field<'_>) -> Option<String> {
        self.condition_at(field, Place::Decided)
    }

    /// Reads an expression that is evaluated at this place.
    pub(super) fn condition_at(&mut self, field: &Field<'_>, place: Place) -> Option<String> {
        if let Kind::Bool(value) = &field.node.kind {
            return Some(value.to_string());
        }
        let text = self.text_such_as(field, "a text such as input.total > 100")?;
        self.templates.fill(field.node);
        let checked = expression::check_condition(text);
        self.references(field, checked.map_err(|fault| vec![fault]), place)?;
        Some(text.to_owned())
    }

    /// Reads a text that may contain templates.
    pub(super) fn template(&mut self, field: &Field<'_>, place: Place) -> Option<String> {
        let text = self.text(field)?;
        self.check_template(field, text, place)?;
        Some(text.to_owned())
    }

    /// Reads a value of limited size whose texts may contain templates.
    pub(super) fn filled_value(&mut self, field: &Field<'_>, place: Place) -> serde_json::Value {
        self.check_below(field, place);
        super::json::payload(self, field, limits::PAYLOAD_BYTES)
    }

    fn check_below(&mut self, field: &Field<'_>, place: Place) {
        match &field.node.kind {
            Kind::Text(text) => {
                self.check_template(field, text, place);
            }
            Kind::List(items) => {
                for (at, node) in items.iter().enumerate() {
                    self.check_below(&Field { path: join_index(&field.path, at), node }, place);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    let path = join(&field.path, &entry.key);
                    self.check_below(&Field { path, node: &entry.value }, place);
                }
            }
            _ => {}
        }
    }

    pub(super) fn check_template(
        &mut self,
        field: &Field<'_>,
        text: &str,
        place: Place,
    ) -> Option<()> {
        if !text.contains("{{") {
            return Some(());
        }
        self.templates.fill(field.node);
        self.references(field, expression::check_template(text), place)
    }

    fn references(
        &mut self,
        field: &Field<'_>,
        checked: Result<References, Vec<Fault>>,
        place: Place,
    ) -> Option<()> {
        let mut known: Vec<Root> = place.roots().to_vec();
        if self.templates.over_items {
            known.extend([Root::Item, Root::Index]);
        }
        let found = match checked {
            Ok(found) => found,
            Err(faults) => {
                for fault in faults {
                    let allowed = match fault.code {
                        "name" => Some(names(&known)),
                        _ => fault.allowed.clone(),
                    };
                    self.fault(field, Fault { allowed, ..fault });
                }
                return None;
            }
        };
        self.templates.count += found.roots.len();
        if self.templates.count > limits::REFERENCES {
            let flaw = Flaw::new("limit", "too many names in the templates of this definition");
            let flaw = flaw.allow(format!("at most {}", limits::REFERENCES));
            // Reported only once.
            if self.templates.count - found.roots.len() <= limits::REFERENCES {
                self.report(&field.path, field.node.span, flaw);
            }
            return None;
        }
        for (root, span) in found.roots {
            if !known.contains(&root) {
                let span = self.inside(field.node, span);
                self.report(&field.path, span, not_here(root, &known));
            }
        }
        for named in found.inputs.iter().filter(|_| known.contains(&Root::Input)) {
            self.input_fields(field, named, place);
        }
        // If steps are not available here at all, that was already reported.
        let steps = if known.contains(&Root::Steps) { found.steps } else { Vec::new() };
        for step in steps {
            let span = self.inside(field.node, step.span);
            let path = field.path.clone();
            self.templates.mentions.push(Mention { path, span, id: step.id });
        }
        Some(())
    }

    /// Reports a field of `input` that cannot exist.
    fn input_fields(&mut self, field: &Field<'_>, named: &InputReference, place: Place) {
        let (at, known): (usize, Vec<&str>) = match (place, &self.templates.input) {
            (Place::Called, _) => match named.names.first().map(String::as_str) {
                None | Some("body" | "headers") => return,
                Some(_) => (0, OF_A_CALL.to_vec()),
            },
            (_, Some(_)) if named.may_be_missing => return,
            (_, Some(input)) => match input.unknown_field(&named.names) {
                Some(unknown) => unknown,
                None => return,
            },
            (_, None) => return,
        };
        let name = named.names.get(at).map(String::as_str).unwrap_or_default();
        let below = std::iter::once("input");
        let below: Vec<&str> = below.chain(named.names[..at].iter().map(String::as_str)).collect();
        let flaw = Flaw::new("field", format!("{} has no {}", below.join("."), cut(name)))
            .did_you_mean(name, known.iter().copied())
            .allow(known.join(", "));
        let span = self.inside(field.node, named.span.clone());
        self.report(&field.path, span, flaw);
    }

    fn fault(&mut self, field: &Field<'_>, fault: Fault) {
        let span = self.inside(field.node, fault.span.clone());
        let flaw = Flaw {
            allowed: fault.allowed,
            remedy: fault.remedy,
            excerpt: self.value_excerpt(field.node, fault.span),
            ..Flaw::new(fault.code, fault.message)
        };
        self.report(&field.path, span, flaw);
    }

    /// Reports every template that nothing fills in: it must not be taken literally.
    pub(super) fn no_other_templates(&mut self, root: &Node) {
        if self.is_described() || self.source().text().contains("{{") {
            self.search(&Field { path: String::new(), node: root });
        }
    }

    fn search(&mut self, field: &Field<'_>) {
        // A flaw was already reported there, and its templates were not read.
        if self.has_flaw_at(&field.path) {
            return;
        }
        match &field.node.kind {
            Kind::Text(text) if text.contains("{{") && !self.templates.is_filled(field.node) => {
                self.report(&field.path, field.node.span, literal());
            }
            Kind::List(items) => {
                for (at, node) in items.iter().enumerate() {
                    self.search(&Field { path: join_index(&field.path, at), node });
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    let path = join(&field.path, &entry.key);
                    if entry.key.contains("{{") && !self.has_flaw_at(&path) {
                        self.report(&path, entry.key_span, literal());
                    }
                    self.search(&Field { path, node: &entry.value });
                }
            }
            _ => {}
        }
    }
}

fn literal() -> Flaw {
    Flaw::new("template", "templates ({{ … }}) are not filled in here").suggest("a text without {{")
}

fn not_here(root: Root, known: &[Root]) -> Flaw {
    let name = root.name();
    let flaw = match root {
        Root::Secrets => Flaw::new("secret", "secrets are known only to what is performed"),
        _ => Flaw::new("name", format!("{name} is not known here")),
    };
    flaw.allow(names(known))
}

fn names(roots: &[Root]) -> String {
    let names: Vec<&str> = roots.iter().map(|root| root.name()).collect();
    names.join(", ")
}
