//! A definition, checked.

use calendar::CalendarSpec;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::action::Action;
use super::deadline::Deadline;
use super::graph::Kept;
use super::handlers::{Consumer, Producer, TopicDeclaration};
use super::incident_actions::IncidentAction;
use super::version::Version;
use crate::input_schema::InputSchema;

/// A workflow, checked. What it holds can be relied on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The workflow's name.
    pub name: String,
    /// The version, as its author counts.
    pub version: Version,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The zone of triggers that name none; their calendar's, or else UTC, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The calendar of triggers that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// The JSON Schema that a run's payload must match. Any payload is accepted if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputSchema>,
    /// How many of its runs may be active at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long a run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// How long ended runs are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<SignedDuration>,
    /// How many steps of a run may be performed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_steps: Option<u32>,
    /// When a run is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// What happens when a run fails, unless the trigger says so itself; what the node says, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Vec<IncidentAction>>,
    /// What happens when one succeeds again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_recovery: Option<Vec<IncidentAction>>,
    /// Its own calendars; a later one may be composed of earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarSpec>,
    /// What starts it, in the order in which it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// What it does, in an order in which all that a step depends on comes before it. Empty if it has handlers alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// What a run gives; the output of the step that ended last, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// The topics that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicDeclaration>,
    /// What asks the world, in the order in which it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub producers: Vec<Producer>,
    /// What works on events, in the order in which it is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<Consumer>,
    /// The secrets that its scripts may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The text that it was made from, if that is JavaScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// What [`Definition::graph`] and [`Definition::handler`] have worked out.
    #[serde(skip)]
    pub kept: Kept,
}

/// A part of what a run gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Its key.
    pub name: String,
    /// Its value: a text in it may be a template.
    pub source: Value,
}

/// What starts a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Unique in the workflow.
    pub id: String,
    /// When it starts the workflow.
    #[serde(flatten)]
    pub kind: TriggerKind,
    /// Whether it does so at present.
    pub enabled: bool,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// When a trigger starts its workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TriggerKind {
    /// By a rule, with the options of a schedule.
    Schedule {
        /// The rule and its options, as they are written. See [`Definition::declaration`].
        declaration: Map<String, Value>,
    },
    /// When someone asks for it.
    Manual,
    /// When somebody calls its address.
    Webhook {
        /// The name of the secret that callers sign with; without one the calls are not signed, and anyone who
        /// knows the address may call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// What the run works on, made from `input.body` and `input.headers`; the body, if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
        /// The body is published to this topic instead of starting a run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        publish: Option<String>,
    },
    /// When an event is published to a topic.
    Event {
        /// Which topic.
        topic: String,
        /// Whether it starts the workflow: an expression over `event`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        /// What the run works on, made from `event`; its payload, if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
}

/// A part of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Unique in the workflow.
    pub id: String,
    /// What it is called, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Steps that have ended before this one starts. Without any it begins with the run, unless a gateway leads
    /// to it or an `on_error` names it: what is named there and depends on nothing begins only by the jump.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Whether it runs, asked when all that it depends on has ended: an expression. If not, it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// What it does.
    pub action: Action,
    /// How often it is tried.
    pub retry: StepRetry,
    /// How long one attempt may take; nothing for what only waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// What happens when the last attempt has failed.
    pub on_error: OnError,
    /// Whether doing it twice is harmless: what becomes of an attempt whose node is gone.
    pub idempotent: bool,
    /// What undoes it, if it is done and the run does not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Box<Compensation>>,
    /// What finds out whether it was done, if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Box<Action>>,
    /// When it is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

/// What undoes a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compensation {
    /// What it does: something that a node or a worker performs.
    pub action: Action,
    /// How often it is tried.
    pub retry: StepRetry,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// How often a step is tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRetry {
    /// Attempts, the first one included.
    pub max: u32,
    /// The wait after the first attempt.
    pub delay: SignedDuration,
    /// What each further wait is multiplied by.
    pub factor: f64,
    /// The longest wait; ten times `delay` if left out.
    pub max_delay: SignedDuration,
    /// Whether nothing of it was written: a schedule that tries whole runs again does instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

impl Default for StepRetry {
    fn default() -> StepRetry {
        StepRetry {
            max: 3,
            delay: SignedDuration::from_secs(5),
            factor: 2.0,
            max_delay: SignedDuration::from_secs(50),
            by_default: false,
        }
    }
}

impl StepRetry {
    /// How often a step is tried that does not say: three times where a second attempt does no harm, else once.
    /// `idempotent` is what the step says of itself.
    pub fn unwritten(action: &Action, idempotent: Option<bool>) -> StepRetry {
        let is_safe = idempotent.unwrap_or_else(|| action.is_safe_to_repeat());
        let max = if is_safe { 3 } else { 1 };
        StepRetry { max, by_default: true, ..StepRetry::default() }
    }
}

/// What happens when a step has failed for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The run fails.
    #[default]
    FailProcess,
    /// The step counts as skipped, and the run goes on.
    SkipStep,
    /// The run goes on with this step: it begins whatever else it depends on, and if it has ended before, it and
    /// all that depends on it are done again.
    GotoStep(String),
}

impl Definition {
    /// These steps, and nothing else.
    pub fn of_steps(name: &str, steps: Vec<Step>) -> Definition {
        Definition {
            name: name.to_owned(),
            version: Version::default(),
            description: None,
            timezone: None,
            calendar: None,
            input: None,
            concurrency: None,
            timeout: None,
            retention: None,
            max_concurrent_steps: None,
            deadline: None,
            on_failure: None,
            on_recovery: None,
            calendars: Vec::new(),
            triggers: Vec::new(),
            steps,
            outputs: Vec::new(),
            topics: Vec::new(),
            producers: Vec::new(),
            consumers: Vec::new(),
            secrets: Vec::new(),
            script: None,
            kept: Kept::default(),
        }
    }

    /// Whether the clock of one of its deadlines may stand.
    pub fn has_pausable_deadline(&self) -> bool {
        let steps = self.steps.iter().filter_map(|step| step.deadline.as_ref());
        self.deadline.iter().chain(steps).any(|deadline| deadline.pausable)
    }

    /// What a trigger's schedule is made from: its own declaration, with the definition's zone and
    /// calendar where it names none. `calendar: null` in a trigger means none at all.
    pub fn declaration(&self, trigger: &Trigger) -> Option<Map<String, Value>> {
        let TriggerKind::Schedule { declaration } = &trigger.kind else { return None };
        let defaults = [("timezone", &self.timezone), ("calendar", &self.calendar)];
        Some(with_defaults(declaration.clone(), defaults))
    }
}

/// Fills in what a declaration does not say itself.
pub(super) fn with_defaults(
    mut declaration: Map<String, Value>,
    defaults: [(&str, &Option<String>); 2],
) -> Map<String, Value> {
    for (key, default) in defaults {
        if let (None, Some(value)) = (declaration.get(key), default) {
            declaration.insert(key.to_owned(), Value::from(value.as_str()));
        }
    }
    declaration
}

impl StepRetry {
    /// How long attempt number `attempt` (2 is the first retry) waits.
    pub fn delay_before(&self, attempt: u32) -> SignedDuration {
        let exponent = i32::try_from(attempt.saturating_sub(2)).unwrap_or(i32::MAX).min(64);
        let factor = self.factor.max(1.0).powi(exponent);
        let seconds = self.delay.as_secs_f64() * factor;
        let seconds = seconds.min(self.max_delay.as_secs_f64());
        SignedDuration::try_from_secs_f64(seconds).unwrap_or(self.max_delay)
    }
}
