//! **What now?** Pure decisions: state, input and the moment in; writes, effects and reasons out.
//!
//! | for | see |
//! |---|---|
//! | schedules: occurrences, overlap, retries, pause and resume | [`schedule`] |
//! | runs: steps, attempts, cancel, timeout | [`run`] |
//! | topics and events; producers and consumers | [`topics`], [`handlers`] |
//! | one transaction: from inputs to everything that is written | [`turn`] |
//! | which trace a run is in, and its spans | [`trace`] |
//! | what fails and is told, until it succeeds again | [`incidents`], [`notices`] |
//! | why something ran or did not | [`ledger`], [`explain`] |
//!
//! No clock, IO, SQL, async or randomness: `now` is in the [`Moment`], ids of runs are given by the
//! store, what has to be done outside is returned as [`turn::Effect`]s.
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
pub mod topics;
pub mod trace;
pub mod turn;

pub use ids::{
    EventKey, HandlerId, IncidentKey, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId,
};
pub use moment::Moment;
