//! Nodes: how they join, keep their leases and hear of each other.

pub(crate) mod clock;
pub(crate) mod leases;
pub(crate) mod listen;
pub(crate) mod starting;
