//! Producers: handlers that query the outside world on a schedule.

use serde_json::{Map, Value};

use super::Producer;
use super::phase::{self, Names};
use super::topics::{self, Role};
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::text::{Flaw, Kind};
use crate::definition::trigger::{self, Defaults};

const REMEDY: &str =
    "{ schedule: { interval: 5m }, publishes: [orders.new], handler: { script: … } }";

/// Reads all producers, in order.
pub(crate) fn read_all<'n>(
    reading: &mut Reading<'_>,
    field: &Field<'n>,
    names: &mut Names<'n>,
    defaults: &Defaults<'_>,
) -> Vec<Producer> {
    let producers = names.read(reading, field).into_iter();
    producers.filter_map(|(name, field)| read(reading, name, &field, defaults)).collect()
}

fn read(
    reading: &mut Reading<'_>,
    name: &str,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Option<Producer> {
    let mut fields = Fields::of(reading, field, REMEDY)?;
    let schedule = fields.require("schedule", "schedule: { interval: 5m }");
    let schedule = schedule.and_then(|field| schedule_of(reading, &field, defaults));
    let remedy = "publishes: [orders.new], or leave it out";
    let publishes = fields.take("publishes");
    let publishes = publishes.map(|field| topics::list(reading, &field, Role::Publishes, remedy));
    let function = "handler: async (ctx, state) => { … }";
    let remedy = phase::remedy(reading, function, "handler: { script: return state }");
    let handler = fields.require("handler", remedy);
    let handler = handler.and_then(|field| phase::read(reading, &field, &[]));
    let timeout = fields.duration(reading, "timeout");
    fields.finish(reading);
    let (name, publishes) = (name.to_owned(), publishes.unwrap_or(Some(Vec::new()))?);
    Some(Producer { name, schedule: schedule?, publishes, handler: handler?, timeout })
}

/// Reads a rule and its options, as in a trigger.
fn schedule_of(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Option<Map<String, Value>> {
    let Kind::Map(entries) = &field.node.kind else {
        let message = format!("expected a mapping, found {}", field.node.describe());
        let remedy = "{ interval: 5m }, or { cron: \"*/5 * * * *\" }";
        reading.refuse(field, Flaw::new("type", message).suggest(remedy));
        return None;
    };
    let declaration = trigger::declaration(reading, &field.path, entries);
    if let Err(mistakes) = trigger::check_rule(&declaration, defaults, &[]) {
        mistakes.into_iter().for_each(|mistake| reading.mistake(field, mistake));
    }
    Some(declaration)
}
