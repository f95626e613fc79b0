//! Connections, and the threads that use them.

pub(crate) mod certificates;
pub(crate) mod connect;
pub(crate) mod deadline;
pub(crate) mod query;
pub(crate) mod session;
pub(crate) mod tls;
pub(crate) mod tx_connection;
pub(crate) mod worker;
