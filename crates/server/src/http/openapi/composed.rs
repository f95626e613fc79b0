//! Schemas without a Rust type: schedules and calendars from the engine's table of keys, and bodies
//! of several kinds.

use language::definition::{calendar_schema, limits, schedule_schema};
use serde_json::{Map, Value, json};

use crate::http::schedules::{LARGEST_BATCH, LARGEST_COUNT};

/// Other names for keys, for compatibility: they are accepted, and not shown.
const ALIASES: [&str; 4] = ["every", "workflow", "trigger", "trigger_payload"];
/// Keys of a schedule that responses show in other fields, or not at all.
const NOT_SHOWN: [&str; 6] =
    ["every", "payload", "trigger_payload", "workflow_id", "workflow", "trigger"];
/// The definitions that the engine's schema of a schedule refers to, with their names and
/// descriptions here.
const PARTS: [(&str, &str, &str); 5] = [
    ("rule", "TimingRule", "One of several rules: the keys that say when."),
    ("incident_action", "IncidentAction", "Who is told of a failure, or what is started."),
    ("channel", "NotifyChannel", "Where a message goes: one of its keys."),
    ("template", "TemplateText", "A text; {{ … }} is filled in."),
    ("name", "WorkflowName", "The name of a workflow."),
];

/// Replaces the placeholders of these schemas.
pub(super) fn fill(document: &mut Value) {
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut)
    else {
        return;
    };
    let mut schedule = schedule(schemas);
    name_parts(&mut schedule, schemas);
    name_items(schemas);
    let mut put = |name: &str, schema: Value| schemas.insert(name.to_owned(), schema);
    put("ScheduleInput", new_schedule(schedule.clone()));
    put("ScheduleBatch", batch());
    put("ScheduleChange", change(schedule.clone()));
    put("ScheduleEdited", either(&["ScheduleObject", "Difference"]));
    put("PreviewInput", preview(schedule.clone()));
    put("DeclaredSchedule", declared(schedule));
    put("CalendarInput", titled(calendar_schema(), "A calendar as it is declared."));
    let nothing = json!({ "type": "object", "additionalProperties": false });
    put("Nothing", titled(nothing, "Nothing is said: an empty object."));
    put("HookAnswered", either(&["HookCalled", "Published"]));
    put("EventsInput", one_or_many("EventInput", limits::EVENTS));
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn titled(mut schema: Value, description: &str) -> Value {
    schema["description"] = json!(description);
    schema
}

fn either(names: &[&str]) -> Value {
    let choices: Vec<Value> = names.iter().map(|name| reference(name)).collect();
    json!({ "anyOf": choices })
}

fn one_or_many(name: &str, most: usize) -> Value {
    let many = json!({ "type": "array", "items": reference(name), "maxItems": most });
    json!({ "oneOf": [reference(name), many] })
}

/// The schema of a schedule's keys. The definitions it refers to become components.
fn schedule(schemas: &mut Map<String, Value>) -> Value {
    let mut schema = schedule_schema();
    let mut defs = schema.as_object_mut().and_then(|fields| fields.remove("$defs"));
    mark_aliases(&mut schema);
    name_references(&mut schema);
    for (def, name, description) in PARTS {
        let mut part = defs.as_mut().map_or(Value::Null, |defs| defs[def].take());
        mark_aliases(&mut part);
        name_references(&mut part);
        name_parts(&mut part, schemas);
        schemas.insert(name.to_owned(), titled(part, description));
    }
    schema
}

fn mark_aliases(schema: &mut Value) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if ALIASES.contains(&name.as_str()) {
            property["deprecated"] = json!(true);
        }
    }
}

/// Turns the engine's references, such as `#/$defs/rule`, into references to components.
fn name_references(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let to = fields.get("$ref").and_then(Value::as_str);
            let to = to.and_then(|to| to.strip_prefix("#/$defs/"));
            let known = PARTS.iter().find(|(def, ..)| Some(*def) == to);
            if let Some((_, name, _)) = known {
                fields.extend(reference(name).as_object().cloned().unwrap_or_default());
            }
            fields.values_mut().for_each(name_references);
        }
        Value::Array(items) => items.iter_mut().for_each(name_references),
        _ => {}
    }
}

/// Names the schemas inside a schedule, so that generated clients have names for their types.
fn name_parts(schema: &mut Value, schemas: &mut Map<String, Value>) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (key, property) in properties.into_iter().flatten() {
        let choices = property.get_mut("anyOf").and_then(Value::as_array_mut);
        let Some(choices) = choices else { continue };
        let has_words = choices.iter().any(|choice| choice.get("enum").is_some());
        for choice in choices {
            let name = match (choice.get("enum"), choice.get("properties")) {
                (Some(_), _) => format!("Schedule{}", in_one_word(key)),
                (_, Some(_)) if has_words => format!("Schedule{}Options", in_one_word(key)),
                (_, Some(_)) => format!("Schedule{}", in_one_word(key)),
                (None, None) => continue,
            };
            let mut part = std::mem::replace(choice, reference(&name));
            untitle(&mut part);
            schemas.insert(name, part);
        }
    }
}

/// A key as the name of a schema: `catch_up` becomes `CatchUp`.
fn in_one_word(key: &str) -> String {
    let words = key.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// Removes titles: editors use them, but here generators would turn them into type names.
fn untitle(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("title");
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten() {
        if let Some(fields) = property.as_object_mut() {
            fields.remove("title");
        }
    }
}

/// Makes the items of lists refer to their components.
fn name_items(schemas: &mut Map<String, Value>) {
    for (name, schema) in schemas {
        if let Some(item) = name.strip_prefix("Listed_") {
            schema["properties"]["items"]["items"] = reference(item);
        }
    }
}

fn new_schedule(mut schedule: Value) -> Value {
    schedule["required"] = json!(["name", "workflow_id"]);
    if let Some(properties) = schedule["properties"].as_object_mut() {
        let id = json!({
            "anyOf": [{ "type": "string" }, { "type": "integer" }],
            "description": "Id or name of the workflow that it starts",
        });
        properties.insert("workflow_id".to_owned(), id);
    }
    titled(
        schedule,
        "A new schedule. Exactly one rule is given: `cron`, `interval`, `interval_seconds`, `rrule`, `at`, `daily`, …",
    )
}

/// The schema of a change. It has no defaults: a key that is left out stays as it is.
fn change(mut schedule: Value) -> Value {
    without_defaults(&mut schedule);
    titled(schedule, "What is to change in a schedule; `null` takes a key away.")
}

fn without_defaults(schedule: &mut Value) {
    let properties = schedule.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten() {
        if let Some(fields) = property.as_object_mut() {
            fields.remove("default");
        }
    }
}

fn batch() -> Value {
    let list =
        json!({ "type": "array", "items": reference("ScheduleInput"), "maxItems": LARGEST_BATCH });
    let wrapped = json!({
        "type": "object",
        "properties": { "schedules": list },
        "required": ["schedules"],
        "additionalProperties": false,
    });
    let mut list = list;
    list["description"] = json!("The new schedules");
    json!({ "oneOf": [list, wrapped], "description": "A list of new schedules." })
}

fn preview(mut schedule: Value) -> Value {
    if let Some(properties) = schedule["properties"].as_object_mut() {
        let count = json!({
            "type": ["integer", "null"], "minimum": 1, "maximum": LARGEST_COUNT, "default": 10,
            "description": "How many times are shown",
        });
        properties.insert("count".to_owned(), count);
        let after = json!({
            "type": ["string", "null"], "format": "date-time",
            "description": "Times after this one; now, if left out",
        });
        properties.insert("after".to_owned(), after);
    }
    titled(schedule, "A rule with its options, as a schedule has them.")
}

fn declared(mut schedule: Value) -> Value {
    without_defaults(&mut schedule);
    let properties = schedule["properties"].as_object_mut().map(std::mem::take).unwrap_or_default();
    let shown: Map<String, Value> =
        properties.into_iter().filter(|(name, _)| !NOT_SHOWN.contains(&name.as_str())).collect();
    json!({
        "type": "object",
        "description": "A schedule as it was declared, with the defaults that apply.",
        "properties": shown,
        "required": ["name"],
    })
}
