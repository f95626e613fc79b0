//! Sends spans to a collector, in batches.

use std::sync::Arc;
use std::time::Duration;

use engine::trace::Span;
use prometheus_client::metrics::counter::Counter;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::otlp;
use super::queue::SpanQueue;
use super::target::TraceTarget;

/// How long the exporter waits for the collector's response.
const ANSWER: Duration = Duration::from_secs(10);
/// A batch that the collector does not accept is sent again after this pause, doubled each time up
/// to `LAST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// How many times a batch is sent at most: later spans matter more.
const TRIES: u32 = 6;

/// Sends the spans of a queue to a collector.
pub(crate) struct Exporter {
    client: Client,
    target: TraceTarget,
    node: String,
    queue: Arc<SpanQueue>,
    exported: Counter,
    dropped: Counter,
    /// Whether the last batch was not accepted, and that was logged.
    is_failing: bool,
}

/// Why the collector did not accept a batch.
enum NotTaken {
    /// The collector may accept the batch later, after this pause if it names one.
    Yet(String, Option<Duration>),
    /// The collector will never accept the batch.
    Ever(String),
}

impl Exporter {
    /// Sends the spans of `queue` to `target`. Both counters count spans.
    pub(crate) fn new(
        target: TraceTarget,
        node: &str,
        queue: Arc<SpanQueue>,
        exported: Counter,
        dropped: Counter,
    ) -> Result<Exporter, reqwest::Error> {
        let client = runners::http_client()
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(target.headers.clone())
            .build()?;
        let node = node.to_owned();
        Ok(Exporter { client, target, node, queue, exported, dropped, is_failing: false })
    }

    /// Sends batches until `stop` is cancelled, and then once more what is left.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let batch = self.queue.next(&stop).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(batch, &stop).await;
        }
    }

    async fn deliver(&mut self, batch: Vec<Span>, stop: &CancellationToken) {
        let count = batch.len() as u64;
        let export = otlp::export(&self.target.service, &self.node, batch);
        let body = bytes::Bytes::from(export.encode_to_vec());
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=TRIES {
            let why = match self.send(body.clone()).await {
                Ok(()) => {
                    self.taken(count);
                    return;
                }
                Err(NotTaken::Ever(why)) => return self.given_up(count, &why),
                Err(NotTaken::Yet(why, _)) if attempt == TRIES || stop.is_cancelled() => {
                    return self.given_up(count, &why);
                }
                Err(NotTaken::Yet(why, wanted)) => {
                    pause = pause.max(wanted.unwrap_or_default()).min(LAST_PAUSE);
                    why
                }
            };
            tracing::debug!(why, "spans were not taken: again in {pause:?}");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Try once more, at once.
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn send(&self, body: bytes::Bytes) -> Result<(), NotTaken> {
        let kind = HeaderValue::from_static("application/x-protobuf");
        let request = self.client.post(self.target.url.clone()).header(CONTENT_TYPE, kind);
        let answer = request.body(body).send().await;
        // The URL may contain a key, so it is left out of the error.
        let answer =
            answer.map_err(|error| NotTaken::Yet(error.without_url().to_string(), None))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let why = format!("the collector answers {status}");
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Err(if is_busy { NotTaken::Yet(why, retry_after(&answer)) } else { NotTaken::Ever(why) })
    }

    fn taken(&mut self, count: u64) {
        self.exported.inc_by(count);
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("spans are taken again");
        }
    }

    fn given_up(&mut self, count: u64, why: &str) {
        self.dropped.inc_by(count);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(why, spans = count, "spans are lost; runs are not concerned");
        }
    }
}

/// The pause the collector asks for in `Retry-After`, in seconds; a date is ignored.
fn retry_after(answer: &Response) -> Option<Duration> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
