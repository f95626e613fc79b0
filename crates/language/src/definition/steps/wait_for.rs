//! Steps of type `wait_for`.

use super::action::WaitFor;
use crate::definition::handlers::{Role, topics};
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::Flaw;
use crate::definition::time::{TimeSpan, read_time_span};
use crate::definition::trigger::Defaults;
use crate::expression::{self, Root};

pub(super) fn read(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    defaults: &Defaults<'_>,
) -> Option<WaitFor> {
    let topic = fields.require("topic", "topic: orders.paid");
    let topic = topic.and_then(|field| topics::named(reading, &field, Role::Subscribes));
    let condition = fields.take("condition").and_then(|field| condition(reading, &field));
    let within = within(reading, fields, defaults);
    Some(WaitFor { topic: topic?, condition, within })
}

/// Reads the condition on the event. A condition that does not mention `event` is refused, since it
/// was meant for something else.
fn condition(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let text = reading.condition_at(field, Place::Awaited)?;
    let found = expression::check_condition(&text).ok()?;
    if found.roots.iter().any(|(root, _)| *root == Root::Event) {
        return Some(text);
    }
    let message =
        "the condition of a wait_for says which event it waits for, and this one names none";
    let remedy = "event.payload.id == input.id, or a gateway before it to decide whether it waits";
    reading.report(&field.path, field.node.span, Flaw::new("condition", message).suggest(remedy));
    None
}

/// Reads `within`, or `timeout`, which means the same here.
fn within(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    defaults: &Defaults<'_>,
) -> Option<TimeSpan> {
    let field = match (fields.take("within"), fields.take("timeout")) {
        (Some(_), Some(second)) => {
            let flaw = Flaw::new("wait_for", "within and timeout are the same thing here");
            reading.refuse(&second, flaw.suggest("leave one out"));
            return None;
        }
        (first, second) => first.or(second)?,
    };
    read_time_span(reading, &field, defaults.calendar.is_some())
}
