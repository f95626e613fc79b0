//! Schemas for people: the fields of objects with their types, and an example.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// How deeply nested objects are shown. It also bounds recursive schemas.
const DEEPEST: usize = 4;

/// The fields of a schema, as nested lists.
pub(super) fn shown(document: &Value, schema: &Value) -> Markup {
    fields(document, schema, 0)
}

fn fields(document: &Value, schema: &Value, depth: usize) -> Markup {
    let schema = resolved(document, schema);
    if depth > DEEPEST {
        return html! {};
    }
    if let Some(items) = schema.get("items") {
        return html! { p.muted.small { "a list of" } (fields(document, items, depth + 1)) };
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return html! { p.mono.small { (kind(schema)) } };
    };
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
    };
    html! {
        ul.plain.lines {
            @for (name, field) in properties {
                @let inner = resolved(document, field);
                li {
                    code { (name) } " " span.muted.small { (kind(field)) }
                    @if is_required(name) { " " span.tag { "required" } }
                    @let said = field["description"].as_str().or(inner["description"].as_str());
                    @if let Some(said) = said { div.small { (super::prose(said)) } }
                    @if has_fields(document, inner) && depth < DEEPEST {
                        details { summary.small { "fields" } (fields(document, inner, depth + 1)) }
                    }
                }
            }
        }
    }
}

fn has_fields(document: &Value, schema: &Value) -> bool {
    let schema = resolved(document, schema);
    schema.get("properties").is_some()
        || schema.get("items").is_some_and(|items| has_fields(document, items))
}

/// The schema behind a reference, also behind a reference that may be null.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name =
        |schema: &'a Value| schema.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/");
    if let Some(name) = name(schema) {
        return &document["components"]["schemas"][name];
    }
    let choices = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array);
    let choice = choices.into_iter().flatten().find_map(name);
    choice.map_or(schema, |name| &document["components"]["schemas"][name])
}

/// The type of a value, in a word or two.
pub(super) fn kind(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", kind_of_items(schema)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ")
        }
        _ if schema.get("$ref").is_some() || schema.get("oneOf").is_some() => "object".to_owned(),
        _ => "any".to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    schema.get("items").map_or_else(|| "any".to_owned(), |items| kind(items) + "s")
}

/// An example body: the required fields, or all fields of a small object.
pub(super) fn example(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    if let Some(example) = schema.get("example") {
        return pretty(example);
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return if schema["type"] == "string" { String::new() } else { "{}".to_owned() };
    };
    let required = schema["required"].as_array();
    let is_wanted = |name: &str| match required {
        Some(names) => names.iter().any(|one| one == name),
        None => properties.len() <= 3,
    };
    let chosen: Map<String, Value> = properties
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, field)| (name.clone(), placeholder(field)))
        .collect();
    pretty(&Value::Object(chosen))
}

fn placeholder(schema: &Value) -> Value {
    let kind = kind(schema);
    match &*kind {
        kind if kind.starts_with("list") => json!([]),
        kind if kind.contains("integer") || kind.contains("number") => json!(0),
        kind if kind.contains("boolean") => json!(false),
        kind if kind.contains("string") => json!(""),
        _ => json!({}),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
