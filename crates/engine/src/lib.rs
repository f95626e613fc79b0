//! **What now?** Pure decisions: state, input and the moment in; writes, effects and reasons out.
#![forbid(unsafe_code)]

pub mod definition;
