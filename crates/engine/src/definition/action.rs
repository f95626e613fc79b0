//! What a step does, checked: a runner performs exactly this.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
