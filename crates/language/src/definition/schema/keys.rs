//! The keys of mappings that are not steps or triggers.

use super::rules::{EXCEPTIONS, HOLIDAYS, HOURS};
use crate::definition::limits;

/// A key of a mapping.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
    pub(super) description: &'static str,
    pub(super) default: Default,
}

/// The value that applies if a key is omitted, where it is a single one.
#[derive(Clone, Copy)]
pub(super) enum Default {
    Nothing,
    Word(&'static str),
    Number(u64),
    Flag(bool),
}

/// The allowed values of a key.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Any,
    Text,
    /// A line for people.
    Line,
    Const(&'static str),
    Bool,
    Nothing,
    Mapping,
    /// A mapping of names to texts.
    Texts,
    Whole(u64, u64),
    /// A whole number that may be negative.
    Integer(i64, i64),
    Number(f64, f64),
    /// A duration such as `5m`. In a definition, also a whole number of seconds.
    Seconds,
    /// A mapping with these keys and no others.
    Object(&'static [Key]),
    /// A title and the allowed words.
    Choice(&'static str, &'static [&'static str]),
    /// A reference to an entry of `$defs`.
    Is(&'static str),
    Either(&'static [Shape]),
    List(&'static Shape),
    OneOrMany(&'static Shape),
    /// A mapping of names, which match this pattern, to values of this shape.
    Named(&'static str, &'static Shape),
}

pub(super) const fn may(name: &'static str, shape: Shape, description: &'static str) -> Key {
    Key { name, shape, required: false, description, default: Default::Nothing }
}

pub(super) const fn must(name: &'static str, shape: Shape, description: &'static str) -> Key {
    Key { name, shape, required: true, description, default: Default::Nothing }
}

impl Key {
    /// Sets the value that applies if the key is omitted.
    pub(super) const fn or(self, default: Default) -> Key {
        Key { default, ..self }
    }
}

pub(super) const ID: Shape = Shape::Is("id");
pub(super) const NAME: Shape = Shape::Is("name");
pub(super) const DURATION: Shape = Shape::Is("duration");
pub(super) const TIME_SPAN: Shape = Shape::Is("stretch");
pub(super) const TOPIC: Shape = Shape::Is("topic");
pub(super) const TEMPLATE: Shape = Shape::Is("template");
pub(super) const CONDITION: Shape = Shape::Is("condition");
const CHANNELS: Shape = Shape::OneOrMany(&Shape::Is("channel"));

/// The top level of a definition.
pub(super) const DEFINITION: &[Key] = &[
    must("name", NAME, "The workflow's name: a-z, 0-9 and -, at most 64 characters"),
    may(
        "version",
        Shape::Either(&[Shape::Whole(0, u32::MAX as u64), Shape::Number(0.0, 1e9), Shape::Text]),
        "As its author counts: a whole number, or \"X.Y\"",
    ),
    may("description", Shape::Text, "What it is for"),
    may(
        "timezone",
        Shape::Text,
        "The zone of triggers, timers and deadlines; their calendar's if left out, else UTC",
    ),
    may("calendar", Shape::Text, "The calendar of triggers, timers and deadlines"),
    may("input", Shape::Mapping, "What the payload of a run has to be, as JSON Schema"),
    may("concurrency", Shape::Whole(1, limits::CONCURRENCY), "How many runs may be active at once"),
    may("timeout", DURATION, "How long a run may take"),
    may("retention", DURATION, "How long ended runs are kept"),
    may(
        "max_concurrent_steps",
        Shape::Whole(1, limits::STEPS as u64),
        "How many steps of a run may be performed at once",
    ),
    may("deadline", Shape::Is("deadline"), "When a run is to be done"),
    may("on_failure", INCIDENT_ACTIONS, "What happens when a run fails; the node's if left out"),
    may("on_recovery", INCIDENT_ACTIONS, "What happens when one succeeds again"),
    may("calendars", Shape::List(&Shape::Is("calendar")), "Calendars of its own"),
    may("triggers", Shape::List(&Shape::Is("trigger")), "What starts it"),
    may("steps", Shape::List(&Shape::Is("step")), "What it does; may be left out beside handlers"),
    may("outputs", Shape::List(&Shape::Is("output")), "What a run gives"),
    may("topics", TOPICS, "The topics that it names: names or entries, or names with options"),
    may("producers", Shape::Named(HANDLER, &Shape::Is("producer")), "What asks the world"),
    may("consumers", Shape::Named(HANDLER, &Shape::Is("consumer")), "What works on events"),
    may("secrets", Shape::List(&ID), "The secrets that its scripts may ask for"),
];

/// The pattern for names of producers and consumers.
const HANDLER: &str = "^[A-Za-z][A-Za-z0-9_-]{0,63}$";
/// The pattern for names of topics.
pub(super) const TOPIC_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$";

const TOPICS: Shape = Shape::Either(&[
    Shape::List(&Shape::Either(&[TOPIC, Shape::Is("topic_entry")])),
    Shape::Named(TOPIC_NAME, &Shape::Either(&[Shape::Is("topic_options"), Shape::Nothing])),
]);

const SHARED: Key =
    may("shared", Shape::Bool, "Whether it is the same for all workflows that name it so");
const EXTERNAL: Key = may("external", Shape::Bool, "Whether others work on its events");
const MAX_ATTEMPTS: Key = may(
    "max_attempts",
    Shape::Whole(1, limits::EVENT_ATTEMPTS),
    "An event that was given back so often is skipped; 10 if left out",
);

pub(super) const TOPIC_OPTIONS: &[Key] = &[SHARED, EXTERNAL, MAX_ATTEMPTS];
pub(super) const TOPIC_ENTRY: &[Key] =
    &[must("name", TOPIC, "Its name"), SHARED, EXTERNAL, MAX_ATTEMPTS];

const PHASE: Shape = Shape::Is("phase");
const PHASE_TIMEOUT: Key =
    may("timeout", DURATION, "How long one attempt at a phase may take; 5m if left out");

pub(super) const PRODUCER: &[Key] = &[
    must("schedule", Shape::Is("producer_schedule"), "When it is due"),
    may(
        "publishes",
        Shape::OneOrMany(&TOPIC),
        "The topics that it may publish to; all if left out",
    ),
    must("handler", PHASE, "What it does"),
    PHASE_TIMEOUT,
];

pub(super) const CONSUMER: &[Key] = &[
    must("subscribe", Shape::OneOrMany(&TOPIC), "The topics whose events it works on"),
    may(
        "publishes",
        Shape::OneOrMany(&TOPIC),
        "The topics that it may publish to; all if left out",
    ),
    must("prepare", PHASE, "What reads, and reserves events"),
    may("mutate", PHASE, "The mutation of the outside world; a script says which"),
    may("reconcile", PHASE, "What finds out whether a mutation has happened"),
    may("next", PHASE, "What ends a run, and says what to keep"),
    PHASE_TIMEOUT,
];

pub(super) const OUTPUT: &[Key] = &[
    must("name", ID, "Its key"),
    must("source", Shape::Any, "Its value; texts in it may hold templates"),
];

pub(super) const RETRY: &[Key] = &[
    may("max", Shape::Whole(1, limits::ATTEMPTS), "Attempts, the first included; 3 if left out"),
    may("delay", DURATION, "The wait after the first attempt; 5s if left out"),
    may("factor", Shape::Number(1.0, 100.0), "What each further wait is multiplied by; 2"),
    may("max_delay", DURATION, "The longest wait; ten times delay if left out"),
];

pub(super) const JUMP: &[Key] = &[must("goto_step", ID, "The step that the run goes on with")];

pub(super) const ROUTE: &[Key] = &[
    may("condition", CONDITION, "Whether it is taken; always, without one"),
    must("target", ID, "The step it leads to, which then depends on the gateway"),
];

pub(super) const CHANNEL: &[Key] = &[
    may("email", TEMPLATE, "A message to this address"),
    may("webhook", TEMPLATE, "A signed POST to this URL"),
    may("slack", TEMPLATE, "A text to this URL, in the shape that Slack takes"),
];

pub(super) const DEADLINE: &[Key] = &[
    may("within", TIME_SPAN, "How long it may take"),
    may("at", Shape::Text, "Until the clock shows this, such as \"17:00\""),
    may("calendar", Shape::Text, "What working time means; the workflow's if left out"),
    may(
        "from",
        Shape::Choice("From when a deadline counts", &["enabled", "started"]),
        "Since it could begin (enabled, the default), or since it began",
    ),
    may("pausable", Shape::Bool, "Whether the clock stands while the run is suspended"),
    may("actions", Shape::List(&Shape::Is("deadline_action")), "What happens when"),
];

pub(super) const DEADLINE_ACTION: &[Key] = &[
    may("at", Shape::Text, "A share of the time allowed, such as 80%, or deadline"),
    may("before", TIME_SPAN, "So long before the deadline"),
    may("after", TIME_SPAN, "So long after the deadline"),
    may("notify", CHANNELS, "Who is told"),
    may("start", NAME, "A workflow that is started, with the run as its input"),
    may("fail", Shape::Bool, "It has failed"),
    may("cancel", Shape::Bool, "The run is cancelled"),
    may("complete", Shape::Bool, "It counts as done"),
    may("skip", Shape::Bool, "It is passed over"),
];

/// The actions when an incident begins or ends.
pub(super) const INCIDENT_ACTIONS: Shape = Shape::OneOrMany(&Shape::Is("incident_action"));

pub(super) const INCIDENT_ACTION: &[Key] = &[
    may("notify", CHANNELS, "Who is told"),
    may("start", NAME, "A workflow that is started, with the run as its input"),
];

pub(super) const CALENDAR: &[Key] = &[
    must("id", ID, "Unique in the workflow"),
    may("timezone", Shape::Text, "Its zone; the workflow's if left out"),
    may("tz", Shape::Text, "The same, shorter"),
    may("hours", HOURS, "Working hours by day, such as { mon-fri: [\"09:00-17:00\"] }"),
    may("holidays", HOLIDAYS, "Days off: countries, dates, periods"),
    may("exceptions", EXCEPTIONS, "Single dates that differ"),
    may(
        "hours_per_day",
        Shape::Number(0.0, 24.0),
        "How long a working day is; its longest one if left out",
    ),
    may("union", Shape::List(&Shape::Text), "Open where any of these is"),
    may("intersection", Shape::List(&Shape::Text), "Open where all of these are"),
    may("base", Shape::Text, "The calendar it is taken from"),
    may("all_but", Shape::List(&Shape::Text), "Open where base is and these are not"),
];

/// The recipients of a notification.
pub(super) const TO: Shape = CHANNELS;
