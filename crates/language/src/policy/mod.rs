//! Policies: each one small file, with its table of cases as its test.

pub mod overlap;
pub mod retry;
