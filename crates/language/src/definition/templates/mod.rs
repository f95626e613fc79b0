//! Conditions and templates in a definition: which texts are filled in, and what they may name.

mod fill;
pub(super) mod injection;
mod interpreters;
mod launches;
pub(super) mod remedies;
mod starters;
mod variables;
pub(super) mod working_folder;

use std::collections::HashSet;
use std::ptr;

use crate::definition::limits;
use crate::definition::reading::{Field, Reading, json};
use crate::definition::text::{Flaw, Kind, Node, Span, cut, join, join_index};
use crate::expression::{self, Base, Fault, Invalid, Key, Path, References, Root, ValueReference};
use crate::input_schema::{InputSchema, JsonType, NoSuchPart};

pub(super) use injection::{Injection, Stdin};
pub(super) use variables::chooses_program;

/// The name under which templates may also reach the payload that `input` is.
const PAYLOAD: &str = "payload";

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
pub(super) struct StepReference {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) id: String,
    value: ValueReference,
    /// The span of the whole value.
    value_span: Span,
}

impl StepReference {
    /// Reports a part that the step cannot have, if this is known of its output.
    pub(super) fn report_missing(&self, reading: &mut Reading<'_>, output: &InputSchema) {
        let path = &self.value.path;
        let [Key::Name(_), Key::Name(attribute), below @ ..] = &path.keys[..] else { return };
        let of = match attribute.as_str() {
            "output" => output,
            "status" => &expression::OF_A_STATUS,
            _ => &expression::OF_AN_ERROR,
        };
        let Err(missing) = of.part(below) else { return };
        let missing =
            NoSuchPart { index: path.keys.len() - below.len() + missing.index, ..missing };
        if missing.index >= self.value.optional_keys {
            reading.report(&self.path, self.value_span, missing_field(path, &missing));
        }
    }
}

/// What was found in the texts read so far.
#[derive(Default)]
pub(super) struct Templates {
    /// Inside of a `for_each`, where `item` and `index` are known, the schemas of which one
    /// describes `item`.
    pub(super) item: Option<Vec<InputSchema>>,
    /// The schema of `input`, if the definition declares one.
    pub(super) input: Option<InputSchema>,
    references: Vec<StepReference>,
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

    /// The schemas of which one describes the value that a path leads to, `None` if the value may
    /// be anything, or the key that leads nowhere in each of them.
    fn schemas(&self, path: &Path) -> Result<Option<Vec<&InputSchema>>, NoSuchPart<'_>> {
        let keys = &path.keys[..];
        let (bases, before) = match (&path.base, &self.input, &self.item) {
            // A step is looked up when all steps are known.
            (Base::Root(Root::Steps), ..) => return Ok(None),
            (Base::Root(Root::Input), Some(input), _) => {
                // `input.payload` means the payload, unless the payload has a field of that name.
                let is_alias = is_payload(keys) && !input.properties.contains_key(PAYLOAD);
                (vec![input], usize::from(is_alias))
            }
            (Base::Root(Root::Item), _, Some(item)) => (item.iter().collect(), 0),
            (Base::OneOf(paths), ..) => {
                let mut bases = Vec::new();
                for path in paths {
                    match self.schemas(path) {
                        Ok(Some(schemas)) => bases.extend(schemas),
                        Ok(None) => return Ok(None),
                        // That path is a reference of its own, and is reported there.
                        Err(_) => {}
                    }
                }
                (bases, 0)
            }
            (Base::Root(root), ..) => match root.schema() {
                Some(schema) => (vec![schema], 0),
                None => return Ok(None),
            },
            (Base::Unknown, ..) => return Ok(None),
        };
        let (mut parts, mut missing) = (Vec::new(), None);
        for base in bases {
            match base.part(&keys[before..]) {
                Ok(Some(part)) => parts.push(part),
                Ok(None) => return Ok(None),
                Err(none) => missing = missing.or(Some(none)),
            }
        }
        match missing {
            Some(none) if parts.is_empty() => {
                Err(NoSuchPart { index: none.index + before, ..none })
            }
            _ => Ok(Some(parts)),
        }
    }

    /// The schemas of which one describes each item of a list, or why it cannot be a list.
    pub(super) fn schemas_of_items(
        &self,
        list: &serde_json::Value,
    ) -> Result<Vec<InputSchema>, String> {
        let mut path = match list {
            serde_json::Value::Array(items) => return Ok(vec![InputSchema::of_items(items)]),
            serde_json::Value::String(text) => expression::path(text),
            _ => None,
        };
        let anything = || vec![InputSchema::default()];
        let Some(path) = &mut path else { return Ok(anything()) };
        let lists = self.schemas(path).ok().flatten().unwrap_or_default();
        if !lists.is_empty() && !lists.iter().any(|schema| schema.may_be(JsonType::Array)) {
            let of = shown_path(&path.base, &path.keys);
            return Err(match path.base {
                Base::Root(root) if !root.is_payload() => format!("{of} is not a list"),
                _ => format!("{of} is not a list by the input's schema"),
            });
        }
        path.keys.push(Key::Index);
        let items = self.schemas(path).ok().flatten();
        Ok(items.map_or_else(anything, |items| items.into_iter().cloned().collect()))
    }

    /// Takes the mentions found since the last call.
    pub(super) fn take(&mut self) -> Vec<StepReference> {
        std::mem::take(&mut self.references)
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
        self.references(field, checked, place)?;
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
        json::payload(self, field, limits::PAYLOAD_BYTES)
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
        checked: Result<References, Invalid>,
        place: Place,
    ) -> Option<()> {
        let mut known: Vec<Root> = place.roots().to_vec();
        if self.templates.item.is_some() {
            known.extend([Root::Item, Root::Index]);
        }
        let (found, faults) = match checked {
            Ok(found) => (found, Vec::new()),
            Err(Invalid { faults, references }) => (references, faults),
        };
        let is_valid = faults.is_empty();
        for fault in faults {
            let allowed = match fault.code {
                "name" => Some(names(&known)),
                _ => fault.allowed.clone(),
            };
            self.fault(field, Fault { allowed, ..fault });
        }
        self.templates.count += found.roots.len();
        if self.templates.count > limits::REFERENCES {
            let flaw = Flaw::new("limit", "too many names in the templates of this definition");
            let flaw = flaw.allow(format!("at most {}", limits::REFERENCES));
            // Each further reference over the limit would be the same mistake.
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
        for value in &found.values {
            // A root that is not known here was reported.
            if !matches!(value.path.base, Base::Root(root) if !known.contains(&root)) {
                self.value_fields(field, value, place);
            }
        }
        // If steps are not available here at all, that was already reported.
        let steps = if known.contains(&Root::Steps) { found.steps } else { Vec::new() };
        for step in steps {
            let expression::StepReference { id, span, value } = step;
            let span = self.inside(field.node, span);
            let value_span = self.inside(field.node, value.span.clone());
            let path = field.path.clone();
            self.templates.references.push(StepReference { path, span, id, value, value_span });
        }
        is_valid.then_some(())
    }

    /// Reports a part of a value that cannot exist.
    fn value_fields(&mut self, field: &Field<'_>, value: &ValueReference, place: Place) {
        let path = &value.path;
        let (found, has_fixed_fields) = match (place, &path.base) {
            (Place::Called, Base::Root(Root::Input)) => {
                (expression::OF_A_CALL.part(&path.keys).map(drop), true)
            }
            (Place::Called, _) => return,
            (_, base) => {
                let is_fixed = matches!(base, Base::Root(root) if !root.is_payload());
                (self.templates.schemas(path).map(drop), is_fixed)
            }
        };
        let Err(missing) = found else { return };
        // No run ever has a field that runs do not have, so there is nothing to test.
        let is_never = has_fixed_fields && !missing.listed().is_empty();
        if missing.index < value.optional_keys && !is_never {
            return;
        }
        let flaw = missing_field(path, &missing);
        let span = self.inside(field.node, value.span.clone());
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

fn is_payload(keys: &[Key]) -> bool {
    matches!(keys.first(), Some(Key::Name(name)) if name == PAYLOAD)
}

/// A path for people.
fn shown_path(base: &Base, keys: &[Key]) -> String {
    let mut shown = match base {
        Base::Root(root) => root.name().to_owned(),
        Base::OneOf(paths) => {
            let paths = paths.iter().map(|path| shown_path(&path.base, &path.keys));
            paths.collect::<Vec<_>>().join(" or ")
        }
        Base::Unknown => "…".to_owned(),
    };
    for key in keys {
        match key {
            Key::Name(name) => shown.push_str(&format!(".{}", cut(name))),
            Key::Index | Key::Computed => shown.push_str("[…]"),
        }
    }
    shown
}

fn missing_field(path: &Path, missing: &NoSuchPart<'_>) -> Flaw {
    let of = shown_path(&path.base, &path.keys[..missing.index]);
    let name = match path.keys.get(missing.index) {
        Some(Key::Name(name)) => name,
        _ => "",
    };
    if missing.is_of_list() {
        let flaw = Flaw::new("field", format!("{of} is a list and has no {}", cut(name)));
        return flaw.suggest(format!("an item of it, such as {of}[0].{}", cut(name)));
    }
    match missing.plain() {
        Some(plain) => {
            let flaw = Flaw::new("field", format!("{of} is {plain} and has no {}", cut(name)));
            flaw.suggest(of)
        }
        None => {
            let flaw = no_field(&of, name, &missing.listed());
            let is_fixed = matches!(path.base, Base::Root(root) if !root.is_payload());
            match missing.free() {
                Some(free) if is_fixed && flaw.remedy.is_none() => {
                    flaw.suggest(format!("{of}.{free}.{}", cut(name)))
                }
                _ => flaw,
            }
        }
    }
}

fn no_field(of: &str, name: &str, listed: &[&str]) -> Flaw {
    let flaw = Flaw::new("field", format!("{of} has no {}", cut(name)));
    if listed.is_empty() {
        return flaw;
    }
    flaw.did_you_mean(name, listed.iter().copied()).allow(listed.join(", "))
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
