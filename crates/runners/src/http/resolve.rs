//! Resolves host names and checks the addresses, so that a connection goes to an address that was
//! checked.

use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use crate::egress::{Admission, Egress};

/// A resolver that asks the system and returns only addresses that the egress policy admits.
pub(super) struct Filtering {
    egress: Arc<Egress>,
    admission: Admission,
}

/// The name has no address, or the lookup failed.
#[derive(Debug, thiserror::Error)]
#[error("{name} does not resolve: {why}")]
pub(super) struct Unresolved {
    name: String,
    why: String,
}

impl Filtering {
    pub(super) fn new(egress: Arc<Egress>, admission: Admission) -> Filtering {
        Filtering { egress, admission }
    }
}

impl Resolve for Filtering {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = Arc::clone(&self.egress);
        let admission = self.admission;
        Box::pin(async move {
            let name = name.as_str();
            let unresolved = |why: String| Unresolved { name: name.to_owned(), why };
            let resolved =
                lookup_host((name, 0)).await.map_err(|error| unresolved(error.to_string()))?;
            let admitted = egress.filter(name, resolved, admission)?;
            if admitted.is_empty() {
                return Err(unresolved("it has no address".to_owned()).into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}
