//! Traces over OTLP: what has ended becomes spans, which are sent in batches, beside the driver. Nothing waits for
//! them, and nothing but spans is lost with them.

mod exporter;
mod otlp;
mod queue;
mod target;

pub(crate) use exporter::Exporter;
pub(crate) use queue::SpanQueue;
pub use target::{TraceTarget, TraceTargetError};
