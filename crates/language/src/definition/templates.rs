//! Conditions and templates in a definition: which texts are filled in, and what they may name.

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

/// What `input` is when a call comes in.
const OF_A_CALL: [&str; 2] = ["body", "headers"];

/// What a text may name, by when it is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where it is decided what a run does, and what is stored with it.
    Decided,
    /// When an attempt is performed: secrets too.
    Performed,
    /// When a call comes in.
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

/// A step that a text names.
pub(super) struct Mention {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) id: String,
}

/// What was found in the texts that were read.
#[derive(Default)]
pub(super) struct Templates {
    /// Whether `item` and `index` are known.
    pub(super) over_items: bool,
    /// What `input` is, as far as the definition says so.
    pub(super) input: Option<InputSchema>,
    mentions: Vec<Mention>,
    /// The texts that are filled in, or are scripts, where braces mean something else.
    filled: HashSet<*const Node>,
    count: usize,
}

impl Templates {
    /// Whether a text was read as one that is filled in, or that is no template whatever it holds.
    pub(super) fn is_filled(&self, node: &Node) -> bool {
        self.filled.contains(&ptr::from_ref(node))
    }

    /// Braces in this text are read by whoever reads it.
    pub(super) fn fill(&mut self, node: &Node) {
        self.filled.insert(ptr::from_ref(node));
    }

    /// The steps that were named since they were last taken.
    pub(super) fn take(&mut self) -> Vec<Mention> {
        std::mem::take(&mut self.mentions)
    }
}

impl Reading<'_> {
    /// An expression that decides what a run does.
    pub(super) fn condition(&mut self, field: &Field<'_>) -> Option<String> {
        self.condition_at(field, Place::Decided)
    }

    /// An expression that decides.
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

    /// A text that may hold templates.
    pub(super) fn template(&mut self, field: &Field<'_>, place: Place) -> Option<String> {
        let text = self.text(field)?;
        self.check_template(field, text, place)?;
        Some(text.to_owned())
    }

    /// A value whose texts may hold templates, of a limited size.
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
            // Told once.
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
        // Where steps are not known at all, that is told already.
        let steps = if known.contains(&Root::Steps) { found.steps } else { Vec::new() };
        for step in steps {
            let span = self.inside(field.node, step.span);
            let path = field.path.clone();
            self.templates.mentions.push(Mention { path, span, id: step.id });
        }
        Some(())
    }

    /// Reports a field of `input` that cannot be there.
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

    /// Reports every text with a template that nobody fills in: it must not be taken literally.
    pub(super) fn no_other_templates(&mut self, root: &Node) {
        if self.is_described() || self.source().text().contains("{{") {
            self.search(&Field { path: String::new(), node: root });
        }
    }

    fn search(&mut self, field: &Field<'_>) {
        // Something is wrong with it already, and its templates were not looked at.
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
