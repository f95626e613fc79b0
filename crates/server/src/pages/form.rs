//! HTML of forms: buttons that perform one action, and fields with labels and hints.
//!
//! A form is posted to `/forms/` and the rest of an API address; see [`super::forms`] for how it is
//! handled.

use maud::{Markup, html};

use super::page_context::PageContext;

/// A button that performs one request to the API.
pub(super) struct Action<'a> {
    path: String,
    label: &'a str,
    method: Option<&'a str>,
    next: Option<String>,
    said: Option<&'a str>,
    ask: Option<&'a str>,
    class: &'a str,
    fields: Vec<(&'a str, String)>,
}

impl<'a> Action<'a> {
    /// `path` is the API's path without `/api/v1/`.
    pub(super) fn new(path: impl Into<String>, label: &'a str) -> Action<'a> {
        Action {
            path: path.into(),
            label,
            method: None,
            next: None,
            said: None,
            ask: None,
            class: "",
            fields: Vec::new(),
        }
    }

    /// Uses another method than POST.
    #[must_use]
    pub(super) fn method(mut self, method: &'a str) -> Action<'a> {
        self.method = Some(method);
        self
    }

    /// Where to go afterwards, instead of back; `{id}` and other fields of the response are filled
    /// in.
    #[must_use]
    pub(super) fn next(mut self, next: impl Into<String>) -> Action<'a> {
        self.next = Some(next.into());
        self
    }

    /// The message to show afterwards.
    #[must_use]
    pub(super) fn said(mut self, said: &'a str) -> Action<'a> {
        self.said = Some(said);
        self
    }

    /// The question to ask first, for an action that cannot be undone.
    #[must_use]
    pub(super) fn ask(mut self, question: &'a str) -> Action<'a> {
        self.ask = Some(question);
        self.class = "danger";
        self
    }

    /// The button's class: `main`, `plain`, `danger`.
    #[must_use]
    pub(super) fn class(mut self, class: &'a str) -> Action<'a> {
        self.class = class;
        self
    }

    /// Adds a hidden field.
    #[must_use]
    pub(super) fn field(mut self, name: &'a str, value: impl Into<String>) -> Action<'a> {
        self.fields.push((name, value.into()));
        self
    }

    /// The form with its button.
    pub(super) fn show(&self, context: &PageContext) -> Markup {
        html! {
            form method="post" action={ "/forms/" (self.path) } data-ask=[self.ask] {
                @let next = self.next.as_deref().unwrap_or(&context.address);
                (hidden(context, next, self.said, self.method))
                @for (name, value) in &self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                button type="submit" class=(self.class) { (self.label) }
            }
        }
    }
}

/// The hidden fields of every form to the API: the key, the next page, the message to show there.
pub(super) fn hidden(
    context: &PageContext,
    next: &str,
    said: Option<&str>,
    method: Option<&str>,
) -> Markup {
    html! {
        input type="hidden" name="_key" value=(context.form_key());
        input type="hidden" name="_next" value=(next);
        @if let Some(said) = said {
            input type="hidden" name="_said" value=(said);
        }
        @if let Some(method) = method {
            input type="hidden" name="_method" value=(method);
        }
    }
}

/// A field: its label, the control and a hint. `id` connects them.
pub(super) fn field(label: &str, id: &str, hint: &str, control: Markup) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            (control)
            @if !hint.is_empty() {
                span.hint id={ (id) "-hint" } { (hint) }
            }
        }
    }
}

/// A single-line text field.
pub(super) fn text(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    let id = id_of(name);
    let described = (!hint.is_empty()).then(|| format!("{id}-hint"));
    field(
        label,
        &id,
        hint,
        html! { input type="text" id=(id) name=(name) value=(value) aria-describedby=[described]; },
    )
}

/// A multi-line text field.
pub(super) fn area(label: &str, name: &str, value: &str, rows: u32, hint: &str) -> Markup {
    let id = id_of(name);
    let described = (!hint.is_empty()).then(|| format!("{id}-hint"));
    field(
        label,
        &id,
        hint,
        html! {
            textarea id=(id) name=(name) rows=(rows) spellcheck="false" aria-describedby=[described] {
                (value)
            }
        },
    )
}

/// A selection of one of several values, with their labels.
pub(super) fn select(label: &str, name: &str, chosen: &str, all: &[(&str, &str)]) -> Markup {
    let id = id_of(name);
    field(
        label,
        &id,
        "",
        html! {
            select id=(id) name=(name) {
                @for (value, label) in all {
                    option value=(value) selected[*value == chosen] { (label) }
                }
            }
        },
    )
}

pub(super) fn check(label: &str, name: &str, is_on: bool) -> Markup {
    let id = id_of(name);
    html! {
        div.check {
            input type="checkbox" id=(id) name=(name) value="true" checked[is_on];
            label for=(id) { (label) }
        }
    }
}

/// The id of the field with this name.
fn id_of(name: &str) -> String {
    format!("field-{}", name.replace([':', '.'], "-"))
}
