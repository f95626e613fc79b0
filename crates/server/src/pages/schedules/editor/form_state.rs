//! The form with the typed values and, beside each field, its errors.

use maud::{Markup, html};

use super::typed::Typed;
use crate::http::problem::Wrong;

/// The typed values and the errors of a form.
pub(super) struct FormState<'a> {
    pub(super) typed: &'a Typed,
    pub(super) wrong: &'a [Wrong],
}

/// A field: its label, its name with the kind of its value, and a hint.
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

    /// Offers the values of the list with this id.
    pub(super) fn list(self, list: &'a str) -> Field<'a> {
        Field { list: Some(list), ..self }
    }

    /// Another type of control: `number`, `datetime-local`.
    pub(super) fn kind(self, kind: &'a str) -> Field<'a> {
        Field { kind, ..self }
    }

    /// The form cannot be sent without it.
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

impl FormState<'_> {
    pub(super) fn line(&self, field: &Field<'_>) -> Markup {
        let value = self.typed.get(field.path());
        self.field(field, html! {
            input type=(field.kind) id=(field.id()) name=(field.name) value=(value)
                list=[field.list]
                placeholder=(field.placeholder) aria-describedby=[field.described()]
                aria-invalid=[self.is_wrong(field)] autocomplete="off" spellcheck="false" required[field.is_required]
                step=[(field.kind == "datetime-local").then_some("1")];
        })
    }

    pub(super) fn area(&self, field: &Field<'_>, rows: u32) -> Markup {
        self.field(field, html! {
            textarea id=(field.id()) name=(field.name) rows=(rows) placeholder=(field.placeholder)
                aria-describedby=[field.described()] aria-invalid=[self.is_wrong(field)] spellcheck="false" {
                // Browsers drop the first line break in a text area.
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

/// Whether an error is in a field, or inside the value of one.
pub(super) fn is_about(wrong: &Wrong, path: &str) -> bool {
    match wrong.path.strip_prefix(path) {
        Some(rest) => rest.is_empty() || rest.starts_with('[') || rest.starts_with('.'),
        None => false,
    }
}

/// An error as it is shown beside its field.
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
