//! Sends spans, batch by batch, to a collector.

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

/// A collector that does not answer is not waited for longer.
const ANSWER: Duration = Duration::from_secs(10);
/// A batch that is not taken is sent again after this, doubled each time up to the limit.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// A batch is sent so often at most: what comes after it matters more.
const TRIES: u32 = 6;

/// What sends spans.
pub(crate) struct Exporter {
    client: Client,
    target: TraceTarget,
    node: String,
    queue: Arc<SpanQueue>,
    exported: Counter,
    dropped: Counter,
    /// Whether the last batch was not taken, and somebody was told.
    is_failing: bool,
}

/// Why a batch was not taken.
enum NotTaken {
    /// It may be, later; not before this pause, if the collector says so.
    Yet(String, Option<Duration>),
    /// It will not be.
    Ever(String),
}

impl Exporter {
    /// Spans of the queue go to the target. Both counters count spans.
    pub(crate) fn new(
        target: TraceTarget,
        node: &str,
        queue: Arc<SpanQueue>,
        exported: Counter,
        dropped: Counter,
    ) -> Result<Exporter, reqwest::Error> {
        let client = Client::builder()
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(target.headers.clone())
            .build()?;
        let node = node.to_owned();
        Ok(Exporter { client, target, node, queue, exported, dropped, is_failing: false })
    }

    /// Sends until it is told to stop, and then once more what is left.
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
                // Once more, at once.
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn send(&self, body: bytes::Bytes) -> Result<(), NotTaken> {
        let kind = HeaderValue::from_static("application/x-protobuf");
        let request = self.client.post(self.target.url.clone()).header(CONTENT_TYPE, kind);
        let answer = request.body(body).send().await;
        // A key may be in the URL.
        let answer =
            answer.map_err(|error| NotTaken::Yet(error.without_url().to_string(), None))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let why = format!("the collector answers {status}");
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Err(match is_busy {
            true => NotTaken::Yet(why, retry_after(&answer)),
            false => NotTaken::Ever(why),
        })
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

/// How long a collector wants to be left alone; a date is not understood.
fn retry_after(answer: &Response) -> Option<Duration> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
