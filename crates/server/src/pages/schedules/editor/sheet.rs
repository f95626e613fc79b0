//! A form with what was typed and, beside each field, what is wrong with it.

use maud::{Markup, html};

use super::typed::Typed;
use crate::http::problem::Wrong;

/// Fields as they are written, with their values and mistakes.
pub(super) struct Sheet<'a> {
    pub(super) typed: &'a Typed,
    pub(super) wrong: &'a [Wrong],
}

/// A field: its label, its name with what it says about its value, and a hint.
pub(super) struct Field<'a> {
    label: &'a str,
    name: &'a str,
    hint: &'a str,
    placeholder: &'a str,
    list: Option<&'a str>,
    kind: &'a str,
    is_required: bool,
}

impl<'a> Field<'a> {
    pub(super) fn new(label: &'a str, name: &'a str) -> Field<'a> {
        Field {
            label,
            name,
            hint: "",
            placeholder: "",
            list: None,
            kind: "text",
            is_required: false,
        }
    }

    pub(super) fn hint(self, hint: &'a str) -> Field<'a> {
        Field { hint, ..self }
    }

    pub(super) fn placeholder(self, placeholder: &'a str) -> Field<'a> {
        Field { placeholder, ..self }
    }

    /// Values to choose from, by the id of their list.
    pub(super) fn list(self, list: &'a str) -> Field<'a> {
        Field { list: Some(list), ..self }
    }

    /// Another type of control: `number`, `datetime-local`.
    pub(super) fn kind(self, kind: &'a str) -> Field<'a> {
        Field { kind, ..self }
    }

    /// Nothing is sent without it.
    pub(super) fn required(self) -> Field<'a> {
        Field { is_required: true, ..self }
    }

    fn path(&self) -> &'a str {
        self.name.split(':').next().unwrap_or(self.name)
    }

    fn id(&self) -> String {
        format!("field-{}", self.path().replace('.', "-"))
    }

    fn described(&self) -> Option<String> {
        (!self.hint.is_empty()).then(|| format!("{}-hint", self.id()))
    }
}

impl Sheet<'_> {
    pub(super) fn line(&self, field: &Field<'_>) -> Markup {
        let value = self.typed.get(field.path());
        self.field(field, html! {
            input type=(field.kind) id=(field.id()) name=(field.name) value=(value) list=[field.list]
                placeholder=(field.placeholder) aria-describedby=[field.described()]
                aria-invalid=[self.is_wrong(field)] autocomplete="off" spellcheck="false" required[field.is_required]
                step=[(field.kind == "datetime-local").then_some("1")];
        })
    }

    pub(super) fn area(&self, field: &Field<'_>, rows: u32) -> Markup {
        self.field(field, html! {
            textarea id=(field.id()) name=(field.name) rows=(rows) placeholder=(field.placeholder)
                aria-describedby=[field.described()] aria-invalid=[self.is_wrong(field)] spellcheck="false" {
                // The first line break of a text area is not part of it.
                "\n" (self.typed.get(field.path()))
            }
        })
    }

    pub(super) fn select(&self, field: &Field<'_>, all: &[(&str, &str)]) -> Markup {
        let chosen = self.typed.get(field.path());
        self.field(
            field,
            html! {
                select id=(field.id()) name=(field.name) aria-describedby=[field.described()]
                    aria-invalid=[self.is_wrong(field)] {
                    @for (value, label) in all {
                        option value=(value) selected[*value == chosen] { (label) }
                    }
                }
            },
        )
    }

    fn field(&self, field: &Field<'_>, control: Markup) -> Markup {
        html! {
            div.field {
                label for=(field.id()) { (field.label) }
                (control)
                @if !field.hint.is_empty() { span.hint id={ (field.id()) "-hint" } { (field.hint) } }
                @for wrong in self.wrong.iter().filter(|wrong| is_about(wrong, field.path())) {
                    p.wrong { (said(wrong)) }
                }
            }
        }
    }

    fn is_wrong(&self, field: &Field<'_>) -> Option<&'static str> {
        self.wrong.iter().any(|wrong| is_about(wrong, field.path())).then_some("true")
    }
}

/// Whether a mistake is in a field, or in a part of what stands in it.
pub(super) fn is_about(wrong: &Wrong, path: &str) -> bool {
    match wrong.path.strip_prefix(path) {
        Some(rest) => rest.is_empty() || rest.starts_with('[') || rest.starts_with('.'),
        None => false,
    }
}

/// A mistake in the field that it is in.
pub(super) fn said(wrong: &Wrong) -> String {
    let mut said = wrong.message.clone();
    if let Some(column) = wrong.column {
        said.push_str(&format!(" (character {column})"));
    }
    if let Some(allowed) = &wrong.allowed {
        said.push_str(&format!("; allowed: {allowed}"));
    }
    if let Some(remedy) = &wrong.remedy {
        said.push_str(&format!("; try: {remedy}"));
    }
    said
}
