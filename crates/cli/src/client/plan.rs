//! What publishing a definition would do to its triggers.

use calendar::{Calendar, Zone, Zones};
use engine::definition::{Definition, ReadContext};
use serde_json::{Value, json};

use super::shown::{field, items};
use super::{Ask, Client};
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;

/// Each trigger with what would become of it and when it would start the workflow next. The node has
/// found nothing wrong with the text.
pub(super) fn triggers(
    client: &Client,
    document: &Document,
    zones: &Zones,
) -> Result<Value, Failure> {
    // The node knows the calendars, and has looked: here any will do.
    let any = |_: &str| {
        let region = calendar::holidays::Region::parse("US").ok()?;
        Some(Calendar::for_region(&region, Zone::utc()))
    };
    let context = ReadContext { zones, now: clock::now(), known_calendar: &any };
    let source = crate::scripts::source(document)?;
    let Ok((after, _)) = source.and_then(|source| source.read(&context)) else {
        return Ok(json!([]));
    };
    let known = known(client, &after.name)?;
    let before = known.as_ref().and_then(|workflow| {
        serde_json::from_value::<Definition>(workflow["definition"].clone()).ok()
    });
    let shown = known.as_ref().and_then(|workflow| workflow["triggers"].as_array());
    let shown = |id: &str| shown.and_then(|all| all.iter().find(|trigger| trigger["id"] == id));
    let mut told = Vec::new();
    for trigger in &after.triggers {
        let declared = after.declaration(trigger);
        let old = before.as_ref().and_then(|before| {
            let old = before.triggers.iter().find(|old| old.id == trigger.id)?;
            Some((old.enabled, before.declaration(old)))
        });
        let change = match &old {
            None => "new",
            Some(old) if *old == (trigger.enabled, declared.clone()) => "unchanged",
            Some(_) => "changed",
        };
        let (next, words) = match (change, declared, shown(&trigger.id)) {
            ("unchanged", _, Some(shown)) => (shown["next_run_at"].clone(), field(shown, "words")),
            (_, Some(declared), _) if trigger.enabled => preview(client, declared)?,
            _ => (Value::Null, String::new()),
        };
        told.push(row(&trigger.id, change, &next, &words));
    }
    let gone = before.iter().flat_map(|before| &before.triggers);
    for trigger in gone.filter(|old| after.triggers.iter().all(|new| new.id != old.id)) {
        let shown = shown(&trigger.id).unwrap_or(&Value::Null);
        told.push(row(&trigger.id, "removed", &shown["next_run_at"], &field(shown, "words")));
    }
    Ok(Value::Array(told))
}

fn row(id: &str, change: &str, next: &Value, words: &str) -> Value {
    json!({ "id": id, "change": change, "next_run_at": next, "words": words })
}

fn known(client: &Client, name: &str) -> Result<Option<Value>, Failure> {
    match client.ask(Ask::get(&["workflows", name])) {
        Ok(workflow) => Ok(Some(workflow)),
        // There is none yet.
        Err(Failure::Mistake(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The next time of a rule, and the rule in words; nothing of a rule that needs a calendar which the
/// definition itself brings along.
fn preview(
    client: &Client,
    mut declared: serde_json::Map<String, Value>,
) -> Result<(Value, String), Failure> {
    declared.insert("count".to_owned(), 1.into());
    match client.ask(Ask::post(&["preview"]).json(&Value::Object(declared))) {
        Ok(answer) => {
            let next = items(&answer).iter().find(|due| due["effective_at"].is_string());
            let next = next.map_or(Value::Null, |due| due["effective_at"].clone());
            Ok((next, field(&answer, "words")))
        }
        Err(Failure::Mistake(_) | Failure::Invalid { .. }) => Ok((Value::Null, String::new())),
        Err(other) => Err(other),
    }
}
