//! Triggers: what starts a workflow.

use calendar::{Mistake, Timing, TimingContext, TimingSpec, Zone};
use serde_json::{Map, Value};

use super::calendars::Calendars;
use super::fields::Fields;
use super::flaw::Flaw;
use super::json;
use super::model::{Trigger, TriggerKind, with_defaults};
use super::names::{self, Ids};
use super::path::join;
use super::reading::{Field, Reading};
use super::templates::Place;
use super::tree::cut;
use super::{ReadContext, limits, shape};
use crate::schedule::keys;

/// Types that can start a workflow.
pub(super) const TYPES: [&str; 3] = ["schedule", "webhook", "manual"];
/// Types that the product will have.
const LATER_TYPES: [&str; 1] = ["event"];

/// What triggers and steps take from their definition.
pub(super) struct Defaults<'a> {
    pub(super) timezone: Option<String>,
    pub(super) calendar: Option<String>,
    pub(super) calendars: &'a Calendars,
    pub(super) context: &'a ReadContext<'a>,
}

/// All triggers, in their order.
pub(super) fn read_all(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Vec<Trigger> {
    let items = reading.list(field, limits::TRIGGERS).unwrap_or_default();
    let mut ids = Ids::default();
    let mut triggers = Vec::new();
    for item in items {
        // With so many flaws the rest is not looked at: an unknown zone alone costs a search
        // through all names.
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
            let declaration = declaration(reading, fields);
            if let Err(mistakes) = check_rule(&declaration, defaults) {
                mistakes.into_iter().for_each(|mistake| reading.mistake(item, mistake));
            }
            TriggerKind::Schedule { declaration }
        }
        Some("webhook") => webhook(reading, fields),
        Some(_) => {
            fields.finish(reading, &["payload"]);
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
    fields.finish(reading, &[]);
    TriggerKind::Webhook { secret, payload, publish: None }
}

fn trigger_type<'n>(reading: &mut Reading<'_>, field: &Field<'n>) -> Option<&'n str> {
    let written = reading.text(field)?;
    if TYPES.contains(&written) {
        return Some(written);
    }
    let flaw = if LATER_TYPES.contains(&written) {
        Flaw::unavailable(format!("trigger type {written} is"))
    } else {
        Flaw::new("trigger-type", format!("unknown trigger type {}", cut(written)))
            .did_you_mean(written, TYPES)
    };
    reading.refuse(field, flaw.allow(TYPES.join(", ")));
    None
}

/// What is left of a schedule trigger's keys. Bare numbers of seconds become durations.
fn declaration(reading: &mut Reading<'_>, fields: Fields<'_>) -> Map<String, Value> {
    let path = fields.path().to_owned();
    let mut declaration = Map::new();
    for entry in fields.rest(reading) {
        let field = Field { path: join(&path, &entry.key), node: &entry.value };
        let value = match (entry.key.as_str(), json::value(reading, &field)) {
            ("interval" | "every" | "spread", Value::Number(seconds)) if seconds.is_u64() => {
                Value::from(format!("{seconds}s"))
            }
            (_, value) => value,
        };
        declaration.insert(entry.key.clone(), value);
    }
    declaration
}

/// The timing that a declaration makes, or everything that is wrong with the declaration.
pub(super) fn check_rule(
    declaration: &Map<String, Value>,
    defaults: &Defaults<'_>,
) -> Result<Timing, Vec<Mistake>> {
    let mut mistakes = keys::check(declaration);
    let mut rule = declaration.clone();
    rule.retain(|key, _| !keys::KEYS.contains(&key.as_str()));
    let others = keys::KEYS.iter().chain(&["id", "type", "enabled"]).copied();
    let others: Vec<&str> = others.collect();
    let before = mistakes.len();
    let own =
        with_defaults(rule, [("timezone", &defaults.timezone), ("calendar", &defaults.calendar)]);
    let known: Vec<&str> = keys::timing_keys().collect();
    let spec: TimingSpec = shape::read(&own, &known, &others, &mut mistakes);
    let misshapen = mistakes.len() > before;
    let zones = defaults.context.zones;
    let find = |id: &str| defaults.calendars.find(id, defaults.context);
    let context = TimingContext {
        zones,
        created: defaults.context.now,
        default_zone: Zone::utc(),
        find_calendar: &find,
    };
    let built = spec.build(&context).map_err(|found| {
        // A rule that could not be read is not told as missing as well.
        found.into_iter().filter(|mistake| !(misshapen && mistake.problem.code == "rule"))
    });
    match built {
        Ok(timing) if mistakes.is_empty() => return Ok(timing),
        Ok(_) => {}
        Err(found) => mistakes.extend(found.map(|mut mistake| {
            mistake.problem = defaults.calendars.improve(mistake.problem);
            of_the_trigger(mistake)
        })),
    }
    Err(mistakes)
}

/// "No rule is given" is told of the trigger as a whole: there is no field `rule`.
fn of_the_trigger(mut mistake: Mistake) -> Mistake {
    if mistake.path == "rule" {
        mistake.path.clear();
    }
    mistake
}

/// The key of a declaration that says when it is due.
pub(super) fn rule_key(declaration: &Map<String, Value>) -> Option<&'static str> {
    let options = ["from", "anchor", "dtstart", "exdate", "rdate", "dst"];
    keys::RULE_KEYS
        .into_iter()
        .filter(|key| !options.contains(key))
        .find(|key| declaration.contains_key(*key))
}
