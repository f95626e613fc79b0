//! Why a store does not answer.

use engine::turn::Refused;

/// Why a request was not carried out. Nothing of it was stored, except after [`Failure::Unknown`].
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The engine says no.
    #[error("{0}")]
    Refused(Refused),
    /// The same idempotency key was used for something else.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The store cannot be reached, is full or broken; trying again may help.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Whether the commit happened is not known. Ids decide: doing it again does it once.
    #[error("the outcome of the commit is not known: {0}")]
    Unknown(String),
    /// What is stored cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The node was taken for dead: what it was doing is others' by now. It has to join again.
    #[error("this node was taken for dead, and what it was doing is done by others")]
    Fenced,
    /// Another process uses it.
    #[error("{0}")]
    InUse(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Failure::Damaged(error.to_string()),
            _ => Failure::Unavailable(error.to_string()),
        }
    }
}
