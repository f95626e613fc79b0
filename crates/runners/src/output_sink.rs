//! A listener that receives the output of a command while the command runs.

use std::fmt;
use std::sync::Arc;

/// The stream that a command wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

type SinkFn = dyn Fn(Stream, &[u8]) + Send + Sync;

/// Receives output as the command writes it. Chunks may end anywhere and contain secrets. The
/// listener must be quick, because the command waits for it.
#[derive(Clone)]
pub struct OutputSink(Arc<SinkFn>);

impl OutputSink {
    /// A listener that calls this function with each chunk.
    pub fn new(hears: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> OutputSink {
        OutputSink(Arc::new(hears))
    }

    pub(crate) fn hear(&self, stream: Stream, bytes: &[u8]) {
        (self.0)(stream, bytes);
    }
}

impl fmt::Debug for OutputSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutputSink")
    }
}
