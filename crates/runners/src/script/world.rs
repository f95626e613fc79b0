//! What a script may ask of its host.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers what a script asks. Every call has been checked against the phase's permits.
pub trait ScriptWorld: Send + Sync {
    /// The script logs a line. All of them are given again at its end.
    fn says(&self, _line: &str) {}

    /// A text of the script without secrets: masked before it is cut.
    fn masked(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Reads from outside. [`Runners::fetch`](crate::Runners::fetch) is the real one.
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>>;

    /// The first pending events of a topic, as a JSON list.
    fn peek(&self, topic: String, limit: u32) -> BoxFuture<'_, Result<Value, WorldFailure>>;

    /// The events of a topic with these ids, as a JSON list.
    fn get_by_ids(
        &self,
        topic: String,
        ids: Vec<String>,
    ) -> BoxFuture<'_, Result<Value, WorldFailure>>;
}

/// A request that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// Where to.
    pub url: String,
    /// `GET`, `HEAD` or `OPTIONS`.
    pub method: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
}

/// An answer, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers, by names in lower case. Cookies are not among them.
    pub headers: BTreeMap<String, String>,
    /// Its body as text; what is no UTF-8 is replaced.
    pub body: String,
}

/// Why the host has no answer. The script sees an error that it may catch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldFailure {
    /// Later it may work: the network, a peer, a store.
    Transient(String),
    /// It will never work: a wrong URL, a topic that is not declared.
    Logic(String),
}
