//! The interface through which a script calls its host.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Answers a script's calls. Each call has already been checked against the phase's
/// [`Permits`](super::Permits).
pub trait ScriptWorld: Send + Sync {
    /// Called with each line that the script logs. All lines are also returned when the phase ends.
    fn says(&self, _line: &str) {}

    /// Masks the secrets in a text. The caller masks a text before cutting it, so that no part of a
    /// secret remains.
    fn masked(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Performs an HTTP request. Nodes use [`Runners::fetch`](crate::Runners::fetch).
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

/// An HTTP request with a method that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    pub url: String,
    /// `GET`, `HEAD` or `OPTIONS`.
    pub method: String,
    pub headers: BTreeMap<String, String>,
}

/// An HTTP response, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchAnswer {
    pub status: u16,
    /// Headers by their names in lower case. Cookies are removed.
    pub headers: BTreeMap<String, String>,
    /// The body as text; bytes that are not valid UTF-8 are replaced.
    pub body: String,
}

/// Why the host could not answer. The script gets an error that it may catch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorldFailure {
    /// A retry may succeed: the network, a peer or the store failed.
    Transient(String),
    /// A retry would fail again: a wrong URL, or a topic that is not declared.
    Logic(String),
}
