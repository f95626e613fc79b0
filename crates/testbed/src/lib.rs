//! A real PostgreSQL for tests, which ends with the program that started it.
#![forbid(unsafe_code)]

mod cluster;
mod guard;
mod pooler;
mod programs;
mod proxy;
mod replica;

use std::sync::OnceLock;

pub use cluster::{Builder, Cluster};
pub use pooler::{PoolMode, Pooler, is_pooler_installed};
pub use programs::is_installed;
pub use proxy::Proxy;

/// The environment variable with the address of a cluster that all tests of a run share.
pub const SHARED: &str = "PUNCTUAL_TEST_POSTGRES";

/// Why there is no cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// PostgreSQL is not installed.
    #[error(
        "PostgreSQL is not installed: neither on the PATH, nor below /usr/lib/postgresql, nor where \
         pg_config points. Install it (`apt-get install postgresql`), or set {SHARED} to the address \
         of a database that tests may fill"
    )]
    Missing,
    #[error("{what}: {why}")]
    Failed { what: String, why: String },
}

impl Trouble {
    fn new(what: impl Into<String>, why: impl ToString) -> Trouble {
        Trouble::Failed { what: what.into(), why: why.to_string() }
    }
}

/// The address of a database that the tests of this process share, each with its own schema: that
/// of the environment, or else that of a cluster which ends with the process.
pub fn shared_url() -> Result<String, Trouble> {
    static OWN: OnceLock<Result<Cluster, Trouble>> = OnceLock::new();
    match std::env::var(SHARED) {
        Ok(url) if !url.is_empty() => Ok(url),
        _ => match OWN.get_or_init(|| Cluster::builder().fsync(false).start()) {
            Ok(cluster) => Ok(cluster.url()),
            Err(trouble) => Err(trouble.clone()),
        },
    }
}
