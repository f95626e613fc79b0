//! The top level of a definition.

use std::collections::HashSet;

use crate::definition::handlers::{consumer, phase, producer, topics};
use crate::definition::model::Definition;
use crate::definition::order::Kept;
use crate::definition::reading::{Field, Fields, Reading, json, names};
use crate::definition::text::{Flaw, Kind, Node};
use crate::definition::time::{Calendars, calendars, deadlines};
use crate::definition::version::Version;
use crate::definition::{ReadContext, incident_actions, limits, order, outputs, steps, trigger};
use crate::input_schema::InputSchema;

/// Reads the definition as far as possible. Flaws are kept in `reading`.
pub(super) fn read(
    reading: &mut Reading<'_>,
    root: &Node,
    context: &ReadContext<'_>,
) -> Option<Definition> {
    let field = Field { path: String::new(), node: root };
    let mut fields = Fields::of(reading, &field, "name: my-workflow")?;
    let name = fields.require("name", "name: my-workflow");
    let name = name.and_then(|field| names::workflow(reading, &field));
    let version = fields.take("version").map(|field| version(reading, &field));
    let description = fields.text(reading, "description");
    let zone_name = fields.take("timezone").and_then(|field| zone(reading, &field, context));
    let declared = fields.take("calendars");
    let calendars = Calendars::read(reading, declared.as_ref(), zone_name.as_deref(), context);
    let calendar = fields.take("calendar");
    let calendar = calendar.and_then(|id| calendars::named(reading, &id, &calendars, context));
    let concurrency = fields.whole(reading, "concurrency", 1..=limits::CONCURRENCY);
    let timeout = fields.duration(reading, "timeout");
    let retention = fields.duration(reading, "retention");
    let (timezone, calendar_id) = (zone_name.clone(), calendar.clone());
    let input = fields.take("input").map(|field| input(reading, &field));
    let defaults = trigger::Defaults {
        timezone,
        calendar: calendar_id,
        calendars: &calendars,
        input: input.as_ref(),
        context,
    };
    let triggers = fields.take("triggers");
    let triggers = triggers.map(|field| trigger::read_all(reading, &field, &defaults));
    let topics = fields.take("topics").map(|field| topics::declared(reading, &field));
    let secrets = fields.take("secrets").map(|field| secrets(reading, &field));
    let mut names = phase::Names::default();
    let (producers, consumers) = (fields.take("producers"), fields.take("consumers"));
    let is_some = |field: &Field<'_>| !matches!(&field.node.kind, Kind::Map(all) if all.is_empty());
    let has_handlers = producers.iter().chain(&consumers).any(is_some);
    let producers =
        producers.map(|field| producer::read_all(reading, &field, &mut names, &defaults));
    let consumers = consumers.map(|field| consumer::read_all(reading, &field, &mut names));
    let steps = if has_handlers {
        fields.take("steps")
    } else {
        fields.require("steps", "steps: [ { id: first, type: noop } ]")
    };
    let known = steps.as_ref().map(|field| ids(field)).unwrap_or_default();
    // Handlers accept any payload, so the schema applies only to the steps.
    reading.templates.input.clone_from(&input);
    let steps = steps.map(|field| steps::read_all(reading, &field, &defaults)).unwrap_or_default();
    let at_once = fields.whole(reading, "max_concurrent_steps", 1..=limits::STEPS as u64);
    let deadline = fields.take("deadline");
    let deadline = deadline.map(|field| deadlines::read(reading, &field, &defaults));
    let on_failure = incident_actions::field(reading, &mut fields, "on_failure");
    let on_recovery = incident_actions::field(reading, &mut fields, "on_recovery");
    let outputs = fields.take("outputs").map(|field| outputs::read(reading, &field));
    order::all_known(reading, &known, &steps);
    // If the topics cannot be read, references to them are not reported as unknown.
    let topics = topics.unwrap_or(Some(Vec::new()));
    if let Some(topics) = &topics {
        topics::check(reading, topics);
    }
    fields.finish(reading);
    Some(Definition {
        name: name?,
        version: version.unwrap_or(Some(Version::default()))?,
        description,
        timezone: zone_name,
        calendar,
        input,
        concurrency: concurrency.map(|runs| runs as u32),
        timeout,
        retention,
        max_concurrent_steps: at_once.map(|steps| steps as u32),
        deadline: deadline.flatten(),
        on_failure,
        on_recovery,
        outputs: outputs.unwrap_or_default(),
        calendars: calendars.into_specs(),
        triggers: triggers.unwrap_or_default(),
        steps,
        topics: topics?,
        producers: producers.unwrap_or_default(),
        consumers: consumers.unwrap_or_default(),
        secrets: secrets.unwrap_or_default(),
        script: None,
        kept: Kept::default(),
    })
}

/// The ids of the steps, even of those with flaws.
fn ids<'n>(steps: &Field<'n>) -> HashSet<&'n str> {
    let Kind::List(items) = &steps.node.kind else { return HashSet::new() };
    let id = |item: &'n Node| match &item.entry("id")?.value.kind {
        Kind::Text(id) => Some(id.as_str()),
        _ => None,
    };
    items.iter().filter_map(id).collect()
}

/// The schema of the payload. A schema with mistakes accepts everything, so that only its own
/// mistakes are reported.
fn input(reading: &mut Reading<'_>, field: &Field<'_>) -> InputSchema {
    let written = json::payload(reading, field, limits::PAYLOAD_BYTES);
    let (schema, mistakes) = InputSchema::read(&written);
    if mistakes.is_empty() {
        return schema;
    }
    mistakes.into_iter().for_each(|mistake| reading.mistake(field, mistake));
    InputSchema::default()
}

/// The names of secrets that scripts may read.
fn secrets(reading: &mut Reading<'_>, field: &Field<'_>) -> Vec<String> {
    let mut secrets = Vec::new();
    for item in reading.list(field, limits::SECRETS).unwrap_or_default() {
        let Some(name) = names::identifier(reading, &item) else { continue };
        if secrets.contains(&name) {
            reading.refuse(&item, Flaw::new("repeated", format!("{name} is named twice")));
        } else {
            secrets.push(name);
        }
    }
    secrets
}

fn version(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<Version> {
    let written = match &field.node.kind {
        Kind::Text(text) | Kind::Number(text) => text.as_str(),
        _ => "",
    };
    let read = written.parse().ok();
    if read.is_none() {
        let flaw = Flaw::new("version", format!("{} is no version", field.node.describe()))
            .allow("a whole number without leading zeros, or \"X.Y\"");
        let digits = written.trim_start_matches('0');
        let close = digits.parse::<Version>().map(|version| version.to_string());
        reading.refuse(field, flaw.suggest(close.unwrap_or_else(|_| "1".to_owned())));
    }
    read
}

fn zone(reading: &mut Reading<'_>, field: &Field<'_>, context: &ReadContext<'_>) -> Option<String> {
    let name = reading.text_such_as(field, "a text such as Europe/Berlin")?;
    match context.zones.get(name) {
        Ok(_) => Some(name.to_owned()),
        Err(problem) => {
            reading.problem(field, problem);
            None
        }
    }
}
