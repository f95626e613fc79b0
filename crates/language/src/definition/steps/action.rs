//! The checked actions of steps: a runner performs exactly what they say.
//!
//! Texts may contain templates (`{{ … }}`), which are filled in when an attempt begins: see
//! `crate::expression`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::time::TimeSpan;

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Action {
    /// Does nothing: for measuring and for trying out.
    Noop,
    /// Sends one HTTP request.
    Http(HttpAction),
    /// Runs one command on the node.
    Exec(ExecAction),
    /// Queues work for outside workers.
    Worker(WorkerAction),
    /// A task for an agent: a worker step on the queue `agent:{agent}`, or posted to the agent's
    /// URL.
    AgentTask(AgentTask),
    /// Waits for a time.
    Timer(Timer),
    /// Asks a person to decide.
    HumanApproval(HumanApproval),
    /// Chooses which of the steps behind it run.
    Gateway(Gateway),
    /// Notifies people through channels of the node.
    Notification(Notification),
    /// Starts a run of another workflow.
    SubProcess(SubProcess),
    /// Performs an action for each item of a list.
    ForEach(ForEach),
    /// Runs JavaScript in a confined child process.
    Script(ScriptAction),
    Publish(Publish),
    /// Waits for an event.
    WaitFor(WaitFor),
    /// Performs the mutation that a consumer's mutate phase asks for. It cannot be written in a
    /// definition.
    Mutation,
}

/// The idempotent methods of RFC 9110, section 9.2.2.
const IDEMPOTENT_METHODS: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

impl Action {
    /// Whether a failed attempt can be retried without doing anything twice. That is unknown for a
    /// command, for the work of a worker or an agent, and for a request with another method. A run
    /// that a step starts has its own retries.
    pub fn is_safe_to_repeat(&self) -> bool {
        match self {
            Action::Http(http) => IDEMPOTENT_METHODS.contains(&http.method.as_str()),
            // A script has no effects. An event that is published again has the same id, and a
            // message that arrives twice does less harm than one that does not arrive.
            Action::Noop | Action::Script(_) | Action::Publish(_) | Action::Notification(_) => true,
            Action::Gateway(_) | Action::Timer(_) => true,
            Action::HumanApproval(_) | Action::WaitFor(_) => true,
            Action::Exec(_) | Action::Worker(_) | Action::AgentTask(_) => false,
            Action::SubProcess(_) | Action::Mutation => false,
            Action::ForEach(each) => each.action.is_safe_to_repeat(),
        }
    }

    /// The name in a definition.
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
    /// The queue from which workers claim it.
    pub queue: String,
    /// The worker's input; the run's input if omitted. Its texts may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// A task for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentTask {
    pub agent: String,
    /// The task in words. A template.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl AgentTask {
    /// The queue of the agent.
    pub fn queue(&self) -> String {
        format!("agent:{}", self.agent)
    }
}

/// How long a timer waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timer {
    /// The timer waits for this duration.
    Delay(TimeSpan),
    /// For a duration that a template yields.
    DelayBy(String),
    /// Until this time: with its zone, a time of day in the workflow's zone, or a template that
    /// yields one.
    Until(String),
}

/// A request for a person's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HumanApproval {
    /// One line. A template.
    pub title: String,
    /// The full text. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may decide; if empty, anyone with the permission to decide. Templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
}

/// Chooses which of the steps behind it run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// How many routes are taken.
    pub kind: GatewayKind,
    /// The routes in the order in which they are tried. Their targets depend on the gateway.
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
    /// The gateway takes all its routes.
    Parallel,
    /// All routes whose conditions hold.
    Inclusive,
}

/// A route from a gateway to a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// An expression that says whether the route is taken. Without one, the condition always holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The id of the target step.
    pub target: String,
}

/// A message to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    pub to: Vec<Channel>,
    /// One line, for channels that have a subject. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text. A template.
    pub message: String,
    /// JSON that a webhook receives beside the message. Its strings may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A way to notify somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A signed POST to this URL.
    Webhook(String),
    /// A message to this address.
    Email(String),
    /// A POST to this URL, in the format that Slack accepts.
    Slack(String),
}

/// Starts a run of another workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubProcess {
    /// The name of the workflow.
    pub workflow: String,
    /// The payload of the child run, key by key; this run's payload if omitted. Its texts may be
    /// templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mapping: Option<BTreeMap<String, Value>>,
    /// The key under which the step's output holds the child's output. If omitted, the step's
    /// output is the child's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_key: Option<String>,
    /// Whether the step ends with the end of the child, or with its start.
    pub wait_for_completion: bool,
}

/// Performs an action for each item of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    /// A list, or a template that yields one.
    pub items: Value,
    /// The action for each item. Its templates see `item` and `index`.
    pub action: Box<Action>,
    /// How many items are active at a time; 100 if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptAction {
    /// The body of an async function of `ctx`, `input` and `steps`, or of a handler's arguments. If
    /// omitted, the function at `entry` in the definition's own script is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The path to the function: `producers`, `pollEmail`, `handler`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entry: Vec<String>,
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publish {
    /// A topic that the definition declares.
    pub topic: String,
    /// The message id, unique in the topic; derived from the run and the step if omitted. A
    /// template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// One line. A template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The payload; the run's payload if omitted. Its texts may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// An event that a step waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitFor {
    /// A topic that the definition declares.
    pub topic: String,
    /// An expression over `event` and the run's values that says whether the event matches. If
    /// omitted, any event does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The step fails if no event has come within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<TimeSpan>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpAction {
    /// The method in upper case: `GET`, `POST`, …
    pub method: String,
    /// A URL that begins with `http://` or `https://`.
    pub url: String,
    /// Header names and values, as sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, anything else as JSON. Without one, a method that has a
    /// body sends the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Statuses that count as success; empty means 200 to 299.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<u16>,
    /// The maximum number of redirects.
    #[serde(default)]
    pub redirects: u8,
    /// The maximum number of bytes of a response, counted after decompression.
    pub max_bytes: u64,
}

/// One command, without a shell unless the definition names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecAction {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides the few that every command gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working directory; the node's own if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The standard input; the run's input as JSON if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The maximum number of bytes that are kept of stdout and of stderr each.
    pub max_output: u64,
}
