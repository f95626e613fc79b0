//! Pages, as a browser without scripts sees them.

mod approvals;
mod browser;
mod runs;
mod schedules;
mod workflows;
