//! The clock of the machine that a node runs on. A shared store compares it with the database's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// What the machine's clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, without any correction. It may be wrong, and somebody may set it.
    pub wall: Timestamp,
    /// The monotonic clock, since some fixed moment. Nobody can set it.
    pub monotonic: Duration,
}

/// Reads the machine's clocks. The server gives it to the store, which reads no clock itself.
pub type MachineClock = Arc<dyn Fn() -> Reading + Send + Sync>;
