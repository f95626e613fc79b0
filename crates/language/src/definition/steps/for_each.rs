//! Steps of type `for_each`.

use super::action::ForEach;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::{Flaw, Kind};
use crate::definition::trigger::Defaults;

pub(super) fn read(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    defaults: &Defaults<'_>,
) -> Option<ForEach> {
    let items = fields.require("items", "items: \"{{ input.rows }}\"");
    let (items, item) = match items.map(|field| (list(reading, &field), field)) {
        Some((Some(items), field)) => match reading.templates.schemas_of_items(&items) {
            Ok(item) => (Some(items), item),
            Err(message) => {
                let flaw = Flaw::new("items", message);
                reading.report(&field.path, field.node.mark(), flaw);
                (None, Vec::new())
            }
        },
        _ => (None, Vec::new()),
    };
    let max_parallel = fields.whole(reading, "max_parallel", 1..=limits::CONCURRENCY);
    let inner = fields.require("step", "step: { type: http, url: \"https://example.com/\" }");
    let outside = reading.templates.item.replace(item);
    let action = inner.and_then(|field| {
        let fields = Fields::of(reading, &field, "{ type: http, url: \"https://example.com/\" }")?;
        super::action_within(reading, fields, &super::EACH, Some(defaults))
    });
    reading.templates.item = outside;
    Some(ForEach {
        items: items?,
        action: Box::new(action?),
        max_parallel: max_parallel.map(|most| most as u32),
    })
}

fn list(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<serde_json::Value> {
    let good = match &field.node.kind {
        Kind::List(items) => items.len() <= limits::ITEMS,
        // Any text around the template would turn the list into a text.
        Kind::Text(text) => text.trim().starts_with("{{") && text.trim().ends_with("}}"),
        _ => false,
    };
    if good {
        return Some(reading.filled_value(field, Place::Decided));
    }
    let flaw = Flaw::new("items", "expected a list, or a template that gives one")
        .allow(format!("at most {} items", limits::ITEMS))
        .suggest("items: \"{{ input.rows }}\"");
    reading.report(&field.path, field.node.mark(), flaw);
    // Marks the template as read, so that it is not reported again.
    reading.filled_value(field, Place::Decided);
    None
}
