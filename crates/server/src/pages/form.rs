//! Forms as they are written: buttons that do one thing, and fields with their labels and hints.
//!
//! A form goes to `/forms/` and the rest of an address of the API; see [`super::forms`] for what becomes of it.

use maud::{Markup, html};

use super::visit::Visit;

/// A button that does one thing, which is one request to the API.
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
    /// `path` is the API's, from `/api/v1/` on, without it.
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

    /// Another method than POST.
    #[must_use]
    pub(super) fn method(mut self, method: &'a str) -> Action<'a> {
        self.method = Some(method);
        self
    }

    /// Where to go afterwards, instead of back; `{id}` and other fields of the answer are filled in.
    #[must_use]
    pub(super) fn next(mut self, next: impl Into<String>) -> Action<'a> {
        self.next = Some(next.into());
        self
    }

    /// What to say afterwards.
    #[must_use]
    pub(super) fn said(mut self, said: &'a str) -> Action<'a> {
        self.said = Some(said);
        self
    }

    /// What to ask before, of something that cannot be undone.
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

    /// A field that is sent along.
    #[must_use]
    pub(super) fn field(mut self, name: &'a str, value: impl Into<String>) -> Action<'a> {
        self.fields.push((name, value.into()));
        self
    }

    /// The form with its button.
    pub(super) fn show(&self, visit: &Visit) -> Markup {
        html! {
            form method="post" action={ "/forms/" (self.path) } data-ask=[self.ask] {
                (hidden(visit, self.next.as_deref().unwrap_or(&visit.address), self.said, self.method))
                @for (name, value) in &self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                button type="submit" class=(self.class) { (self.label) }
            }
        }
    }
}

/// What every form to the API has: the key, where to go afterwards, what to say then.
pub(super) fn hidden(
    visit: &Visit,
    next: &str,
    said: Option<&str>,
    method: Option<&str>,
) -> Markup {
    html! {
        input type="hidden" name="_key" value=(visit.form_key());
        input type="hidden" name="_next" value=(next);
        @if let Some(said) = said {
            input type="hidden" name="_said" value=(said);
        }
        @if let Some(method) = method {
            input type="hidden" name="_method" value=(method);
        }
    }
}

/// A field: its label, the control and a hint. `id` ties them together.
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

/// A line of text.
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

/// Lines of text.
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

/// One of several: values with their labels.
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

/// Yes or no.
pub(super) fn check(label: &str, name: &str, is_on: bool) -> Markup {
    let id = id_of(name);
    html! {
        div.check {
            input type="checkbox" id=(id) name=(name) value="true" checked[is_on];
            label for=(id) { (label) }
        }
    }
}

/// An id for the field of this name.
fn id_of(name: &str) -> String {
    format!("field-{}", name.replace([':', '.'], "-"))
}
