//! Checked producers and consumers, and the process that each of their runs goes through.

pub(super) mod consumer;
pub(super) mod phase;
pub(super) mod producer;
pub(super) mod topics;

use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::limits::HANDLER_RETRIES;
use crate::definition::model::{Definition, OnError, Step, StepRetry, with_defaults};
use crate::definition::steps::Action;

pub(super) use topics::{Role, TopicReferences};

/// The default timeout of one attempt at a phase.
const PHASE_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The phase of a producer.
pub const PRODUCE: &str = "handler";
/// The phase that reads and reserves events.
pub const PREPARE: &str = "prepare";
/// The phase that returns the mutation to perform.
pub const MUTATE: &str = "mutate";
pub const MUTATION: &str = "mutation";
/// The phase that ends a consumer's run.
pub const NEXT: &str = "next";

/// A phase of a handler: a step of its process, whose id is the name of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Produce,
    Prepare,
    Mutate,
    Mutation,
    Next,
}

impl Phase {
    const ALL: [Phase; 5] =
        [Phase::Produce, Phase::Prepare, Phase::Mutate, Phase::Mutation, Phase::Next];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Produce => PRODUCE,
            Phase::Prepare => PREPARE,
            Phase::Mutate => MUTATE,
            Phase::Mutation => MUTATION,
            Phase::Next => NEXT,
        }
    }

    pub fn of_step(id: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == id)
    }
}

/// Whether a handler is a producer or a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// Queries the outside world and publishes events.
    Producer,
    /// A handler that works on events.
    Consumer,
}

impl HandlerKind {
    /// Every kind, in the order of their stored numbers.
    pub const ALL: [HandlerKind; 2] = [HandlerKind::Producer, HandlerKind::Consumer];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            HandlerKind::Producer => "producer",
            HandlerKind::Consumer => "consumer",
        }
    }
}

/// A topic that a definition declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDeclaration {
    pub name: String,
    /// Whether it is shared: the same topic for all workflows that declare it with this name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Whether other workflows or programs work on its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// An event that was returned this often is skipped.
    pub max_attempts: u32,
}

/// A producer: it queries the outside world and publishes what it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Producer {
    /// The name, unique among the handlers of its workflow.
    pub name: String,
    /// The rule and options of its schedule, as written.
    pub schedule: Map<String, Value>,
    /// The topics that it may publish to.
    pub publishes: Vec<String>,
    pub handler: Action,
    /// The timeout of one attempt; 5 minutes if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// A consumer: it works on events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consumer {
    /// The name, unique among the handlers of its workflow.
    pub name: String,
    /// The topics whose events it works on.
    pub subscribe: Vec<String>,
    /// The topics that it may publish to; if empty, all that the definition declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishes: Vec<String>,
    /// Reads and reserves events.
    pub prepare: Action,
    /// A script that returns the mutation to perform, or the mutation itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutate: Option<Action>,
    /// Finds out whether a mutation has happened whose result is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Action>,
    /// Ends a run, and returns the state to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Action>,
    /// The timeout of one attempt at a phase; 5 minutes if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// A producer or consumer.
#[derive(Clone, Copy, Debug)]
pub enum Handled<'a> {
    Producer(&'a Producer),
    Consumer(&'a Consumer),
}

impl Handled<'_> {
    /// The name of the handler.
    pub fn name(&self) -> &str {
        match self {
            Handled::Producer(producer) => &producer.name,
            Handled::Consumer(consumer) => &consumer.name,
        }
    }

    /// Whether it is a producer or a consumer.
    pub fn kind(&self) -> HandlerKind {
        match self {
            Handled::Producer(_) => HandlerKind::Producer,
            Handled::Consumer(_) => HandlerKind::Consumer,
        }
    }
}

impl Producer {
    /// This producer as the part of its definition that declares a schedule.
    pub fn declares(&self) -> DeclaredBy {
        DeclaredBy::Producer(self.name.clone())
    }

    fn steps(&self) -> Vec<Step> {
        vec![phase(PRODUCE, &[], self.handler.clone(), self.timeout)]
    }
}

/// The part of a definition that declares a schedule. Stores and the API hold it as a text: the id
/// of the trigger, or `producers.NAME`, which no trigger can have as its id because of the dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeclaredBy {
    /// The trigger with this id.
    Trigger(String),
    /// The producer with this name.
    Producer(String),
}

/// What the text of a producer begins with.
const PRODUCERS: &str = "producers.";

impl DeclaredBy {
    /// The name of the producer, if one declares the schedule.
    pub fn producer(&self) -> Option<&str> {
        match self {
            DeclaredBy::Trigger(_) => None,
            DeclaredBy::Producer(name) => Some(name),
        }
    }
}

impl From<String> for DeclaredBy {
    fn from(mut text: String) -> DeclaredBy {
        if text.starts_with(PRODUCERS) {
            text.drain(..PRODUCERS.len());
            DeclaredBy::Producer(text)
        } else {
            DeclaredBy::Trigger(text)
        }
    }
}

impl fmt::Display for DeclaredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeclaredBy::Trigger(id) => f.write_str(id),
            DeclaredBy::Producer(name) => write!(f, "{PRODUCERS}{name}"),
        }
    }
}

impl Consumer {
    fn steps(&self) -> Vec<Step> {
        let timeout = self.timeout;
        let mut steps = vec![phase(PREPARE, &[], self.prepare.clone(), timeout)];
        let reserved = format!("steps.{PREPARE}.output.count > 0");
        let mut before = PREPARE;
        if let Some(action) = &self.mutate {
            let (action, condition) = match action {
                Action::Script(_) => {
                    let mutate = phase(MUTATE, &[PREPARE], action.clone(), timeout);
                    steps.push(Step { condition: Some(reserved.clone()), ..mutate });
                    before = MUTATE;
                    let asked = format!("steps.{MUTATE}.output.mutates");
                    (Action::Mutation, format!("{reserved} and {asked}"))
                }
                action => (action.clone(), reserved.clone()),
            };
            steps.push(Step {
                condition: Some(condition),
                idempotent: false,
                reconcile: self.reconcile.clone().map(Box::new),
                ..phase(MUTATION, &[before], action, timeout)
            });
            before = MUTATION;
        }
        if let Some(action) = &self.next {
            let next = phase(NEXT, &[before], action.clone(), timeout);
            steps.push(Step { condition: Some(reserved), ..next });
        }
        steps
    }
}

/// A phase is attempted once, since its handler decides what happens after a failure. A phase whose
/// node is dead is repeated.
fn phase(id: &str, after: &[&str], action: Action, timeout: Option<SignedDuration>) -> Step {
    Step {
        id: id.to_owned(),
        name: None,
        depends_on: after.iter().map(|id| (*id).to_owned()).collect(),
        condition: None,
        action,
        retry: StepRetry { max: 1, ..StepRetry::default() },
        timeout: Some(timeout.unwrap_or(PHASE_TIMEOUT)),
        on_error: OnError::FailProcess,
        idempotent: true,
        compensation: None,
        reconcile: None,
        deadline: None,
    }
}

impl Definition {
    /// Its producers, then its consumers.
    pub fn handled(&self) -> impl Iterator<Item = Handled<'_>> {
        let producers = self.producers.iter().map(Handled::Producer);
        producers.chain(self.consumers.iter().map(Handled::Consumer))
    }

    /// Whether it has producers or consumers.
    pub fn has_handlers(&self) -> bool {
        !self.producers.is_empty() || !self.consumers.is_empty()
    }

    /// Whether it has handlers or declares topics.
    pub fn hears(&self) -> bool {
        self.has_handlers() || !self.topics.is_empty()
    }

    /// The definition that a run executes: the steps, or the phases of the run's handler.
    pub fn of_run<'a>(
        self: &'a Arc<Definition>,
        handler: Option<&str>,
    ) -> Option<&'a Arc<Definition>> {
        match handler {
            None => Some(self),
            Some(name) => self.handler(name),
        }
    }

    /// The consumer with this name.
    pub fn consumer(&self, name: &str) -> Option<&Consumer> {
        self.consumers.iter().find(|consumer| consumer.name == name)
    }

    /// The producer with this name.
    pub fn producer(&self, name: &str) -> Option<&Producer> {
        self.producers.iter().find(|producer| producer.name == name)
    }

    /// The topic with this name.
    pub fn topic(&self, name: &str) -> Option<&TopicDeclaration> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    /// The process of a handler's runs, with a step for each phase. It is computed once.
    pub fn handler(&self, name: &str) -> Option<&Arc<Definition>> {
        let index = self.handled().position(|handled| handled.name() == name)?;
        self.processes().get(index)
    }

    /// The processes of all handlers, in the order of [`Definition::handled`].
    pub fn processes(&self) -> &[Arc<Definition>] {
        self.kept
            .handlers
            .get_or_init(|| self.handled().map(|of| Arc::new(self.process(of))).collect())
    }

    fn process(&self, of: Handled<'_>) -> Definition {
        let steps = match of {
            Handled::Producer(producer) => producer.steps(),
            Handled::Consumer(consumer) => consumer.steps(),
        };
        Definition {
            version: self.version,
            timezone: self.timezone.clone(),
            calendar: self.calendar.clone(),
            retention: self.retention,
            topics: self.topics.clone(),
            secrets: self.secrets.clone(),
            script: self.script.clone(),
            ..Definition::of_steps(&self.name, steps)
        }
    }

    /// The declaration of a producer's schedule: the fields as written, with the defaults for
    /// producers.
    pub fn producer_declaration(&self, producer: &Producer) -> Map<String, Value> {
        let defaults = [("timezone", &self.timezone), ("calendar", &self.calendar)];
        let mut declaration = with_defaults(producer.schedule.clone(), defaults);
        let own = [
            ("overlap", Value::from("queue")),
            ("catch_up", Value::from("last")),
            ("max_retries", Value::from(HANDLER_RETRIES)),
            ("retry", serde_json::json!({"delay": "10s", "max_delay": "10m"})),
            ("pause_on_failure", Value::from(true)),
        ];
        for (key, value) in own {
            declaration.entry(key).or_insert(value);
        }
        declaration
    }
}
