//! Declarations of schedules: their keys, their text, and the plan that follows from them.

mod declared;
pub(crate) mod keys;
mod written;

pub use declared::{
    DEFAULT_MAX_RETRIES, DEFAULT_QUEUE_LIMIT, DEFAULT_TIMEOUT_SECONDS, Declared, LARGEST_PAYLOAD,
    LARGEST_QUEUE, Plan, interval,
};
pub use written::{Written, is_read_only, patch, read_written};
