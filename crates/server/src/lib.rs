//! The edges: driver, API, metrics, and the clock.
#![forbid(unsafe_code)]
