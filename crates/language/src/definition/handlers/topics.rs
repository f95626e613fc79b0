//! Topics: reads the declarations, and checks that every reference names a declared topic.

use std::collections::HashSet;

use super::TopicDeclaration;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading, quoted};
use crate::definition::text::{Flaw, Kind, Span, cut, join};

/// Whether a reference to a topic publishes or subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Publishes,
    Subscribes,
}

/// References to topics found so far, without the declarations.
#[derive(Default)]
pub(crate) struct TopicReferences(Vec<TopicReference>);

struct TopicReference {
    path: String,
    span: Span,
    topic: String,
    role: Role,
}

/// Reads a reference to a topic.
pub(crate) fn named(reading: &mut Reading<'_>, field: &Field<'_>, role: Role) -> Option<String> {
    let topic = read_name(reading, field)?;
    let (path, span) = (field.path.clone(), field.node.span);
    reading.topics.0.push(TopicReference { path, span, topic: topic.clone(), role });
    Some(topic)
}

/// Reads one or more references to topics.
pub(crate) fn list(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    role: Role,
    remedy: &str,
) -> Option<Vec<String>> {
    let items = reading.one_or_many(field, limits::TOPICS)?;
    if items.is_empty() {
        reading.refuse(field, Flaw::new("topic", "no topic is named").suggest(remedy));
        return None;
    }
    let mut topics: Vec<String> = Vec::new();
    for item in &items {
        let Some(topic) = named(reading, item, role) else { continue };
        if topics.contains(&topic) {
            reading.refuse(item, Flaw::new("repeated", format!("{topic} is named twice")));
        } else {
            topics.push(topic);
        }
    }
    Some(topics)
}

fn read_name(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let name = reading.text_such_as(field, "a text, the name of a topic")?;
    match limits::check_topic_name(name) {
        Ok(()) => Some(name.to_owned()),
        Err(why) => {
            reading.refuse(field, not_a_name(name, why));
            None
        }
    }
}

fn not_a_name(name: &str, why: String) -> Flaw {
    Flaw::new("topic", format!("{} is not the name of a topic", quoted(name))).allow(why)
}

/// Reads the declarations: a list of names or entries, or a mapping of names to options. `None` if
/// nothing can be read.
pub(crate) fn declared(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
) -> Option<Vec<TopicDeclaration>> {
    let mut topics = Vec::new();
    if let Kind::Map(entries) = &field.node.kind {
        if entries.len() > limits::TOPICS {
            let flaw = Flaw::new("limit", format!("{} topics", entries.len()));
            reading.refuse(field, flaw.allow(format!("at most {}", limits::TOPICS)));
            return None;
        }
        for entry in entries {
            let path = join(&field.path, &entry.key);
            if let Err(why) = limits::check_topic_name(&entry.key) {
                reading.report(&path, entry.key_span, not_a_name(&entry.key, why));
            }
            topics.push(with_options(reading, &entry.key, &Field { path, node: &entry.value }));
        }
        return Some(topics);
    }
    let mut seen = HashSet::new();
    for item in reading.list(field, limits::TOPICS)? {
        let Some(topic) = entry(reading, &item) else { continue };
        if !seen.insert(topic.name.clone()) {
            let message = format!("the topic {} is declared twice", topic.name);
            reading.refuse(&item, Flaw::new("repeated", message));
        }
        topics.push(topic);
    }
    Some(topics)
}

/// Reads `orders.new`, or `{ name: orders.new, shared: true }`.
fn entry(reading: &mut Reading<'_>, item: &Field<'_>) -> Option<TopicDeclaration> {
    if !matches!(item.node.kind, Kind::Map(_)) {
        return read_name(reading, item).map(|name| TopicDeclaration { name, ..plain() });
    }
    let mut fields = Fields::of(reading, item, "{ name: orders.new, shared: true }")?;
    let name = fields.require("name", "name: orders.new");
    let name = name.and_then(|field| read_name(reading, &field));
    let topic = options(reading, fields);
    Some(TopicDeclaration { name: name?, ..topic })
}

/// A topic with default options and no name.
fn plain() -> TopicDeclaration {
    let (name, max_attempts) = (String::new(), limits::DEFAULT_EVENT_ATTEMPTS);
    TopicDeclaration { name, shared: false, external: false, max_attempts }
}

/// Reads the options after a name. Nothing there means the defaults.
fn with_options(reading: &mut Reading<'_>, name: &str, field: &Field<'_>) -> TopicDeclaration {
    let fields = match field.node.kind {
        Kind::Null => None,
        _ => Fields::of(reading, field, "{ shared: true }"),
    };
    let topic = fields.map(|fields| options(reading, fields)).unwrap_or_else(plain);
    TopicDeclaration { name: name.to_owned(), ..topic }
}

fn options(reading: &mut Reading<'_>, mut fields: Fields<'_>) -> TopicDeclaration {
    let shared = fields.boolean(reading, "shared").unwrap_or(false);
    let external = fields.boolean(reading, "external").unwrap_or(false);
    let attempts = fields.whole(reading, "max_attempts", 1..=limits::EVENT_ATTEMPTS);
    fields.finish(reading);
    let max_attempts = attempts.map_or(limits::DEFAULT_EVENT_ATTEMPTS, |most| most as u32);
    TopicDeclaration { shared, external, max_attempts, ..plain() }
}

/// Reports topics that are referenced and not declared, and topics that are published to although
/// nothing subscribes to them.
pub(crate) fn check(reading: &mut Reading<'_>, declared: &[TopicDeclaration]) {
    let references = std::mem::take(&mut reading.topics.0);
    let subscribed = references.iter().filter(|reference| reference.role == Role::Subscribes);
    let subscribed: HashSet<&str> =
        subscribed.map(|reference| meant(&reference.topic, declared)).collect();
    let mut told = HashSet::new();
    for reference in &references {
        let topic = reference.topic.as_str();
        let known = declared.iter().find(|declared| declared.name == topic);
        let flaw = match known {
            None => not_declared(topic, declared),
            Some(known) if known.external || known.shared => continue,
            Some(_) if reference.role == Role::Subscribes || subscribed.contains(topic) => continue,
            Some(_) if !told.insert(topic) => continue,
            Some(_) => {
                let message = format!("nobody subscribes to the topic {topic}");
                let remedy = "a consumer that does, or external: true where it is declared";
                Flaw::new("no-subscriber", message).suggest(remedy)
            }
        };
        reading.report(&reference.path, reference.span, flaw);
    }
}

/// The declared topic that is most likely meant, so that a typo in a subscription is reported once.
fn meant<'a>(topic: &'a str, declared: &'a [TopicDeclaration]) -> &'a str {
    let known = || declared.iter().map(|declared| declared.name.as_str());
    if known().any(|name| name == topic) {
        topic
    } else {
        calendar::nearest(topic, known()).first().copied().unwrap_or(topic)
    }
}

fn not_declared(topic: &str, declared: &[TopicDeclaration]) -> Flaw {
    let known = declared.iter().map(|declared| declared.name.as_str());
    let flaw = Flaw::new("no-topic", format!("the topic {} is not declared", cut(topic)));
    let flaw = flaw.did_you_mean(topic, known);
    match &flaw.remedy {
        Some(_) => flaw,
        None => flaw.suggest(format!("topics: [{}]", cut(topic))),
    }
}
