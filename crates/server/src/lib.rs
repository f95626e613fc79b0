//! A Punctual node: the driver, the HTTP API, the pages, metrics, and the clock.
#![forbid(unsafe_code)]

mod agents;
mod alarm;
mod clock;
mod dispatch;
mod driver;
mod handout;
pub mod http;
mod hub;
mod lease;
mod live;
pub mod maintenance;
mod metrics;
mod notice_log;
mod own_calendars;
mod pages;
mod payload;
mod readiness;
mod scripts;
mod secrets;
pub mod serve;
mod sources;
mod traces;
mod unreachable;
mod waiting;
pub mod webhooks;

pub use agents::{Agent, AgentError};
pub use clock::{Clock, OffsetClock, Stopwatch, SystemClock};
pub use dispatch::{Commands, Dispatch, RunnerDispatch, SharedDispatch, Trusted};
pub use driver::{CLAIMED, Driver, Taken};
pub use http::access::token_weakness;
pub use hub::{DriverSignal, Hub};
pub use lease::Renewals;
pub use metrics::Metrics;
pub use own_calendars::declare_calendars;
pub use secrets::{Secrets, SecretsError, secrets_in_address, secrets_in_channel, shown_address};
pub use sources::{Form, Source, SourceError};
pub use traces::{TraceTarget, TraceTargetError};
