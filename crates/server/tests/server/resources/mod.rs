//! Workflows, runs, calendars and stats.

mod calendars;
mod hostile;
mod http_steps;
mod maintenance;
mod output;
mod payloads;
mod runs;
mod secrets;
mod steps;
mod workflows;
