//! Pages, as a browser without a script sees them.

mod approvals;
mod browser;
mod runs;
mod schedules;
mod workflows;
