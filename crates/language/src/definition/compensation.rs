//! Compensations: the actions that undo a step.

use super::action::Action;
use super::fields::Fields;
use super::model::Compensation;
use super::reading::{Field, Reading};
use super::step;

const REMEDY: &str = "{ type: http, method: DELETE, url: \"https://example.com/\" }";

pub(super) fn read(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<Compensation> {
    let mut fields = Fields::of(reading, field, REMEDY)?;
    let retry = fields.take("retry").map(|field| step::retry(reading, &field));
    let timeout = fields.duration(reading, "timeout");
    let action: Option<Action> = step::action_within(reading, fields, &step::PERFORMED, None);
    let (retry, timeout) = (retry.unwrap_or_default(), Some(timeout.unwrap_or(step::TIMEOUT)));
    Some(Compensation { action: action?, retry, timeout })
}
