//! `on_failure` and `on_recovery`: who is notified and what is started when work fails, and when it
//! succeeds again. They are read from JSON, because workflows, triggers, schedules of the API and
//! nodes all use the same form.

use calendar::{Mistake, Problem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::limits;
use crate::definition::reading::{Fields, Reading, json, names, shape};
use crate::definition::steps::{Channel, http, notification};

/// One action when an incident begins or ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentAction {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Channel>,
    /// The workflow that is started, with the run that failed or succeeded as its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

const KEYS: [&str; 2] = ["notify", "start"];
const CHANNELS: [&str; 3] = ["email", "webhook", "slack"];
const ACTION: &str = "[{ notify: { email: ops@example.com } }]";
const CHANNEL: &str = "{ email: ops@example.com }";

/// Reads the actions under a key of a definition. Flaws are kept in `reading`.
pub(super) fn field(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    key: &'static str,
) -> Option<Vec<IncidentAction>> {
    let field = fields.take(key)?;
    let value = json::value(reading, &field);
    match read(&value) {
        Ok(actions) => Some(actions),
        Err(mistakes) => {
            let place = fields.place();
            let mistakes = mistakes.into_iter().map(|mistake| below(mistake, key));
            mistakes.for_each(|mistake| reading.mistake(&place, mistake));
            None
        }
    }
}

/// Reads a list of actions or a single one, or returns all mistakes. An empty list means that
/// nothing happens.
pub(crate) fn read(value: &Value) -> Result<Vec<IncidentAction>, Vec<Mistake>> {
    let items = one_or_many(value);
    if items.len() > limits::DEADLINE_ACTIONS {
        return Err(vec![too_many(items.len(), limits::DEADLINE_ACTIONS)]);
    }
    let (mut actions, mut mistakes) = (Vec::new(), Vec::new());
    for (path, item) in items {
        match action(item) {
            Ok(action) => actions.push(action),
            Err(found) => mistakes.extend(found.into_iter().map(|mistake| below(mistake, &path))),
        }
    }
    if mistakes.is_empty() { Ok(actions) } else { Err(mistakes) }
}

fn action(value: &Value) -> Result<IncidentAction, Vec<Mistake>> {
    let map = mapping(value, ACTION)?;
    let mut mistakes = unknown(map, &KEYS);
    let mut action = IncidentAction::default();
    if let Some(value) = map.get("notify") {
        match channels(value) {
            Ok(channels) => action.notify = channels,
            Err(found) => mistakes.extend(found.into_iter().map(|m| below(m, "notify"))),
        }
    }
    match map.get("start") {
        Some(Value::String(name)) => match names::check_workflow(name) {
            Ok(()) => action.start = Some(name.clone()),
            Err(problem) => mistakes.push(Mistake::new("start", *problem)),
        },
        Some(_) => {
            let problem = Problem::whole("type", "", "expected the name of a workflow");
            mistakes.push(Mistake::new("start", problem));
        }
        None => {}
    }
    if mistakes.is_empty() && action == IncidentAction::default() {
        let problem = Problem::whole("action", "", "this action does nothing");
        mistakes.push(Mistake::new("", problem.suggest("notify or start")));
    }
    if mistakes.is_empty() { Ok(action) } else { Err(mistakes) }
}

fn channels(value: &Value) -> Result<Vec<Channel>, Vec<Mistake>> {
    let items = one_or_many(value);
    if items.len() > limits::CHANNELS {
        return Err(vec![too_many(items.len(), limits::CHANNELS)]);
    }
    let (mut channels, mut mistakes) = (Vec::new(), Vec::new());
    for (path, item) in items {
        match channel(item) {
            Ok(channel) => channels.push(channel),
            Err(found) => mistakes.extend(found.into_iter().map(|mistake| below(mistake, &path))),
        }
    }
    if mistakes.is_empty() { Ok(channels) } else { Err(mistakes) }
}

fn channel(value: &Value) -> Result<Channel, Vec<Mistake>> {
    let map = mapping(value, CHANNEL)?;
    let mistakes = unknown(map, &CHANNELS);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut entries = map.iter();
    let (Some((kind, to)), None) = (entries.next(), entries.next()) else {
        let message = "a channel has one way: email, webhook or slack";
        let problem = Problem::whole("notify", "", message).suggest(CHANNEL);
        return Err(vec![Mistake::new("", problem)]);
    };
    let Value::String(to) = to else {
        let problem = Problem::whole("type", "", "expected a text").suggest(CHANNEL);
        return Err(vec![Mistake::new(kind, problem)]);
    };
    of_kind(kind, to).map_err(|problem| vec![Mistake::new(kind, *problem)])
}

fn of_kind(kind: &str, to: &str) -> Result<Channel, Box<Problem>> {
    let url = |to: &str| http::check_address(to).map(|()| to.to_owned());
    match kind {
        "email" => notification::check_address(to).map(|()| Channel::Email(to.to_owned())),
        "webhook" => url(to).map(Channel::Webhook),
        _ => url(to).map(Channel::Slack),
    }
}

impl Channel {
    /// Reads `email:ops@example.com`, `webhook:https://…` or `slack:https://…`, as in command-line
    /// options.
    pub fn parse(text: &str) -> Result<Channel, Box<Problem>> {
        match text.split_once(':') {
            Some((kind, to)) if CHANNELS.contains(&kind) => of_kind(kind, to),
            _ => {
                // What follows in a URL may be secret.
                let shown = match text.split_once("://") {
                    Some((scheme, _)) => format!("{scheme}://…"),
                    None => text.to_owned(),
                };
                let problem = Problem::whole("notify", &shown, "not a channel");
                let allowed = "email:ADDRESS, webhook:URL, slack:URL";
                Err(Box::new(problem.allow(allowed).suggest("email:ops@example.com")))
            }
        }
    }

    /// The key with which it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Channel::Email(_) => "email",
            Channel::Webhook(_) => "webhook",
            Channel::Slack(_) => "slack",
        }
    }

    /// The recipient without anything secret: an email address, or the host of a URL.
    pub fn shown(&self) -> String {
        match self {
            Channel::Email(address) => format!("email {address}"),
            Channel::Webhook(url) | Channel::Slack(url) => {
                format!("{} {}", self.kind(), host_of(url).unwrap_or_default())
            }
        }
    }
}

/// The host of a URL, without port.
pub fn host_of(url: &str) -> Option<String> {
    url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned))
}

impl IncidentAction {
    /// Reads a channel, or `start:WORKFLOW`, as in command-line options.
    pub fn parse(text: &str) -> Result<IncidentAction, Box<Problem>> {
        match text.strip_prefix("start:") {
            Some(name) => {
                names::check_workflow(name)?;
                Ok(IncidentAction { notify: Vec::new(), start: Some(name.to_owned()) })
            }
            None => {
                let told = Channel::parse(text).map_err(|problem| match problem.code {
                    "notify" => Box::new(
                        problem.allow("email:ADDRESS, webhook:URL, slack:URL, start:WORKFLOW"),
                    ),
                    _ => problem,
                })?;
                Ok(IncidentAction { notify: vec![told], start: None })
            }
        }
    }
}

/// The items of a list with their paths, or a single value as the only item.
fn one_or_many(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (format!("[{at}]"), item)).collect()
        }
        one => vec![(String::new(), one)],
    }
}

fn mapping<'v>(value: &'v Value, remedy: &str) -> Result<&'v Map<String, Value>, Vec<Mistake>> {
    value.as_object().ok_or_else(|| {
        let problem = Problem::whole("type", "", "expected a mapping").suggest(remedy);
        vec![Mistake::new("", problem)]
    })
}

fn unknown(map: &Map<String, Value>, known: &[&'static str]) -> Vec<Mistake> {
    let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
    unknown.map(|key| shape::unknown_key(key, known.iter().copied())).collect()
}

fn too_many(count: usize, most: usize) -> Mistake {
    let problem = Problem::whole("limit", "", format!("{count} entries"));
    Mistake::new("", problem.allow(format!("at most {most}")))
}

/// The mistake with `above`, a key or a list index, in front of its path.
fn below(mistake: Mistake, above: &str) -> Mistake {
    let path = match (above, &*mistake.path) {
        ("", path) => path.to_owned(),
        (above, "") => above.to_owned(),
        (above, path) if path.starts_with('[') => format!("{above}{path}"),
        (above, path) => format!("{above}.{path}"),
    };
    Mistake::new(path, mistake.problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_or_one_and_channels_alike() {
        let email = Channel::Email("a@example.com".to_owned());
        let told = IncidentAction { notify: vec![email.clone()], start: None };
        for written in [
            json!([{"notify": [{"email": "a@example.com"}]}]),
            json!({"notify": {"email": "a@example.com"}}),
        ] {
            assert_eq!(read(&written).unwrap(), std::slice::from_ref(&told), "{written}");
        }
        assert_eq!(read(&json!([])).unwrap(), []);
        assert_eq!(Channel::parse("email:a@example.com").unwrap(), email);
        let started = IncidentAction { notify: vec![], start: Some("repair".to_owned()) };
        assert_eq!(IncidentAction::parse("start:repair").unwrap(), started);
        assert_eq!(read(&json!({"start": "repair"})).unwrap(), [started]);
        let slack = Channel::parse("slack:https://hooks.example.org/T0/secret").unwrap();
        assert_eq!(slack.shown(), "slack hooks.example.org");
    }

    #[test]
    fn every_mistake_has_its_place() {
        let written = json!([
            {"notify": [{"email": "nobody"}, {"fax": "1"}, {"email": "a@b", "slack": "https://c"}]},
            {"start": "No Name"}, {}, {"tell": "x"}, 5,
            {"notify": {"webhook": "ftp://example.org"}},
        ]);
        let mistakes = read(&written).unwrap_err();
        let places: Vec<&str> = mistakes.iter().map(|mistake| &*mistake.path).collect();
        let expected = [
            "[0].notify[0].email",
            "[0].notify[1].fax",
            "[0].notify[2]",
            "[1].start",
            "[2]",
            "[3].tell",
            "[4]",
            "[5].notify.webhook",
        ];
        assert_eq!(places, expected);
        assert!(Channel::parse("ops@example.com").is_err());
        // Somebody forgot the prefix: the rest of the URL may be secret.
        let problem = Channel::parse("https://u:hunter22@h.example/x").unwrap_err();
        assert_eq!(&*problem.text, "https://…");
        assert!(IncidentAction::parse("start:No Name").is_err());
    }
}
