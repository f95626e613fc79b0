//! Steps of type `notification`, and the channels that deadlines use too.

use calendar::Problem;

use super::action::{Channel, Notification};
use super::http;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::{Flaw, Kind, cut};

const ADDRESS: &str = "approver@example.com";
const REMEDY: &str = "{ email: approver@example.com }";

pub(crate) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<Notification> {
    let field = fields.require("to", "to: { email: approver@example.com }");
    let to = field.as_ref().map(|field| channels(reading, field, true)).unwrap_or_default();
    if let Some(field) = &field
        && matches!(&field.node.kind, Kind::List(list) if list.is_empty())
    {
        reading.refuse(field, Flaw::new("notify", "nobody is told").suggest(REMEDY));
    }
    let subject = fields.take("subject");
    let subject = subject.and_then(|field| reading.template(&field, Place::Performed));
    let message = fields.require("message", "message: The report is ready");
    let message = message.and_then(|field| reading.template(&field, Place::Performed));
    let data = fields.take("data");
    let data = data.map(|field| reading.filled_value(&field, Place::Performed));
    Some(Notification { to, subject, message: message?, data })
}

/// Reads the recipients: a list, or one.
pub(crate) fn channels(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    templates: bool,
) -> Vec<Channel> {
    let items = reading.one_or_many(field, limits::CHANNELS).unwrap_or_default();
    items.iter().filter_map(|item| channel(reading, item, templates)).collect()
}

fn channel(reading: &mut Reading<'_>, item: &Field<'_>, templates: bool) -> Option<Channel> {
    let mut fields = Fields::of(reading, item, REMEDY)?;
    let email = fields.take("email");
    let webhook = fields.take("webhook");
    let slack = fields.take("slack");
    let given = [&email, &webhook, &slack].into_iter().flatten().count();
    let known = match &item.node.kind {
        Kind::Map(entries) => given == entries.len(),
        _ => false,
    };
    fields.finish(reading);
    if given != 1 {
        if known {
            let flaw = Flaw::new("notify", "a channel has one way: email, webhook or slack");
            reading.refuse(item, flaw.suggest(REMEDY));
        }
        return None;
    }
    let email = email.and_then(|field| address(reading, &field, templates)).map(Channel::Email);
    let webhook = webhook.and_then(|field| url(reading, &field, templates));
    let slack = slack.and_then(|field| url(reading, &field, templates));
    email.or(webhook.map(Channel::Webhook)).or(slack.map(Channel::Slack))
}

fn is_template(field: &Field<'_>, templates: bool) -> bool {
    templates && matches!(&field.node.kind, Kind::Text(text) if text.contains("{{"))
}

fn url(reading: &mut Reading<'_>, field: &Field<'_>, templates: bool) -> Option<String> {
    if is_template(field, templates) {
        http::address_template(reading, field)
    } else {
        http::address(reading, field)
    }
}

fn address(reading: &mut Reading<'_>, field: &Field<'_>, templates: bool) -> Option<String> {
    if is_template(field, templates) {
        return reading.template(field, Place::Performed);
    }
    let text = reading.text_such_as(field, "a text such as approver@example.com")?;
    match check_address(text) {
        Ok(()) => Some(text.to_owned()),
        Err(problem) => {
            reading.problem(field, *problem);
            None
        }
    }
}

/// Checks that mail can be sent to this address.
pub(crate) fn check_address(text: &str) -> Result<(), Box<Problem>> {
    let plain = text.len() <= 254 && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    let parts = text.rsplit_once('@');
    if plain && parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()) {
        return Ok(());
    }
    let problem = Problem::whole("email", "", format!("{} is not an address", cut(text)));
    Err(Box::new(problem.suggest(ADDRESS)))
}
