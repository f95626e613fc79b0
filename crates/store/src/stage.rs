//! The stages of a turn, told to whoever measures what each of them costs.

/// The target of the events that say that a stage is over.
pub const STAGE_TARGET: &str = "store::stage";

/// A stage of a turn. A thread goes through them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Due wakeups were claimed; on PostgreSQL everything that they need was loaded and locked.
    Claimed,
    /// The engine decided. On SQLite it has looked up rows meanwhile.
    Decided,
    /// The writes were encoded; on SQLite they were executed as well.
    Written,
    /// The transaction was committed; on PostgreSQL its statements were sent and answered.
    Committed,
}

impl Stage {
    pub const ALL: [Stage; 4] = [Stage::Claimed, Stage::Decided, Stage::Written, Stage::Committed];

    /// Tells that this thread has come to the end of the stage. It costs next to nothing unless
    /// somebody listens.
    pub(crate) fn is_over(self) {
        tracing::trace!(target: STAGE_TARGET, stage = self as u64);
    }
}
