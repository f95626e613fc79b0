//! Reads the deadlines of workflows and steps.

use super::deadline::{Deadline, DeadlineAction, DeadlineEnd, From, Limit, When};
use super::until::clock;
use super::{calendars, time_span};
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading, names};
use crate::definition::steps::notification;
use crate::definition::text::{Flaw, Kind, cut};
use crate::definition::trigger::Defaults;

/// The keys with which an action ends late work.
const ENDS: [(&str, DeadlineEnd); 4] = [
    ("fail", DeadlineEnd::Fail),
    ("cancel", DeadlineEnd::Cancel),
    ("complete", DeadlineEnd::Complete),
    ("skip", DeadlineEnd::Skip),
];

pub(crate) fn read(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    defaults: &Defaults<'_>,
) -> Option<Deadline> {
    let mut fields = Fields::of(reading, field, "deadline: { within: 2h }")?;
    let named = fields.take("calendar");
    let has_calendar = named.is_some() || defaults.calendar.is_some();
    let calendar = named
        .and_then(|field| calendars::named(reading, &field, defaults.calendars, defaults.context));
    let limit = limit(reading, &mut fields, has_calendar);
    let from = match fields.take("from") {
        Some(field) => from(reading, &field),
        None => Some(From::default()),
    };
    let pausable = fields.boolean(reading, "pausable").unwrap_or(false);
    let actions = match fields.take("actions") {
        Some(field) => actions(reading, &field, has_calendar),
        None => Some(Vec::new()),
    };
    fields.finish(reading);
    let actions = actions?;
    let actions = if actions.is_empty() { unsaid() } else { actions };
    Some(Deadline { limit: limit?, calendar, from: from?, pausable, actions })
}

/// The default actions. At 80 % and at the deadline the event is recorded and shown, and nobody in
/// particular is notified.
fn unsaid() -> Vec<DeadlineAction> {
    let action = |when| DeadlineAction { when, notify: Vec::new(), start: None, end: None };
    vec![action(When::Share(80.0)), action(When::Deadline)]
}

fn limit(reading: &mut Reading<'_>, fields: &mut Fields<'_>, has_calendar: bool) -> Option<Limit> {
    match (fields.take("within"), fields.take("at")) {
        (Some(field), None) => time_span::read(reading, &field, has_calendar).map(Limit::Within),
        (None, Some(field)) => {
            let text = reading.text_such_as(&field, "a text such as \"17:00\"")?;
            let Some(time) = clock(text) else {
                let flaw = Flaw::new("time", format!("{} is not a time of day", cut(text)));
                reading.refuse(&field, flaw.allow("00:00 to 23:59").suggest("\"17:00\""));
                return None;
            };
            Some(Limit::At(time.hour() as u8, time.minute() as u8))
        }
        (Some(_), Some(field)) => {
            let flaw = Flaw::new("deadline", "a deadline has within or at, not both");
            reading.refuse(&field, flaw.suggest("leave one out"));
            None
        }
        (None, None) => {
            let flaw = Flaw::new("missing", "it is not said when the deadline is")
                .suggest("within: 2h, or at: \"17:00\"");
            reading.refuse(&fields.place(), flaw);
            None
        }
    }
}

fn from(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<From> {
    let written = reading.text(field)?;
    match written.to_ascii_lowercase().as_str() {
        "enabled" => Some(From::Enabled),
        "started" => Some(From::Started),
        _ => {
            let flaw = Flaw::new("choice", format!("{} is not known here", cut(written)))
                .allow("enabled, started")
                .did_you_mean(written, ["enabled", "started"]);
            reading.refuse(field, flaw);
            None
        }
    }
}

fn actions(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    has_calendar: bool,
) -> Option<Vec<DeadlineAction>> {
    let items = reading.list(field, limits::DEADLINE_ACTIONS)?;
    let actions: Vec<Option<DeadlineAction>> =
        items.iter().map(|item| action(reading, item, has_calendar)).collect();
    actions.into_iter().collect()
}

fn action(
    reading: &mut Reading<'_>,
    item: &Field<'_>,
    has_calendar: bool,
) -> Option<DeadlineAction> {
    let remedy = "{ at: 80%, notify: { email: approver@example.com } }";
    let mut fields = Fields::of(reading, item, remedy)?;
    let when = when(reading, &mut fields, has_calendar);
    let notify = fields.take("notify");
    let notify = notify.map(|field| notification::channels(reading, &field, false));
    let start = fields.take("start");
    let start = start.and_then(|field| names::workflow(reading, &field));
    let mut end = None;
    let mut ends = 0;
    for (key, meant) in ENDS {
        let Some(field) = fields.take(key) else { continue };
        if reading.boolean(&field) == Some(true) {
            end = Some(meant);
            ends += 1;
        }
    }
    if ends > 1 {
        let flaw = Flaw::new("deadline", "an action ends the work in one way");
        reading.refuse(item, flaw.allow("one of fail, cancel, complete, skip"));
    }
    let given = ["notify", "start", "fail", "cancel", "complete", "skip"];
    if !given.iter().any(|key| item.node.entry(key).is_some()) {
        let flaw = Flaw::new("deadline", "this action does nothing")
            .suggest("notify, start, fail, cancel, complete or skip");
        reading.refuse(item, flaw);
    }
    fields.finish(reading);
    Some(DeadlineAction { when: when?, notify: notify.unwrap_or_default(), start, end })
}

fn when(reading: &mut Reading<'_>, fields: &mut Fields<'_>, has_calendar: bool) -> Option<When> {
    let at = fields.take("at");
    let before = fields.take("before");
    let after = fields.take("after");
    if [&at, &before, &after].into_iter().flatten().count() != 1 {
        let flaw = Flaw::new("deadline", "an action has one time: at, before or after")
            .suggest("at: 80%, at: deadline, before: 1h or after: 2h");
        reading.refuse(&fields.place(), flaw);
        return None;
    }
    let before = before.and_then(|field| time_span::read(reading, &field, has_calendar));
    let after = after.and_then(|field| time_span::read(reading, &field, has_calendar));
    let at = at.and_then(|field| share(reading, &field));
    at.or(before.map(When::Before)).or(after.map(When::After))
}

fn share(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<When> {
    let written = match &field.node.kind {
        Kind::Text(text) | Kind::Number(text) => text.trim(),
        _ => "",
    };
    if written == "deadline" {
        return Some(When::Deadline);
    }
    let number = written.strip_suffix('%').map(str::trim).unwrap_or_default();
    let plain = number.len() <= 8 && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let share = number.parse::<f64>().ok().filter(|share| plain && *share > 0.0);
    match share.filter(|share| *share <= 100.0) {
        Some(share) => Some(When::Share(share)),
        None => {
            let message = format!("{} is neither a share nor the deadline", field.node.describe());
            let flaw = Flaw::new("deadline", message).allow("more than 0% to 100%, or deadline");
            reading.refuse(field, flaw.suggest("80%"));
            None
        }
    }
}
