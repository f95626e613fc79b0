//! Workflows, runs, calendars and figures.

mod calendars;
mod hostile;
mod runs;
mod steps;
mod upkeep;
mod workflows;
