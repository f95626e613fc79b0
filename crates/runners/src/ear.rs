//! Who hears what a command writes, while it does.

use std::fmt;
use std::sync::Arc;

/// Where something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

type Hears = dyn Fn(Stream, &[u8]) + Send + Sync;

/// Hears bytes as they come, cut anywhere, secrets included. It must be quick: the command waits.
#[derive(Clone)]
pub struct Ear(Arc<Hears>);

impl Ear {
    /// What is written is given to this.
    pub fn new(hears: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Ear {
        Ear(Arc::new(hears))
    }

    pub(crate) fn hear(&self, stream: Stream, bytes: &[u8]) {
        (self.0)(stream, bytes);
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ear")
    }
}
