//! Parameters and fields that mean the same wherever they occur.

use serde_json::{Map, Value, json};

use super::super::calendars::YEARS;
use super::super::query::{DEFAULT_LIMIT, LARGEST_LIMIT};
use super::super::schedules::LARGEST_COUNT;
use engine::run::RunStatus;

/// Descriptions of fields that mean the same in every object, used where a field has none itself.
const FIELDS: &[(&str, &str)] = &[
    ("id", "Its id"),
    ("name", "What it is called"),
    ("description", "What it is for"),
    ("items", "In the order of the list"),
    ("workflow_id", "Id of the workflow"),
    ("schedule_id", "Id of the schedule"),
    ("run_id", "Id of the run"),
    ("step_id", "Id of the step in its definition"),
    ("calendar", "Id of the calendar, or a region"),
    ("timezone", "The zone of its times"),
    ("zone", "The zone of its times"),
    ("created_at", "When it was created"),
    ("updated_at", "When it was last changed"),
    ("started_at", "When it began"),
    ("ended_at", "When it ended"),
    ("nominal_at", "What the rule says"),
    ("effective_at", "When it happens"),
    ("decided_at", "When that was decided"),
    ("asked_at", "Since when it is asked"),
    ("expires_at", "Until when it is good; for ever, if nothing"),
    ("revoked_at", "When it was revoked"),
    ("last_run_at", "When its last run began"),
    ("last_error", "Why its last run failed"),
    ("last_outcome", "How its last run has ended"),
    ("created_by", "Who has made it"),
    ("since", "Since when"),
    ("at", "When"),
    ("now", "The node's time"),
    ("by", "Who says so"),
    ("n", "The number of the occurrence"),
    ("attempts", "How many attempts there were"),
    ("attempt", "Which attempt it is, from 1"),
    ("token", "The attempt's token, as it was claimed"),
    ("queue", "The queue it waits in"),
    ("status", "Where it stands"),
    ("state", "Where it stands"),
    ("reason", "Why, in words"),
    ("code", "A word for programs"),
    ("message", "For people"),
    ("warnings", "What one should know"),
    ("words", "The rule in words"),
    ("dry_run", "Whether nothing was done"),
    ("input", "What it works on: any JSON"),
    ("output", "What came out: any JSON"),
    ("payload", "What the run works on: any JSON"),
    ("error", "Why it failed"),
    ("sentences", "In sentences"),
    ("depends_on", "Steps that have ended before this one begins"),
    ("triggers", "What starts it"),
    ("problems", "What is wrong, or worth knowing"),
    ("valid", "Whether it can be saved"),
    ("roles", "What it may do"),
    ("date", "The date"),
    ("from", "The first"),
    ("to", "The last"),
    ("year", "The year"),
    ("weekday", "The day of the week"),
    ("working_days", "How many working days there are"),
    ("start", "Where it begins"),
    ("amount", "How much working time"),
    ("result", "Where that leads"),
    ("elapsed_seconds", "How long that is on the clock"),
    ("current_repeat", "How often it has run"),
    ("current_retry", "Which retry of the occurrence is next"),
    ("created", "How many were created"),
    ("action", "What is done"),
    ("outcome", "What became of it"),
    ("run_status", "Where its run stands"),
    ("workflows", "How many workflows there are"),
];

/// Completes parameters, and describes every field that has no description.
pub(super) fn complete(document: &mut Value) {
    let paths = document["paths"].as_object_mut();
    for (path, item) in paths.into_iter().flatten() {
        for operation in item.as_object_mut().into_iter().flatten().map(|(_, operation)| operation)
        {
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                complete_parameter(path, parameter);
            }
        }
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    for (_, schema) in schemas.into_iter().flatten() {
        describe(schema);
        let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(describe);
    }
}

fn describe(schema: &mut Value) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let Some(fields) = property.as_object_mut() else { continue };
        let known = FIELDS.iter().find(|(known, _)| known == name);
        if let Some((_, description)) = known.filter(|_| !fields.contains_key("description")) {
            fields.insert("description".to_owned(), json!(description));
        }
    }
}

fn complete_parameter(path: &str, parameter: &mut Value) {
    let Some(fields) = parameter.as_object_mut() else { return };
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(schema) = fields.get_mut("schema") {
        without_null(schema);
        if let (Some((more, _)), Some(schema)) = (known(path, &name), schema.as_object_mut()) {
            schema.extend(more);
        }
    }
    if fields.get("in") == Some(&json!("query")) && fields.get("required") != Some(&json!(true)) {
        fields.insert("allowEmptyValue".to_owned(), json!(true));
    }
    let description = known(path, &name).map_or("", |(_, description)| description);
    let said = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    if said.is_empty() && !description.is_empty() {
        fields.insert("description".to_owned(), json!(description));
    }
}

/// Removes `null` from a schema: a parameter in a path, query or header is given or not. Returns
/// whether `null` was allowed.
pub(super) fn without_null(schema: &mut Value) -> bool {
    let before = schema.clone();
    let null = json!({ "type": "null" });
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            schema["type"] = only.clone();
        }
    }
    let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    let choices = choices.map(std::mem::take).unwrap_or_default();
    if let Some(only) = choices.into_iter().find(|choice| *choice != null) {
        *schema = only;
    }
    *schema != before
}

/// The schema and description of a parameter that is known by its name.
fn known(path: &str, name: &str) -> Option<(Map<String, Value>, &'static str)> {
    let is_calendar = path.contains("/calendars/");
    let date = || json!({ "format": "date", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" });
    let (schema, description) = match name {
        "limit" => (
            json!({ "type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT, "default": DEFAULT_LIMIT }),
            "How many items at most",
        ),
        "cursor" => (json!({}), "next_cursor of the page before"),
        "count" => (json!({ "minimum": 1, "maximum": LARGEST_COUNT, "default": 10 }), "How many"),
        "offset" => (json!({ "minimum": 0, "maximum": i64::MAX }), "So many are passed over"),
        "revision" => (json!({ "minimum": 1 }), "Another revision"),
        "index" => (json!({ "minimum": 0 }), "The number of an item"),
        "year" => (
            json!({ "minimum": YEARS.start(), "maximum": YEARS.end() }),
            "The year; this one, if none is named",
        ),
        "date" => (date(), "The date"),
        "from" | "to" if is_calendar => (date(), "A date: both are included"),
        "since" | "at" | "from" | "to" => {
            (json!({ "format": "date-time" }), "RFC 3339 with an offset; in a URL, + is %2B")
        }
        "nominal" => (json!({ "format": "date-time" }), "The time that the rule says"),
        "status" if path.ends_with("/runs") => {
            let words = RunStatus::ALL.map(RunStatus::name).join("|");
            let pattern = format!("^({words})(,({words}))*$");
            (json!({ "pattern": pattern }), "One or several, with commas")
        }
        "topic" => {
            let schema = language::definition::schema();
            let pattern = &schema["$defs"]["topic"]["pattern"];
            (json!({ "pattern": pattern }), "Name or id of the topic")
        }
        "schedule_id" => (json!({ "pattern": "^[0-9]+$" }), "Id of a schedule"),
        "traceparent" => (json!({}), "The caller's span, as W3C Trace Context says"),
        "dry_run" | "publish" => (json!({ "default": false }), ""),
        _ => return None,
    };
    schema.as_object().cloned().map(|schema| (schema, description))
}
