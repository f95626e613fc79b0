//! Steps of type `timer`.

use jiff::SignedDuration;

use super::action::Timer;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::{Flaw, Kind};
use crate::definition::time::{TimeSpan, Until, read_time_span};
use crate::definition::trigger::Defaults;

/// How long a timer waits by default.
const DEFAULT_DELAY: SignedDuration = SignedDuration::from_mins(1);

pub(crate) fn read(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    defaults: &Defaults<'_>,
) -> Option<Timer> {
    match (fields.take("delay"), fields.take("until")) {
        (Some(field), None) => delay(reading, &field, defaults),
        (None, Some(field)) => until(reading, &field, defaults),
        (Some(first), Some(field)) => {
            // Both templates are allowed here; only one of the two keys is.
            for field in [&first, &field].into_iter().filter(|field| is_template(field)) {
                reading.template(field, Place::Decided);
            }
            let flaw = Flaw::new("timer", "a timer has a delay or an end, not both");
            reading.refuse(&field, flaw.suggest("leave one out"));
            None
        }
        (None, None) => Some(Timer::Delay(TimeSpan::Elapsed(DEFAULT_DELAY))),
    }
}

fn delay(reading: &mut Reading<'_>, field: &Field<'_>, defaults: &Defaults<'_>) -> Option<Timer> {
    if is_template(field) {
        return reading.template(field, Place::Decided).map(Timer::DelayBy);
    }
    read_time_span(reading, field, defaults.calendar.is_some()).map(Timer::Delay)
}

fn until(reading: &mut Reading<'_>, field: &Field<'_>, defaults: &Defaults<'_>) -> Option<Timer> {
    if is_template(field) {
        return reading.template(field, Place::Decided).map(Timer::Until);
    }
    let text = reading.text_such_as(field, "a text such as 2026-03-01T09:00 or \"17:00\"")?;
    let zones = defaults.context.zones;
    let checked = Until::parse(text).and_then(|until| match &until {
        Until::Wall(_, Some(zone)) => zones.get(zone).map(drop),
        _ => Ok(()),
    });
    match checked {
        Ok(()) => Some(Timer::Until(text.trim().to_owned())),
        Err(problem) => {
            reading.problem(field, problem);
            None
        }
    }
}

fn is_template(field: &Field<'_>) -> bool {
    matches!(&field.node.kind, Kind::Text(text) if text.contains("{{"))
}
