//! How the node can notify people, kept for every later transaction.

use std::sync::{Arc, PoisonError, RwLock};

use language::notification_setup::Setup;

/// The setup, shared between the server, which sets it, and the transactions, which decide by it.
#[derive(Clone, Default)]
pub(crate) struct SharedSetup(Arc<RwLock<Arc<Setup>>>);

impl SharedSetup {
    pub(crate) fn get(&self) -> Arc<Setup> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, setup: Arc<Setup>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = setup;
    }
}
