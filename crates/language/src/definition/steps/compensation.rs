//! Compensations: the actions that undo a step.

use super::action::Action;
use crate::definition::model::Compensation;
use crate::definition::reading::{Field, Fields, Reading};

const REMEDY: &str = "{ type: http, method: DELETE, url: \"https://example.com/\" }";

pub(super) fn read(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<Compensation> {
    let mut fields = Fields::of(reading, field, REMEDY)?;
    let retry = fields.take("retry").map(|field| super::retry(reading, &field));
    let timeout = fields.duration(reading, "timeout");
    let action: Option<Action> = super::action_within(reading, fields, &super::PERFORMED, None);
    let (retry, timeout) = (retry.unwrap_or_default(), Some(timeout.unwrap_or(super::TIMEOUT)));
    Some(Compensation { action: action?, retry, timeout })
}
