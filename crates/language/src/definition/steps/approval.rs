//! Steps of type `human_approval`.

use super::action::HumanApproval;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;

pub(super) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<HumanApproval> {
    let title = fields.require("title", "title: Pay the invoice?");
    let title = title.and_then(|field| line(reading, &field));
    let description = fields.take("description");
    let description = description.and_then(|field| reading.template(&field, Place::Decided));
    let assignees = fields.take("assignees");
    let assignees = assignees.and_then(|field| reading.one_or_many(&field, limits::ASSIGNEES));
    let assignees: Vec<Option<String>> =
        assignees.unwrap_or_default().iter().map(|field| line(reading, field)).collect();
    let assignees = assignees.into_iter().collect::<Option<Vec<String>>>();
    Some(HumanApproval { title: title?, description, assignees: assignees? })
}

/// A line for people, which may contain templates.
fn line(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    reading.template(field, Place::Decided)?;
    reading.title(field)
}
