//! What the fuzz targets share: a world to place rules in, generated declarations, and what must
//! hold for every rule that is accepted.
#![forbid(unsafe_code)]

pub mod invariants;
pub mod plan;
pub mod world;
