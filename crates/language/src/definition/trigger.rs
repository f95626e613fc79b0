//! Triggers: what starts a workflow.

use calendar::{Mistake, Timing, TimingContext, TimingSpec};
use serde_json::{Map, Value};

use crate::definition::handlers::{Role, topics};
use crate::definition::model::{Trigger, TriggerKind, with_defaults};
use crate::definition::reading::{Field, Fields, Ids, Reading, json, names, shape};
use crate::definition::schema::{policy_keys, rule_keys, timing_keys};
use crate::definition::templates::Place;
use crate::definition::text::{Entry, Flaw, cut, join};
use crate::definition::time::Calendars;
use crate::definition::{ReadContext, limits};
use crate::input_schema::InputSchema;
use crate::policy::retry::RetrySpec;
use crate::schedule::{self, keys};

/// The types of triggers.
pub(super) const TYPES: [&str; 4] = ["schedule", "webhook", "event", "manual"];
/// Keys of a schedule trigger that its schedule does not have.
const OWN_KEYS: [&str; 3] = ["id", "type", "enabled"];

/// The values that triggers and steps take from their definition.
pub(super) struct Defaults<'a> {
    pub(super) timezone: Option<String>,
    pub(super) calendar: Option<String>,
    pub(super) calendars: &'a Calendars,
    /// The schema of a run's payload.
    pub(super) input: Option<&'a InputSchema>,
    pub(super) context: &'a ReadContext<'a>,
}

/// Reads all triggers, in order.
pub(super) fn read_all(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Vec<Trigger> {
    let items = reading.list(field, limits::TRIGGERS).unwrap_or_default();
    let mut ids = Ids::default();
    let mut triggers = Vec::new();
    for item in items {
        // With so many flaws the rest is not checked: for an unknown zone alone, all zone names are
        // searched.
        if reading.is_full() {
            break;
        }
        triggers.extend(read(reading, &item, &mut ids, defaults));
    }
    triggers
}

fn read(
    reading: &mut Reading<'_>,
    item: &Field<'_>,
    ids: &mut Ids,
    defaults: &Defaults<'_>,
) -> Option<Trigger> {
    let mut fields = Fields::of(reading, item, "{ id: daily, type: schedule, cron: daily }")?;
    let id = ids.take(reading, &mut fields, "id: morning");
    let written = fields.require("type", "type: schedule");
    let written = written.and_then(|field| trigger_type(reading, &field));
    let enabled = fields.take("enabled").map(|field| reading.boolean(&field));
    let description = fields.text(reading, "description");
    let kind = match written {
        Some("schedule") => {
            let path = fields.path().to_owned();
            let entries = fields.rest(reading);
            let declaration = declaration(reading, &path, entries);
            if let Err(mistakes) = check_rule(&declaration, defaults, &OWN_KEYS) {
                mistakes.into_iter().for_each(|mistake| reading.mistake(item, mistake));
            }
            if let Some(expected) = defaults.input {
                let payload = declaration.get("payload").unwrap_or(&Value::Null);
                let unfit = expected.check(payload).into_iter();
                unfit.for_each(|mistake| reading.mistake(item, mistake));
            }
            TriggerKind::Schedule { declaration }
        }
        Some("webhook") => webhook(reading, fields),
        Some("event") => event(reading, fields)?,
        Some(_) => {
            fields.finish(reading);
            TriggerKind::Manual
        }
        None => {
            fields.rest(reading);
            return None;
        }
    };
    Some(Trigger { id: id?, kind, enabled: enabled.unwrap_or(Some(true))?, description })
}

fn webhook(reading: &mut Reading<'_>, mut fields: Fields<'_>) -> TriggerKind {
    let secret = fields.take("secret").and_then(|field| names::identifier(reading, &field));
    let payload = fields.take("payload");
    let payload = payload.map(|field| reading.filled_value(&field, Place::Called));
    let publish = fields.take("publish");
    let publish = publish.and_then(|field| topics::named(reading, &field, Role::Publishes));
    fields.finish(reading);
    TriggerKind::Webhook { secret, payload, publish }
}

fn event(reading: &mut Reading<'_>, mut fields: Fields<'_>) -> Option<TriggerKind> {
    let topic = fields.require("topic", "topic: orders.new");
    let topic = topic.and_then(|field| topics::named(reading, &field, Role::Subscribes));
    let condition = fields.take("condition");
    let condition = condition.and_then(|field| reading.condition_at(&field, Place::Published));
    let payload = fields.take("payload");
    let payload = payload.map(|field| reading.filled_value(&field, Place::Published));
    fields.finish(reading);
    Some(TriggerKind::Event { topic: topic?, condition, payload })
}

fn trigger_type<'n>(reading: &mut Reading<'_>, field: &Field<'n>) -> Option<&'n str> {
    let written = reading.text(field)?;
    if TYPES.contains(&written) {
        return Some(written);
    }
    let flaw = Flaw::new("trigger-type", format!("unknown trigger type {}", cut(written)))
        .did_you_mean(written, TYPES);
    reading.refuse(field, flaw.allow(TYPES.join(", ")));
    None
}

/// The keys of a schedule, as written. Bare numbers of seconds become durations.
pub(super) fn declaration<'n>(
    reading: &mut Reading<'_>,
    path: &str,
    entries: impl IntoIterator<Item = &'n Entry>,
) -> Map<String, Value> {
    let mut declaration = Map::new();
    for entry in entries {
        let field = Field { path: join(path, &entry.key), node: &entry.value };
        let mut value = json::value(reading, &field);
        match (entry.key.as_str(), &mut value) {
            ("interval" | "every" | "spread" | "retention", value) => seconds(value),
            ("retry", Value::Object(retry)) => {
                let delays = ["delay", "max_delay"].into_iter();
                for key in delays {
                    retry.get_mut(key).into_iter().for_each(seconds);
                }
            }
            _ => {}
        }
        declaration.insert(entry.key.clone(), value);
    }
    declaration
}

/// Turns `300` into `300s`.
fn seconds(value: &mut Value) {
    if let Value::Number(number) = value
        && number.is_u64()
    {
        *value = Value::from(format!("{number}s"));
    }
}

/// The timing of a declaration, or all its mistakes. `around` lists keys that may stand beside it.
pub(super) fn check_rule(
    declaration: &Map<String, Value>,
    defaults: &Defaults<'_>,
    around: &[&'static str],
) -> Result<Timing, Vec<Mistake>> {
    let mut mistakes = keys::check(declaration);
    let mut rule = declaration.clone();
    rule.retain(|key, _| !policy_keys().any(|known| known == key));
    let others: Vec<&str> = policy_keys().chain(around.iter().copied()).collect();
    let before = mistakes.len();
    let own =
        with_defaults(rule, [("timezone", &defaults.timezone), ("calendar", &defaults.calendar)]);
    let known: Vec<&str> = timing_keys().collect();
    let spec: TimingSpec = shape::read(&own, &known, &others, &mut mistakes);
    let misshapen = mistakes.len() > before;
    let zones = defaults.context.zones;
    let find = |id: &str| defaults.calendars.find(id, defaults.context);
    let context = TimingContext {
        zones,
        created: defaults.context.now,
        default_zone: None,
        find_calendar: &find,
    };
    let built = spec.build(&context).map_err(|found| {
        // A rule that could not be read is not also reported as missing.
        found.into_iter().filter(|mistake| !(misshapen && mistake.problem.code == "rule"))
    });
    match built {
        Ok(timing) if mistakes.is_empty() => {
            mistakes.extend(too_short_delay(declaration, &timing));
            if mistakes.is_empty() {
                return Ok(timing);
            }
        }
        Ok(_) => {}
        Err(found) => mistakes.extend(found.map(|mut mistake| {
            mistake.problem = defaults.calendars.improve(mistake.problem);
            of_the_trigger(mistake)
        })),
    }
    Err(mistakes)
}

/// The longest delay between retries must not be shorter than the first, which may be the interval.
fn too_short_delay(declaration: &Map<String, Value>, timing: &Timing) -> Vec<Mistake> {
    let Some(retry) = declaration.get("retry") else { return Vec::new() };
    let built = serde_json::from_value::<RetrySpec>(retry.clone())
        .map(|retry| retry.build(schedule::interval(timing)));
    match built {
        Ok(Err(mistakes)) => mistakes.into_iter().map(|mistake| mistake.under("retry")).collect(),
        // The shape was checked before.
        Ok(Ok(_)) | Err(_) => Vec::new(),
    }
}

/// Reports "no rule is given" for the trigger as a whole, since there is no field `rule`.
fn of_the_trigger(mut mistake: Mistake) -> Mistake {
    if mistake.path == "rule" {
        mistake.path.clear();
    }
    mistake
}

/// The key of a declaration that contains its rule.
pub(super) fn rule_key(declaration: &Map<String, Value>) -> Option<&'static str> {
    let options = ["from", "anchor", "dtstart", "exdate", "rdate", "result", "dst"];
    rule_keys().filter(|key| !options.contains(key)).find(|key| declaration.contains_key(*key))
}
