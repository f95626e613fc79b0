//! Counts what the node does, and writes the counters for `/metrics`.

use std::time::Duration;

use engine::ledger::Outcome;
use engine::run::{AttemptEnd, RunStatus};
use engine::turn::Notice;
use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::Turned;

use crate::notice_log;

/// Upper bounds of the lateness buckets in seconds. A scheduler on time stays in the first ones.
const LATENESS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];
/// Upper bounds of the buckets for wakeups per transaction.
const BATCH: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0];
/// Upper bounds of the buckets for the duration of a transaction with its commit, in seconds.
const TURN_TIME: [f64; 10] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// The label of attempts that ended well.
const SUCCEEDED: &str = "succeeded";

/// A label whose value is one of our fixed names.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    outcome: Name,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabels {
    status: Name,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Name(&'static str);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.0, encoder)
    }
}

/// The metrics of one node.
#[derive(Debug)]
pub struct Metrics {
    lateness: Histogram,
    batch: Histogram,
    turn_time: Histogram,
    occurrences: Family<Labels, Counter>,
    runs: Family<StatusLabels, Counter>,
    turnings: Family<Labels, Counter>,
    attempts: Counter,
    ended: Family<Labels, Counter>,
    published: Counter,
    consumed: Counter,
    refused: Counter,
    taken_over: Counter,
    renewals_failed: Counter,
    fenced: Counter,
    set_aside: Counter,
    undelivered: Counter,
    connections_refused: Counter,
    spans_exported: Counter,
    spans_dropped: Counter,
    node_attempts: Gauge,
    node_capacity: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            lateness: Histogram::new(LATENESS),
            batch: Histogram::new(BATCH),
            turn_time: Histogram::new(TURN_TIME),
            occurrences: Family::default(),
            runs: Family::default(),
            turnings: Family::default(),
            attempts: Counter::default(),
            ended: Family::default(),
            published: Counter::default(),
            consumed: Counter::default(),
            refused: Counter::default(),
            taken_over: Counter::default(),
            renewals_failed: Counter::default(),
            fenced: Counter::default(),
            set_aside: Counter::default(),
            undelivered: Counter::default(),
            connections_refused: Counter::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            node_attempts: Gauge::default(),
            node_capacity: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Registers all metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        let mut add =
            |name: &str, help: &str, metric: Box<dyn prometheus_client::registry::Metric>| {
                registry.register(name, help, BoxedMetric(metric));
            };
        add("lateness_seconds", "From due to begun", Box::new(self.lateness.clone()));
        add("turn_wakeups", "Wakeups decided in one transaction", Box::new(self.batch.clone()));
        let time = "How long a transaction took that decides, with its commit";
        add("turn_seconds", time, Box::new(self.turn_time.clone()));
        add("occurrences", "Occurrences by outcome", Box::new(self.occurrences.clone()));
        add("runs", "Runs that came to a status", Box::new(self.runs.clone()));
        let turned = "Occurrences that failed for good, schedules that died, were paused by a failure or recovered";
        add("schedule_turnings", turned, Box::new(self.turnings.clone()));
        add("attempts", "Attempts that were begun", Box::new(self.attempts.clone()));
        add("attempts_ended", "Attempts reported, by outcome", Box::new(self.ended.clone()));
        add("events_published", "Events published to topics", Box::new(self.published.clone()));
        add("events_consumed", "Events that are done with", Box::new(self.consumed.clone()));
        add("reports_refused", "Reports that came too late", Box::new(self.refused.clone()));
        add("attempts_taken_over", "Attempts of dead nodes", Box::new(self.taken_over.clone()));
        let failed = "Times that the node's lease could not be renewed";
        add("renewals_failed", failed, Box::new(self.renewals_failed.clone()));
        add("fenced", "Times that this node was taken for dead", Box::new(self.fenced.clone()));
        let aside = "Schedules, runs and handlers that could not be decided, and were set aside";
        add("set_aside", aside, Box::new(self.set_aside.clone()));
        let undelivered = "Messages about deadlines and incidents that were not delivered";
        add("messages_undelivered", undelivered, Box::new(self.undelivered.clone()));
        let refused = "Connections refused because too many were open";
        add("connections_refused", refused, Box::new(self.connections_refused.clone()));
        add("spans_exported", "Spans sent over OTLP", Box::new(self.spans_exported.clone()));
        let lost = "Spans that no collector has taken";
        add("spans_dropped", lost, Box::new(self.spans_dropped.clone()));
        let going_on = "Attempts that this node performs";
        add("node_attempts", going_on, Box::new(self.node_attempts.clone()));
        let capacity = "Attempts that this node performs at most";
        add("node_capacity", capacity, Box::new(self.node_capacity.clone()));
    }

    pub(crate) fn turn(&self, turned: &Turned) {
        if turned.claimed > 0 {
            self.batch.observe(turned.claimed as f64);
        }
        self.refused.inc_by(turned.refused as u64);
        self.taken_over.inc_by(turned.recovered.taken_over);
    }

    /// Records how long a turn took.
    pub(crate) fn turn_took(&self, time: Duration) {
        self.turn_time.observe(time.as_secs_f64());
    }

    /// Counts a reported attempt by how it ended, even if the report came too late.
    pub(crate) fn reported(&self, end: &AttemptEnd) {
        let outcome = match end {
            AttemptEnd::Succeeded { .. } => SUCCEEDED,
            AttemptEnd::Failed { .. } | AttemptEnd::NotAllowed { .. } => "failed",
            AttemptEnd::Cancelled { .. } => "cancelled",
            AttemptEnd::Unknown { .. } => "unknown",
        };
        self.ended.get_or_create(&Labels { outcome: Name(outcome) }).inc();
    }

    /// Counts an attempt that has begun. The first attempt of an occurrence comes with when it was
    /// due.
    pub(crate) fn begun(&self, due: Option<Timestamp>, now: Timestamp) {
        self.attempts.inc();
        if let Some(due) = due {
            self.lateness.observe(now.duration_since(due).as_secs_f64().max(0.0));
        }
    }

    /// Counts attempts that did nothing, each with when its occurrence was due.
    pub(crate) fn begun_and_ended(&self, attempts: &[Option<Timestamp>], now: Timestamp) {
        if attempts.is_empty() {
            return;
        }
        for due in attempts {
            self.begun(*due, now);
        }
        let labels = Labels { outcome: Name(SUCCEEDED) };
        self.ended.get_or_create(&labels).inc_by(attempts.len() as u64);
    }

    /// Sets how many attempts the node performs now.
    pub(crate) fn going_on(&self, attempts: usize) {
        self.node_attempts.set(attempts as i64);
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.node_capacity.set(capacity as i64);
    }

    /// How many attempts the node performs at most.
    pub(crate) fn capacity(&self) -> u64 {
        self.node_capacity.get().unsigned_abs()
    }

    /// The counter of connections refused because the limit was reached.
    pub(crate) fn connections_refused(&self) -> Counter {
        self.connections_refused.clone()
    }

    /// The counters of spans that were sent, and of spans that were dropped.
    pub(crate) fn spans(&self) -> (Counter, Counter) {
        (self.spans_exported.clone(), self.spans_dropped.clone())
    }

    pub(crate) fn renewal_failed(&self) {
        self.renewals_failed.inc();
    }

    pub(crate) fn set_aside(&self) {
        self.set_aside.inc();
    }

    pub(crate) fn fenced(&self) {
        self.fenced.inc();
    }

    pub(crate) fn notices(&self, notices: &[Notice]) {
        // A turn has thousands of these, so each counter is looked up once.
        let mut occurrences = [0; Outcome::ALL.len()];
        let mut runs = [0; RunStatus::ALL.len()];
        for notice in notices {
            match notice {
                Notice::Occurrence { outcome, count, .. } => {
                    occurrences[*outcome as usize] += count
                }
                Notice::Run { status, .. } => runs[*status as usize] += 1,
                Notice::Published { count, .. } => drop(self.published.inc_by(*count as u64)),
                Notice::Consumed { count, .. } => drop(self.consumed.inc_by(*count as u64)),
                Notice::Turning { turning, .. } => {
                    let labels = Labels { outcome: Name(notice_log::name(turning)) };
                    self.turnings.get_or_create(&labels).inc();
                }
                Notice::Undelivered { .. } => drop(self.undelivered.inc()),
                Notice::Schedule { .. }
                | Notice::HandlersPaused { .. }
                | Notice::Workflow { .. }
                | Notice::Output { .. }
                | Notice::Steps { .. }
                | Notice::Queued { .. }
                | Notice::Incident { .. }
                | Notice::Deadline { .. } => {}
            }
        }
        for outcome in Outcome::ALL {
            let count = occurrences[outcome as usize];
            if count > 0 {
                let labels = Labels { outcome: Name(outcome.name()) };
                self.occurrences.get_or_create(&labels).inc_by(count);
            }
        }
        for status in RunStatus::ALL {
            let count = runs[status as usize];
            if count > 0 {
                let labels = StatusLabels { status: Name(status.name()) };
                self.runs.get_or_create(&labels).inc_by(count);
            }
        }
    }
}

/// Lets metrics of different types go through one function.
#[derive(Debug)]
struct BoxedMetric(Box<dyn prometheus_client::registry::Metric>);

impl prometheus_client::encoding::EncodeMetric for BoxedMetric {
    fn encode(
        &self,
        encoder: prometheus_client::encoding::MetricEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        self.0.metric_type()
    }
}
