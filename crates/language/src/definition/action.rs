//! What a step does, checked: a runner performs exactly this.
//!
//! Texts may hold templates (`{{ … }}`), which are filled in when an attempt begins: see `crate::expression`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stretch::Stretch;

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Action {
    /// Nothing: for measuring and for trying out.
    Noop,
    /// One HTTP request.
    Http(HttpAction),
    /// One command.
    Exec(ExecAction),
    /// Queued by name for outside workers.
    Worker(WorkerAction),
    /// A task for an agent: a worker step on the queue `agent:{agent}`, or posted to the agent's URL.
    AgentTask(AgentTask),
    /// It waits.
    Timer(Timer),
    /// A person decides.
    HumanApproval(HumanApproval),
    /// Which of the steps behind it run.
    Gateway(Gateway),
    /// Somebody is told.
    Notification(Notification),
    /// A run of another workflow.
    SubProcess(SubProcess),
    /// The same over a list.
    ForEach(ForEach),
    /// Sandboxed JavaScript.
    Script(ScriptAction),
    /// An event is published.
    Publish(Publish),
    /// It waits for an event.
    WaitFor(WaitFor),
    /// What the phase before it asks for: the outside mutation of a consumer. Nobody writes it in a definition.
    Mutation,
}

/// RFC 9110, section 9.2.2.
const IDEMPOTENT_METHODS: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

impl Action {
    /// Whether a failed attempt can be followed by another without anything being done twice. Nobody knows that of a
    /// command, of what a worker or an agent does, or of a request with another method; a run that it starts has retries
    /// of its own.
    pub fn is_safe_to_repeat(&self) -> bool {
        match self {
            Action::Http(http) => IDEMPOTENT_METHODS.contains(&http.method.as_str()),
            // A script has no effects. An event that is published again has the same id, and a message to
            // people that arrives twice does less harm than one that does not arrive.
            Action::Noop | Action::Script(_) | Action::Publish(_) | Action::Notification(_) => true,
            Action::Gateway(_) | Action::Timer(_) => true,
            Action::HumanApproval(_) | Action::WaitFor(_) => true,
            Action::Exec(_) | Action::Worker(_) | Action::AgentTask(_) => false,
            Action::SubProcess(_) | Action::Mutation => false,
            Action::ForEach(each) => each.action.is_safe_to_repeat(),
        }
    }

    /// As it is written.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Noop => "noop",
            Action::Http(_) => "http",
            Action::Exec(_) => "exec",
            Action::Worker(_) => "worker",
            Action::AgentTask(_) => "agent_task",
            Action::Timer(_) => "timer",
            Action::HumanApproval(_) => "human_approval",
            Action::Gateway(_) => "gateway",
            Action::Notification(_) => "notification",
            Action::SubProcess(_) => "sub_process",
            Action::ForEach(_) => "for_each",
            Action::Script(_) => "script",
            Action::Publish(_) => "publish",
            Action::WaitFor(_) => "wait_for",
            Action::Mutation => "mutation",
        }
    }
}

/// Work for an outside worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerAction {
    /// Who takes it.
    pub queue: String,
    /// What it works on; the run's input if left out. Texts in it may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// A task for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentTask {
    /// Which agent.
    pub agent: String,
    /// What it is asked. A template.
    pub message: String,
    /// With which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl AgentTask {
    /// The queue of its agent.
    pub fn queue(&self) -> String {
        format!("agent:{}", self.agent)
    }
}

/// How long a timer waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timer {
    /// So long.
    Delay(Stretch),
    /// So long, by a template that yields a duration.
    DelayBy(String),
    /// Until then: a time with its zone, a time of a day in the workflow's zone, or a template that yields one.
    Until(String),
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HumanApproval {
    /// In a line. A template.
    pub title: String,
    /// In full. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may decide; anyone who may decide at all, if empty. Templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
}

/// Which of the steps behind it run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// How many routes are taken.
    pub kind: GatewayKind,
    /// In the order in which they are tried. Their targets depend on the gateway.
    pub routes: Vec<Route>,
    /// The target if no condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<String>,
}

/// How many routes a gateway takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayKind {
    /// The first whose condition holds.
    #[default]
    Exclusive,
    /// All of them.
    Parallel,
    /// All whose conditions hold.
    Inclusive,
}

/// A way on from a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Whether it is taken: an expression. Without one it always may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The id of the step it leads to.
    pub target: String,
}

/// Somebody is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// Whom, and how.
    pub to: Vec<Channel>,
    /// In a line, where the channel has one. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What. A template.
    pub message: String,
    /// JSON that a webhook receives beside the message. Its strings may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A way to tell somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A signed POST to this URL.
    Webhook(String),
    /// A message to this address.
    Email(String),
    /// A text to this URL, in the shape that Slack takes.
    Slack(String),
}

/// A run of another workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubProcess {
    /// Its name.
    pub workflow: String,
    /// Its payload, key by key; this run's payload if left out. Texts in it may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mapping: Option<BTreeMap<String, Value>>,
    /// The step's output holds the child's under this key; it is the child's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_key: Option<String>,
    /// Whether the step ends with the child, or with its start.
    pub wait_for_completion: bool,
}

/// The same over a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    /// A list, or a template that yields one.
    pub items: Value,
    /// What is done with each: `item` and `index` are known in its templates.
    pub action: Box<Action>,
    /// How many at a time; 100 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

/// Sandboxed JavaScript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptAction {
    /// The body of an async function of `ctx`, `input` and `steps`, or of a handler's arguments; what is found at
    /// `entry` in the definition's own script, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The way to the function: `producers`, `pollEmail`, `handler`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entry: Vec<String>,
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publish {
    /// To which topic: one that the definition declares.
    pub topic: String,
    /// What tells it from others in its topic; the step of the run, if left out. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// In a line. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it says; the run's payload if left out. Texts in it may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitFor {
    /// An event on this topic: one that the definition declares.
    pub topic: String,
    /// Whether it is the one: an expression over `event` and what else the run knows. Any is, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The step fails if none has come in so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Stretch>,
}

/// One HTTP request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpAction {
    /// `GET`, `POST`, …: upper case.
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    /// Header names and values, as sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, anything else as JSON. Without one, a method that has a
    /// body sends the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Statuses that are a success; empty means 200 to 299.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<u16>,
    /// How many redirects are followed.
    #[serde(default)]
    pub redirects: u8,
    /// The most bytes of an answer, counted after decompression.
    pub max_bytes: u64,
}

/// One command, without a shell unless asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecAction {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides the few that every command gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it runs; the node's own folder if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What it reads; the run's input as JSON if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The most bytes of output that are kept, of stdout and stderr each.
    pub max_output: u64,
}
