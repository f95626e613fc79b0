//! A bounded queue of spans that wait to be sent.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::trace::Span;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How many spans may wait: some tens of megabytes if each carries an error. Further spans are
/// dropped.
const MOST_WAITING: usize = 16_384;
/// How many spans are sent together.
pub(super) const BATCH: usize = 512;
/// How long a batch that is not full waits for more spans.
const LINGER: Duration = Duration::from_secs(1);

/// The queue between the commits that end runs and attempts, and the exporter.
#[derive(Debug, Default)]
pub(crate) struct SpanQueue {
    waiting: Mutex<Vec<Span>>,
    /// Notified when the first span comes, or when a batch is full.
    more: Notify,
    dropped: Counter,
}

impl SpanQueue {
    /// `dropped` counts the spans for which there is no room.
    pub(crate) fn new(dropped: Counter) -> SpanQueue {
        SpanQueue { dropped, ..SpanQueue::default() }
    }

    /// Takes as many spans as there is room for.
    pub(crate) fn put(&self, mut spans: Vec<Span>) {
        if spans.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        let room = MOST_WAITING.saturating_sub(waiting.len());
        self.drop_beyond(&mut spans, room);
        let before = waiting.len();
        waiting.append(&mut spans);
        let is_news = before == 0 || (before < BATCH && waiting.len() >= BATCH);
        drop(waiting);
        if is_news {
            self.more.notify_one();
        }
    }

    fn drop_beyond(&self, spans: &mut Vec<Span>, room: usize) {
        let surplus = spans.len().saturating_sub(room);
        self.dropped.inc_by(surplus as u64);
        spans.truncate(room);
    }

    /// The next batch, when it is full or has waited long enough. Empty after `stop`, when no spans
    /// are left.
    pub(super) async fn next(&self, stop: &CancellationToken) -> Vec<Span> {
        while self.waiting().is_empty() && !stop.is_cancelled() {
            tokio::select! {
                () = self.more.notified() => {}
                () = stop.cancelled() => {}
            }
        }
        let lingering = async {
            while self.waiting().len() < BATCH {
                self.more.notified().await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(LINGER, lingering) => {}
            () = stop.cancelled() => {}
        }
        let mut waiting = self.waiting();
        let count = waiting.len().min(BATCH);
        waiting.drain(..count).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
