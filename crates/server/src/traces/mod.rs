//! Traces over OTLP: ended runs and attempts become spans, which a task sends in batches beside the
//! driver. Nothing waits for them, and a failure loses nothing but spans.

mod exporter;
mod otlp;
mod queue;
mod target;

pub(crate) use exporter::Exporter;
pub(crate) use queue::SpanQueue;
pub use target::{TraceTarget, TraceTargetError};
