//! Nodes: how one starts after an early death.

pub(crate) mod starting;
