//! Steps of type `publish`.

use super::action::Publish;
use crate::definition::handlers::{Role, topics};
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::Flaw;

pub(super) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<Publish> {
    let topic = fields.require("topic", "topic: orders.new");
    let topic = topic.and_then(|field| topics::named(reading, &field, Role::Publishes));
    let message_id = fields.take("message_id");
    let message_id = message_id.and_then(|field| text(reading, &field, |id| (id, None)));
    let title = fields.take("title");
    let title = title.and_then(|field| text(reading, &field, |title| ("id", Some(title))));
    let payload = fields.take("payload");
    let payload = payload.map(|field| reading.filled_value(&field, Place::Decided));
    Some(Publish { topic: topic?, message_id, title, payload })
}

/// A text that may contain templates. Without one, it is checked as it stands.
fn text(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    of_message: impl FnOnce(&str) -> (&str, Option<&str>),
) -> Option<String> {
    let text = reading.template(field, Place::Decided)?;
    let (id, title) = of_message(&text);
    if !text.contains("{{")
        && let Err(why) = limits::check_message(id, title, "null")
    {
        reading.refuse(field, Flaw::new("event", why));
        return None;
    }
    Some(text)
}
