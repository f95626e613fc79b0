//! Producers and consumers, checked, and the process that each of their runs goes through.

use std::sync::Arc;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::action::Action;
use super::limits::HANDLER_RETRIES;
use super::model::{Definition, OnError, Step, StepRetry, with_defaults};

/// One attempt at a phase may take so long.
const PHASE_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The phase of a producer.
pub const PRODUCE: &str = "handler";
/// The phase that reads, and reserves events.
pub const PREPARE: &str = "prepare";
/// The phase that says which mutation is to be performed.
pub const MUTATE: &str = "mutate";
/// The mutation itself.
pub const MUTATION: &str = "mutation";
/// The phase that ends a consumer's run.
pub const NEXT: &str = "next";

/// What a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// It asks the world, and publishes.
    Producer,
    /// It works on events.
    Consumer,
}

impl HandlerKind {
    /// Every kind, in the order of their stored numbers.
    pub const ALL: [HandlerKind; 2] = [HandlerKind::Producer, HandlerKind::Consumer];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            HandlerKind::Producer => "producer",
            HandlerKind::Consumer => "consumer",
        }
    }
}

/// A topic that a definition names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDeclaration {
    /// Its name.
    pub name: String,
    /// Whether it is everyone's: the same for all workflows that name it so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Whether others work on its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// An event that was given back so often is skipped.
    pub max_attempts: u32,
}

/// What asks the world, and publishes what it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Producer {
    /// Unique among the handlers of its workflow.
    pub name: String,
    /// Its rule and its options, as they are written.
    pub schedule: Map<String, Value>,
    /// The topics that it may publish to.
    pub publishes: Vec<String>,
    /// What it does.
    pub handler: Action,
    /// How long one attempt may take; 5 minutes if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// What works on events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consumer {
    /// Unique among the handlers of its workflow.
    pub name: String,
    /// The topics whose events it works on.
    pub subscribe: Vec<String>,
    /// The topics that it may publish to; all that the definition declares, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishes: Vec<String>,
    /// What reads, and reserves events.
    pub prepare: Action,
    /// What says which mutation is to be performed, if it is a script; else the mutation itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutate: Option<Action>,
    /// What finds out whether a mutation has happened of which that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Action>,
    /// What ends a run, and says what to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Action>,
    /// How long one attempt at a phase may take; 5 minutes if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// A producer or consumer.
#[derive(Clone, Copy, Debug)]
pub enum Handled<'a> {
    /// A producer.
    Producer(&'a Producer),
    /// A consumer.
    Consumer(&'a Consumer),
}

impl Handled<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Handled::Producer(producer) => &producer.name,
            Handled::Consumer(consumer) => &consumer.name,
        }
    }

    /// What it is.
    pub fn kind(&self) -> HandlerKind {
        match self {
            Handled::Producer(_) => HandlerKind::Producer,
            Handled::Consumer(_) => HandlerKind::Consumer,
        }
    }
}

impl Producer {
    /// The name of the trigger that its schedule is made by. No trigger that people write can have it.
    pub fn trigger(&self) -> String {
        format!("producers.{}", self.name)
    }

    fn steps(&self) -> Vec<Step> {
        vec![phase(PRODUCE, &[], self.handler.clone(), self.timeout)]
    }
}

/// The producer whose schedule a trigger of this name is.
pub fn producer_of_trigger(trigger: &str) -> Option<&str> {
    trigger.strip_prefix("producers.")
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

/// A phase is tried once: what becomes of a failure is for the handler to say. One whose node is gone is begun again.
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

    /// Whether it has anything to do with topics.
    pub fn hears(&self) -> bool {
        self.has_handlers() || !self.topics.is_empty()
    }

    /// What a run goes through: its steps, or the phases of the handler that it is a run of.
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

    /// The process that the runs of a handler go through: a step for each phase. Worked out once.
    pub fn handler(&self, name: &str) -> Option<&Arc<Definition>> {
        let place = self.handled().position(|handled| handled.name() == name)?;
        self.processes().get(place)
    }

    /// The processes of all handlers.
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

    /// What a producer's schedule is made from: as written, with what producers do if nothing else is said.
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
