//! The workflow that notifies people of deadlines and incidents. It is an ordinary workflow, so
//! that its runs are retried, stored and explained like all others.

use language::definition::{Action, Channel, Definition, Notification, OnError, Step, StepRetry};
use serde_json::{Value, json};

/// The name of the workflow.
pub const NAME: &str = "punctual-notice";
/// The definition as text.
pub const SOURCE: &str = r#"name: punctual-notice
description: Tells people of deadlines, failures and recoveries.
steps:
  - id: webhook
    type: notification
    condition: input.channel == 'webhook'
    to: [{ webhook: "{{ input.to }}" }]
    subject: "{{ input.subject }}"
    message: "{{ input.message }}"
    data: "{{ input.about }}"
    timeout: 1m
  - id: email
    type: notification
    condition: input.channel == 'email'
    to: [{ email: "{{ input.to }}" }]
    subject: "{{ input.subject }}"
    message: "{{ input.message }}"
    timeout: 1m
  - id: slack
    type: notification
    condition: input.channel == 'slack'
    to: [{ slack: "{{ input.to }}" }]
    subject: "{{ input.subject }}"
    message: "{{ input.message }}"
    timeout: 1m
"#;

/// The definition. The payload names the kind of channel, so there is one step for each kind, and
/// the others are skipped.
pub fn definition() -> Definition {
    let step = |id: &str, kind: &str, channel: fn(String) -> Channel| Step {
        id: id.to_owned(),
        name: None,
        depends_on: Vec::new(),
        condition: Some(format!("input.channel == '{kind}'")),
        action: Action::Notification(Notification {
            data: (id == "webhook").then(|| "{{ input.about }}".into()),
            to: vec![channel("{{ input.to }}".to_owned())],
            subject: Some("{{ input.subject }}".to_owned()),
            message: "{{ input.message }}".to_owned(),
        }),
        retry: StepRetry { by_default: true, ..StepRetry::default() },
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
        description: Some("Tells people of deadlines, failures and recoveries.".to_owned()),
        ..Definition::of_steps(NAME, steps)
    }
}

/// The subject of a message, from the input of its run.
pub fn subject(input: &str) -> String {
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let payload = input.get("payload").unwrap_or(&input);
    payload.get("subject").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The payload of a run that notifies people of a deadline.
pub fn payload(channel: &Channel, about: &Value) -> Value {
    let what = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default();
    let of = match about.get("step").and_then(Value::as_str) {
        Some(step) => format!("step {step} of {}", what("workflow")),
        None => what("workflow").to_owned(),
    };
    let is_late = about.get("overdue").and_then(Value::as_bool).unwrap_or(false);
    let says = if is_late { "is late" } else { "is due soon" };
    let mut message =
        format!("{of} {says}: run {}, to be done by {}.", what("run"), what("deadline"));
    if let Some(link) = about.get("link").and_then(Value::as_str) {
        message.push_str(&format!("\n\n{link}\n"));
    }
    message_to(channel, &format!("{of} {says}"), &message, about)
}

/// The payload of a run that notifies people of an incident: that it began, or that it is over.
pub fn incident_payload(channel: &Channel, is_over: bool, about: &Value) -> Value {
    let text = |path: &str| about.pointer(path).and_then(Value::as_str);
    let workflow = text("/workflow").unwrap_or_default();
    let what = text("/schedule/name").unwrap_or(workflow);
    let is_dead = about.pointer("/schedule/is_dead").and_then(Value::as_bool).unwrap_or(false);
    let subject = if is_over {
        format!("{what} works again")
    } else if is_dead {
        format!("{what} failed and is dead")
    } else {
        format!("{what} failed")
    };
    let lines = [
        ("Workflow", text("/workflow")),
        ("Schedule", text("/schedule/name")),
        ("Due", text("/due")),
        ("Failed since", text("/failed_since")),
        ("Run", text("/run")),
        ("Ended", text("/ended_at")),
        (if is_over { "Error before" } else { "Error" }, text("/error")),
    ];
    let mut message = format!("{subject}.\n\n");
    for (label, value) in lines {
        if let Some(value) = value {
            message.push_str(&format!("{label}: {value}\n"));
        }
    }
    if is_dead {
        message
            .push_str("\nThe schedule is dead: it does not run again until somebody revives it.\n");
    }
    if let Some(output) = text("/output_end") {
        message.push_str(&format!("\nThe end of the output:\n{output}\n"));
    }
    if let Some(link) = text("/link") {
        message.push_str(&format!("\n{link}\n"));
    }
    message_to(channel, &subject, &message, about)
}

/// The input of a notification run as people may see it. Anyone who knows a channel's URL may write
/// to it, so only the origin of the URL is shown.
pub fn shown_input(mut input: Value) -> Value {
    for given in ["/payload/to", "/to"] {
        let to = input.pointer_mut(given);
        let url = to.as_ref().and_then(|to| to.as_str()).filter(|to| to.contains("://"));
        let shown = url.map(|url| match url::Url::parse(url) {
            Ok(url) => format!("{}/…", url.origin().ascii_serialization()),
            Err(_) => "…".to_owned(),
        });
        if let (Some(to), Some(shown)) = (to, shown) {
            *to = shown.into();
        }
    }
    input
}

fn message_to(channel: &Channel, subject: &str, message: &str, about: &Value) -> Value {
    let (Channel::Webhook(to) | Channel::Email(to) | Channel::Slack(to)) = channel;
    json!({
        "channel": channel.kind(),
        "to": to,
        "subject": subject,
        "message": message,
        "about": about,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use language::definition::{ReadContext, read};

    #[test]
    fn its_text_says_what_it_does() {
        let zones = calendar::Zones::bundled();
        let now = "2026-03-01T00:00:00Z".parse().unwrap();
        let context = ReadContext { zones: &zones, now, known_calendar: &|_| None };
        assert_eq!(read(SOURCE, &context).unwrap(), definition());
    }

    #[test]
    fn where_it_goes_is_shown_without_what_lets_one_write_there() {
        for (to, shown) in [
            ("https://hooks.test/services/T0/TOKEN", "https://hooks.test/…"),
            ("http://u:TOKEN@127.0.0.1:17890/?k=TOKEN", "http://127.0.0.1:17890/…"),
            ("http://[TOKEN", "…"),
            ("ops@example.com", "ops@example.com"),
        ] {
            let input = json!({ "payload": { "to": to, "subject": "s" } });
            let expected = json!({ "payload": { "to": shown, "subject": "s" } });
            assert_eq!(shown_input(input), expected, "{to}");
            assert_eq!(shown_input(json!({ "to": to })), json!({ "to": shown }));
        }
    }
}
