//! Moves the defaults of request bodies into descriptions. Client generators treat a field with a
//! `default` as always present, so clients would have to send it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const SCHEMAS: &str = "#/components/schemas/";

/// Removes the defaults from everything that a request may send.
pub(super) fn complete(document: &mut Value) {
    let mut open = BTreeSet::new();
    let operations = document.get_mut("paths").and_then(Value::as_object_mut);
    let operations = operations.into_iter().flat_map(Map::values_mut);
    for operation in operations.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        if let Some(body) = operation.get_mut("requestBody") {
            describe_defaults(body, &mut open);
        }
    }
    let mut known = BTreeSet::new();
    while let Some(name) = open.pop_first() {
        if known.insert(name.clone())
            && let Some(schema) = document.pointer_mut(&format!("/components/schemas/{name}"))
        {
            describe_defaults(schema, &mut open);
        }
    }
}

/// Removes the defaults from a schema, and notes which others it refers to. Recursion is safe: the
/// document is the program's own and not deep.
fn describe_defaults(schema: &mut Value, open: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let to = fields.get("$ref").and_then(Value::as_str);
            open.extend(to.and_then(|to| to.strip_prefix(SCHEMAS)).map(str::to_owned));
            for (key, value) in fields {
                match (key.as_str(), value) {
                    // These keys are names of fields, and one may be called `default`.
                    ("properties", Value::Object(properties)) => {
                        for property in properties.values_mut() {
                            describe_default(property);
                            describe_defaults(property, open);
                        }
                    }
                    ("example" | "examples" | "const" | "enum" | "default", _) => {}
                    (_, value) => describe_defaults(value, open),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| describe_defaults(item, open)),
        _ => {}
    }
}

fn describe_default(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    let Some(default) = fields.remove("default").filter(|default| !default.is_null()) else {
        return;
    };
    let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
    let said = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    let said = said.trim_end_matches('.');
    let separator = if said.is_empty() { "" } else { ". " };
    let description = format!("{said}{separator}If left out: `{default}`.");
    fields.insert("description".to_owned(), description.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_requests_become_words_and_those_of_answers_stay() {
        let body = |name: &str| {
            json!({ "content": { "application/json": { "schema":
            { "$ref": format!("{SCHEMAS}{name}") } } } })
        };
        let mut document = json!({
            "paths": { "/x": { "post": {
                "requestBody": body("Asked"),
                "responses": { "200": body("Answered") },
            } } },
            "components": { "schemas": {
                "Asked": { "properties": {
                    "count": { "type": "integer", "default": 10, "description": "How many." },
                    "default": { "type": "string" },
                    "inner": { "anyOf": [{ "$ref": "#/components/schemas/Inner" }] },
                } },
                "Inner": { "properties": { "mode": { "default": "all" }, "none": { "default": null } } },
                "Answered": { "properties": { "n": { "default": 1 } } },
            } },
        });
        complete(&mut document);
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas["Asked"]["properties"]["count"],
            json!({ "type": "integer", "description": "How many. If left out: `10`." })
        );
        assert_eq!(schemas["Asked"]["properties"]["default"], json!({ "type": "string" }));
        assert_eq!(
            schemas["Inner"]["properties"],
            json!({ "mode": { "description": "If left out: `all`." }, "none": {} })
        );
        assert_eq!(schemas["Answered"]["properties"]["n"]["default"], 1);
    }
}
