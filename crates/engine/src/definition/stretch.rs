//! A stretch of time, of the wall clock or of working hours.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// `3h`, `16 working hours`, `2 working days`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stretch {
    /// By the wall clock.
    Elapsed(SignedDuration),
    /// Of working hours.
    Working(SignedDuration),
    /// Working days, each as long as the calendar says.
    WorkingDays(f64),
}
