//! One operation of the API: its parameters, body and responses.

use std::collections::HashMap;

use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded;

use super::{prose, schema};
use crate::pages::form;
use crate::pages::page_context::PageContext;

/// One operation of the API.
pub(super) struct Operation<'a> {
    document: &'a Value,
    pub(super) path: &'a str,
    method: &'a str,
    declared: &'a Value,
}

/// All operations, in the order of the document.
pub(super) fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        methods.as_object().into_iter().flatten().map(move |(method, declared)| Operation {
            document,
            path,
            method,
            declared,
        })
    });
    all.filter(|operation| !operation.declared["operationId"].is_null()).collect()
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.declared["operationId"].as_str().unwrap_or_default()
    }

    pub(super) fn tag(&self) -> &'a str {
        self.declared["tags"][0].as_str().unwrap_or("others")
    }

    pub(super) fn method(&self) -> String {
        self.method.to_ascii_uppercase()
    }

    pub(super) fn text(&self, field: &str) -> &'a str {
        self.declared[field].as_str().unwrap_or_default()
    }

    fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        self.declared["parameters"].as_array().into_iter().flatten()
    }

    /// The content type and schema of the body, if there is one.
    fn body(&self) -> Option<(&'a str, &'a Value)> {
        let content = self.declared["requestBody"]["content"].as_object()?;
        content.iter().next().map(|(kind, content)| (kind.as_str(), &content["schema"]))
    }

    /// The content type of the body.
    pub(super) fn content_type(&self) -> &'a str {
        self.body().map_or("application/json", |(kind, _)| kind)
    }

    /// The address, with its parameters filled in from the form.
    pub(super) fn address(&self, sent: &HashMap<String, String>) -> String {
        let mut path = self.path.to_owned();
        let mut query = form_urlencoded::Serializer::new(String::new());
        for parameter in self.parameters() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let value = sent.get(name).map_or("", String::as_str);
            match parameter["in"].as_str() {
                Some("path") => {
                    let value = percent_encoding::utf8_percent_encode(
                        value,
                        percent_encoding::NON_ALPHANUMERIC,
                    );
                    path = path.replace(&format!("{{{name}}}"), &value.to_string());
                }
                Some("query") if !value.is_empty() => drop(query.append_pair(name, value)),
                _ => {}
            }
        }
        match query.finish() {
            query if query.is_empty() => path,
            query => format!("{path}?{query}"),
        }
    }

    /// A form with a field for each parameter, and one for the body.
    pub(super) fn form(&self, context: &PageContext, sent: &str) -> Markup {
        let sent: HashMap<_, _> = form_urlencoded::parse(sent.as_bytes()).into_owned().collect();
        let value = |name: &str| sent.get(name).map_or("", String::as_str);
        html! {
            form.form method="post" action={ "/docs/" (self.id()) } {
                input type="hidden" name="_key" value=(context.form_key());
                @for parameter in self.parameters() {
                    @let name = parameter["name"].as_str().unwrap_or_default();
                    @if parameter["in"] != "header" {
                        (form::text(name, name, value(name), parameter["description"].as_str().unwrap_or_default()))
                    }
                }
                @if let Some((kind, declared)) = self.body() {
                    @let example = schema::example(self.document, declared);
                    @let shown = if sent.is_empty() { example.as_str() } else { value("_body") };
                    (form::area("Body", "_body", shown, 10, kind))
                }
                div.row { button.main type="submit" { "Send " (self.method()) } }
            }
        }
    }

    pub(super) fn parameters_shown(&self) -> Markup {
        let parameters: Vec<&Value> = self.parameters().collect();
        if parameters.is_empty() {
            return html! {};
        }
        html! {
            section.card.flush {
                header { h2 { "Parameters" } }
                table.cards {
                    thead { tr { th { "Name" } th { "In" } th { "Kind" } th { "What it is" } } }
                    tbody {
                        @for parameter in parameters {
                            tr {
                                td.mono { (parameter["name"].as_str().unwrap_or_default()) }
                                td data-label="in" { (parameter["in"].as_str().unwrap_or_default()) }
                                td data-label="kind" {
                                    (schema::kind(&parameter["schema"]))
                                    @if parameter["required"] == true { " " strong { "required" } }
                                }
                                td { (prose(parameter["description"].as_str().unwrap_or_default())) }
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn body_shown(&self) -> Markup {
        match self.body() {
            Some((kind, declared)) => html! {
                section.card {
                    header { h2 { "Body" } span.muted.mono { (kind) } }
                    (schema::shown(self.document, declared))
                }
            },
            None => html! {},
        }
    }

    pub(super) fn responses_shown(&self) -> Markup {
        let responses = self.declared["responses"].as_object();
        html! {
            section.card {
                h2 { "Answers" }
                @for (status, response) in responses.into_iter().flatten() {
                    @let content = response["content"].as_object().and_then(|all| all.iter().next());
                    details open[status.starts_with('2')] {
                        summary {
                            (status) " " span.muted { (prose(response["description"].as_str().unwrap_or_default())) }
                        }
                        @match content {
                            Some((kind, content)) => {
                                p.muted.mono.small { (kind) }
                                (schema::shown(self.document, &content["schema"]))
                            }
                            None => p.muted { "Nothing." },
                        }
                    }
                }
            }
        }
    }
}
