//! Worlds on a real PostgreSQL.

pub(crate) mod copy;
pub(crate) mod schema;
