//! The workflow that tells people of deadlines: one like any other, so that what it does is tried again, kept and
//! explained like everything else.

use serde_json::{Value, json};

use crate::definition::{Action, Channel, Definition, Notification, OnError, Step, StepRetry};

/// Its name.
pub const NAME: &str = "punctual-notice";
/// As it would be written.
pub const SOURCE: &str = r#"name: punctual-notice
description: Tells somebody of a deadline.
steps:
  - id: webhook
    type: notification
    condition: input.payload.channel == 'webhook'
    to: [{ webhook: "{{ input.payload.to }}" }]
    subject: "{{ input.payload.subject }}"
    message: "{{ input.payload.message }}"
    timeout: 1m
  - id: email
    type: notification
    condition: input.payload.channel == 'email'
    to: [{ email: "{{ input.payload.to }}" }]
    subject: "{{ input.payload.subject }}"
    message: "{{ input.payload.message }}"
    timeout: 1m
  - id: slack
    type: notification
    condition: input.payload.channel == 'slack'
    to: [{ slack: "{{ input.payload.to }}" }]
    subject: "{{ input.payload.subject }}"
    message: "{{ input.payload.message }}"
    timeout: 1m
"#;

/// What it does. The kind of channel is in the payload, so the step has one of each, and skips the others.
pub fn definition() -> Definition {
    let step = |id: &str, kind: &str, channel: fn(String) -> Channel| Step {
        id: id.to_owned(),
        name: None,
        depends_on: Vec::new(),
        condition: Some(format!("input.payload.channel == '{kind}'")),
        action: Action::Notification(Notification {
            to: vec![channel("{{ input.payload.to }}".to_owned())],
            subject: Some("{{ input.payload.subject }}".to_owned()),
            message: "{{ input.payload.message }}".to_owned(),
        }),
        retry: StepRetry::default(),
        timeout: Some(jiff::SignedDuration::from_mins(1)),
        on_error: OnError::FailProcess,
        idempotent: true,
        compensation: None,
        reconcile: None,
        deadline: None,
    };
    let steps = vec![
        step("webhook", "webhook", Channel::Webhook),
        step("email", "email", Channel::Email),
        step("slack", "slack", Channel::Slack),
    ];
    Definition {
        description: Some("Tells somebody of a deadline.".to_owned()),
        ..Definition::of_steps(NAME, steps)
    }
}

/// What it works on.
pub fn payload(channel: &Channel, about: &Value) -> Value {
    let (kind, to) = match channel {
        Channel::Webhook(url) => ("webhook", url),
        Channel::Email(address) => ("email", address),
        Channel::Slack(url) => ("slack", url),
    };
    let what = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default();
    let of = match about.get("step").and_then(Value::as_str) {
        Some(step) => format!("step {step} of {}", what("workflow")),
        None => what("workflow").to_owned(),
    };
    let is_late = about.get("overdue").and_then(Value::as_bool).unwrap_or(false);
    let says = if is_late { "is late" } else { "is due soon" };
    json!({
        "channel": kind,
        "to": to,
        "subject": format!("{of} {says}"),
        "message": format!("{of} {says}: run {}, to be done by {}.", what("run"), what("deadline")),
        "about": about,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{ReadContext, read};

    #[test]
    fn its_text_says_what_it_does() {
        let zones = calendar::Zones::bundled();
        let now = "2026-03-01T00:00:00Z".parse().unwrap();
        let context = ReadContext { zones: &zones, now, known_calendar: &|_| None };
        assert_eq!(read(SOURCE, &context).unwrap(), definition());
    }
}
