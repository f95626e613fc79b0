//! Pages, as a browser without a script sees them.

mod schedules;
