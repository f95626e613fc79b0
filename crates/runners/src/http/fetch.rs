//! HTTP requests of scripts: they only read, and a response of any status counts as an answer.

use std::time::Duration;

use language::definition::HttpAction;
use reqwest::Method;

use super::Sender;
use super::outgoing::Outgoing;
use crate::Ended;
use crate::script::{FetchAnswer, FetchRequest, WorldFailure};

/// The longest response: it fits into a script's heap a few times.
const MAX_BYTES: u64 = 1 << 20;
const REDIRECTS: u8 = 5;
/// Short in comparison with a phase, which has a few minutes for all its requests.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Sender {
    /// Sends a request that changes nothing, if the egress policy admits its target.
    pub(crate) async fn fetch(&self, request: FetchRequest) -> Result<FetchAnswer, WorldFailure> {
        let method = match request.method.as_str() {
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            "OPTIONS" => Method::OPTIONS,
            _ => {
                let message = "scripts send GET, HEAD and OPTIONS only".to_owned();
                return Err(WorldFailure::Logic(message));
            }
        };
        let action = HttpAction {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: None,
            expect: Vec::new(),
            redirects: REDIRECTS,
            max_bytes: MAX_BYTES,
        };
        let outgoing = Outgoing::reading(&action, method, &self.mask).map_err(failure)?;
        let what = outgoing.to_string();
        let answer = tokio::time::timeout(TIMEOUT, self.answer(outgoing, &action));
        let Ok(answered) = answer.await else {
            let message = format!("{what} had no full answer within {TIMEOUT:?}");
            return Err(WorldFailure::Transient(message));
        };
        let (outgoing, answer) = answered.map_err(failure)?;
        answer.fetched().ok_or_else(|| {
            let message = format!(
                "the answer to {outgoing} has more than the {MAX_BYTES} bytes that a script may \
                 fetch; ask for less"
            );
            WorldFailure::Logic(message)
        })
    }
}

/// Maps a failure: one that a retry may avoid is transient; any other is a mistake in the script.
fn failure(ended: Ended) -> WorldFailure {
    match ended {
        Ended::Failed { message, retryable: false, .. } => WorldFailure::Logic(message),
        Ended::Failed { message, .. }
        | Ended::TimedOut { message }
        | Ended::Cancelled { message } => WorldFailure::Transient(message),
        Ended::Succeeded { .. } => WorldFailure::Logic("an answer to nothing".to_owned()),
    }
}
