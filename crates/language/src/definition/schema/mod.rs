//! The JSON Schema of a definition, for editors and programs.
//!
//! The keys are listed here with their meaning, by the type of step or mapping they belong to
//! (`keys`, `steps`, `triggers`, `schedules`, `rules`); a test compares them with the keys that the
//! reader knows. Only the reader checks what a schema cannot express: dependencies, cycles and
//! expressions.

mod keys;
mod rules;
mod schedules;
mod steps;
mod triggers;

use serde_json::{Map, Value, json};

use keys::{Default, Key, Shape};

pub(crate) use schedules::{policy_keys, rule_keys, timing_keys};
pub use schedules::{schedule_keys, schedule_schema};

/// The schema, in draft 2020-12.
///
/// ```
/// let schema = language::definition::schema();
/// assert_eq!(schema["$defs"]["timer_step"]["properties"]["type"]["const"], "timer");
/// ```
pub fn schema() -> Value {
    let mut schema = object(keys::DEFINITION);
    let mut defs = shared();
    defs.extend(steps::defs());
    defs.extend(triggers::defs());
    if let Value::Object(schema) = &mut schema {
        let some = ["steps", "producers", "consumers"].map(|key| json!({ "required": [key] }));
        schema.insert("anyOf".into(), json!(some));
        schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".into(), json!("A workflow of Punctual"));
        schema.insert("$defs".into(), Value::Object(defs));
    }
    schema
}

/// The JSON Schema of a calendar in the API. Its id is in the path.
pub fn calendar_schema() -> Value {
    let mut schema = object(keys::CALENDAR);
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("required");
    }
    schema["properties"]["id"] = json!({ "type": "string", "description": "The id in the path" });
    schema
}

/// The schema of a mapping with these keys and no others.
fn object(keys: &[Key]) -> Value {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), key.value())).collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// The schema of a mapping whose `type` selects one of several definitions.
fn by_type(title: &str, types: &[(&str, String)]) -> Value {
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    let cases: Vec<Value> = types
        .iter()
        .map(|(name, def)| {
            json!({
                "if": { "properties": { "type": { "const": name } }, "required": ["type"] },
                "then": { "$ref": format!("#/$defs/{def}") },
            })
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "title": title, "enum": names } },
        "allOf": cases,
    })
}

fn shared() -> Map<String, Value> {
    let defs = [
        ("retry", object(keys::RETRY)),
        ("deadline", object(keys::DEADLINE)),
        ("deadline_action", object(keys::DEADLINE_ACTION)),
        ("incident_action", object(keys::INCIDENT_ACTION)),
        ("channel", one_of_its_keys(keys::CHANNEL)),
        ("output", object(keys::OUTPUT)),
        ("route", object(keys::ROUTE)),
        ("jump", object(keys::JUMP)),
        ("calendar", object(keys::CALENDAR)),
        ("topic_entry", object(keys::TOPIC_ENTRY)),
        ("topic_options", object(keys::TOPIC_OPTIONS)),
        ("producer", object(keys::PRODUCER)),
        ("consumer", object(keys::CONSUMER)),
        ("topic", json!({ "type": "string", "pattern": keys::TOPIC_NAME })),
        ("id", json!({ "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$" })),
        ("name", json!({ "type": "string", "pattern": "^[a-z][a-z0-9-]{0,63}$" })),
        ("duration", duration("30s, 5m, 1h30m, 1d, PT5M, or a number of seconds")),
        ("stretch", duration("5m, 16 working hours, 2 working days, or a number of seconds")),
        ("template", json!({ "type": "string", "description": "A text; {{ … }} is filled in" })),
        (
            "condition",
            json!({
                "type": ["string", "boolean"],
                "description": "An expression, such as steps.check.output.score > 80",
            }),
        ),
    ];
    defs.into_iter().map(|(name, def)| (name.to_owned(), def)).collect()
}

fn duration(description: &str) -> Value {
    json!({
        "description": description,
        "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "integer", "minimum": 1 }],
    })
}

fn one_of_its_keys(keys: &[Key]) -> Value {
    let mut channel = object(keys);
    channel["minProperties"] = json!(1);
    channel["maxProperties"] = json!(1);
    channel
}

impl Key {
    fn value(&self) -> Value {
        let shape = self.shape.value();
        let Value::Object(mut shape) = shape else { return shape };
        shape.insert("description".into(), json!(self.description));
        let default = match self.default {
            Default::Nothing => return Value::Object(shape),
            Default::Word(word) => json!(word),
            Default::Number(number) => json!(number),
            Default::Flag(flag) => json!(flag),
        };
        shape.insert("default".into(), default);
        Value::Object(shape)
    }
}

impl Shape {
    fn value(&self) -> Value {
        match self {
            Shape::Any => json!({}),
            Shape::Text => json!({ "type": "string" }),
            Shape::Line => json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
            Shape::Const(word) => json!({ "const": word }),
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Nothing => json!({ "type": "null" }),
            Shape::Mapping => json!({ "type": "object" }),
            Shape::Texts => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
            Shape::Whole(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Shape::Integer(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Shape::Seconds => {
                let seconds = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
                json!({ "anyOf": [{ "type": "string" }, seconds] })
            }
            Shape::Object(keys) => object(keys),
            Shape::Number(least, most) => {
                json!({ "type": "number", "minimum": least, "maximum": most })
            }
            Shape::Choice(title, words) => {
                json!({ "title": title, "type": "string", "enum": words })
            }
            Shape::Is(def) => json!({ "$ref": format!("#/$defs/{def}") }),
            Shape::Either(shapes) => {
                let shapes: Vec<Value> = shapes.iter().map(Shape::value).collect();
                json!({ "anyOf": shapes })
            }
            Shape::List(item) => json!({ "type": "array", "items": item.value() }),
            Shape::OneOrMany(item) => {
                json!({ "anyOf": [item.value(), { "type": "array", "items": item.value() }] })
            }
            Shape::Named(pattern, value) => json!({
                "type": "object",
                "propertyNames": { "pattern": pattern },
                "additionalProperties": value.value(),
            }),
        }
    }
}
