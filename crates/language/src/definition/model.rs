//! The checked form of a definition.

use calendar::CalendarSpec;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::handlers::{Consumer, Producer, TopicDeclaration};
use crate::definition::incident_actions::IncidentAction;
use crate::definition::order::Kept;
use crate::definition::steps::Action;
use crate::definition::time::Deadline;
use crate::definition::version::Version;
use crate::input_schema::InputSchema;

/// A checked workflow. Its values can be relied on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub name: String,
    /// The version number that the author gave.
    pub version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The zone of triggers that name none. If omitted, that of their calendar, or else UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The calendar of triggers that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// The JSON Schema that a run's payload must match. Any payload is accepted if it is omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputSchema>,
    /// The maximum number of active runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The timeout of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// How long ended runs are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<SignedDuration>,
    /// The maximum number of steps of a run that are performed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_steps: Option<u32>,
    /// By when a run should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// What happens when a run fails, unless its trigger says so itself. If omitted, the node's
    /// setting applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Vec<IncidentAction>>,
    /// What happens when a run succeeds again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_recovery: Option<Vec<IncidentAction>>,
    /// Its own calendars. A later one may be composed of earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarSpec>,
    /// The triggers, in the order in which they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// The steps, ordered so that each comes after all that it depends on. Empty if the workflow
    /// has only handlers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The outputs of a run. If empty, a run's output is that of the step that ended last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicDeclaration>,
    /// The producers, in the order in which they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub producers: Vec<Producer>,
    /// The consumers, in the order in which they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<Consumer>,
    /// The secrets that its scripts may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The text that it was made from, if that is JavaScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Cached results of [`Definition::graph`] and [`Definition::handler`].
    #[serde(skip)]
    pub kept: Kept,
}

/// One output of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub name: String,
    /// The value. Its texts may be templates.
    pub source: Value,
}

/// A trigger, which starts a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// The id, unique in the workflow.
    pub id: String,
    /// When it starts the workflow.
    #[serde(flatten)]
    pub kind: TriggerKind,
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// When a trigger starts its workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TriggerKind {
    /// By a rule, with the options of a schedule.
    Schedule {
        /// The rule and its options, as written. See [`Definition::declaration`].
        declaration: Map<String, Value>,
    },
    /// When a person starts it.
    Manual,
    /// When somebody calls its URL.
    Webhook {
        /// The name of the secret that callers sign with. Without one, calls are not signed, and
        /// anyone who knows the URL may call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// The payload of the run, made from `input.body` and `input.headers`; the body if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
        /// The topic to which the body is published instead of starting a run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        publish: Option<String>,
    },
    /// When an event is published to a topic.
    Event {
        topic: String,
        /// An expression over `event` that says whether the event starts the workflow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        /// The payload of the run, made from `event`; the event's payload if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
}

/// One step of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The id, unique in the workflow.
    pub id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Steps that must have ended before this one begins. A step without dependencies begins with
    /// the run, unless a gateway leads to it or an `on_error` names it: then it begins only by that
    /// jump.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// An expression, evaluated when all dependencies have ended. If it does not hold, the step is
    /// skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    pub action: Action,
    /// How often the step is attempted.
    pub retry: StepRetry,
    /// The timeout of one attempt; `None` for steps that only wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
    /// What happens when the last attempt has failed.
    pub on_error: OnError,
    /// Whether doing it twice is harmless. It decides what happens to an attempt whose node is
    /// dead.
    pub idempotent: bool,
    /// The compensation: what undoes the step if it is done and the run does not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Box<Compensation>>,
    /// The reconciliation: what finds out whether the step was done if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Box<Action>>,
    /// By when the step should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

/// The action that undoes a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compensation {
    /// The action, which a node or a worker performs.
    pub action: Action,
    /// How often it is attempted.
    pub retry: StepRetry,
    /// The timeout of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<SignedDuration>,
}

/// How often a step is attempted, and how long it waits in between.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRetry {
    /// The maximum number of attempts, including the first one.
    pub max: u32,
    /// The wait after the first attempt.
    pub delay: SignedDuration,
    /// The factor by which each further wait grows.
    pub factor: f64,
    /// The longest wait; ten times `delay` if omitted.
    pub max_delay: SignedDuration,
    /// Whether the definition does not mention retries. A schedule that retries whole runs then
    /// replaces these retries.
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
    /// The retries of a step that does not mention them: three attempts if a second one does no
    /// harm, otherwise one. `idempotent` is what the step says about itself.
    pub fn unwritten(action: &Action, idempotent: Option<bool>) -> StepRetry {
        let is_safe = idempotent.unwrap_or_else(|| action.is_safe_to_repeat());
        let max = if is_safe { 3 } else { 1 };
        StepRetry { max, by_default: true, ..StepRetry::default() }
    }
}

/// What happens when a step has finally failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The run fails with the step.
    #[default]
    FailProcess,
    /// The step counts as skipped, and the run continues.
    SkipStep,
    /// The run continues with this step, regardless of its dependencies. If it has ended before, it
    /// and all that depends on it are done again.
    GotoStep(String),
}

impl Definition {
    /// A definition with these steps and nothing else.
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

    /// The topics that its steps publish to.
    pub fn published_topics(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| {
            let action = match &step.action {
                Action::ForEach(each) => &each.action,
                action => action,
            };
            match action {
                Action::Publish(publish) => Some(publish.topic.as_str()),
                _ => None,
            }
        })
    }

    /// Whether the clock of one of its deadlines can be stopped.
    pub fn has_pausable_deadline(&self) -> bool {
        let steps = self.steps.iter().filter_map(|step| step.deadline.as_ref());
        self.deadline.iter().chain(steps).any(|deadline| deadline.pausable)
    }

    /// The declaration of a trigger's schedule: its own fields, with the definition's zone and
    /// calendar where it names none. `calendar: null` in a trigger means no calendar at all.
    pub fn declaration(&self, trigger: &Trigger) -> Option<Map<String, Value>> {
        let TriggerKind::Schedule { declaration } = &trigger.kind else { return None };
        let defaults = [("timezone", &self.timezone), ("calendar", &self.calendar)];
        Some(with_defaults(declaration.clone(), defaults))
    }
}

/// Fills in fields that a declaration does not contain.
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
    /// The wait before attempt number `attempt`; 2 is the first retry.
    pub fn delay_before(&self, attempt: u32) -> SignedDuration {
        let exponent = i32::try_from(attempt.saturating_sub(2)).unwrap_or(i32::MAX).min(64);
        let factor = self.factor.max(1.0).powi(exponent);
        let seconds = self.delay.as_secs_f64() * factor;
        let seconds = seconds.min(self.max_delay.as_secs_f64());
        SignedDuration::try_from_secs_f64(seconds).unwrap_or(self.max_delay)
    }
}
