//! **What now?** Pure decisions: they take state, an input and the moment, and return writes,
//! effects and reasons.
//!
//! | for | see |
//! |---|---|
//! | schedules: occurrences, overlap, retries, pause and resume | [`schedule`] |
//! | runs: steps, attempts, cancel, timeout | [`run`] |
//! | topics and events; producers and consumers | [`topics`], [`handlers`] |
//! | one transaction: from inputs to everything that is written | [`turn`] |
//! | the trace of a run, and its spans | [`trace`] |
//! | failures that people are notified of, until a success | [`incidents`], [`notices`] |
//! | why something ran or did not | [`ledger`], [`explain`] |
//!
//! The engine has no clock, IO, SQL, async or randomness: `now` comes with the [`Moment`], the
//! store assigns the keys of runs, and outside work is returned as [`turn::Effect`]s.
#![forbid(unsafe_code)]

pub mod explain;
pub mod handlers;
mod ids;
pub mod incidents;
pub mod ledger;
mod moment;
pub mod notices;
pub mod run;
pub mod schedule;
mod stop;
pub mod topics;
pub mod trace;
pub mod turn;

pub use ids::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
pub use moment::Moment;
pub use stop::Stop;
