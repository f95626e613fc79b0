//! The ways in which a store can fail.

use std::fmt;

use engine::Stop;
use engine::turn::{Refused, Wakeup};

/// Why a request was not carried out. Nothing of it was stored, except possibly after
/// [`Failure::Unknown`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The engine refused the command.
    #[error("{0}")]
    Refused(Refused),
    /// The same idempotency key was used for another request.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The store cannot be reached or is broken; trying again may help.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store cannot be written to. Nothing of the request was stored.
    #[error("{fault}, and nothing was stored ({said})")]
    NotWritten {
        fault: WriteFault,
        /// The message of SQLite or PostgreSQL.
        said: String,
    },
    /// The store does not know whether the commit happened. Ids make a retry safe: it takes effect
    /// once.
    #[error("the outcome of the commit is not known: {0}")]
    Unknown(String),
    /// A stored row cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// One schedule, run or handler cannot be read or decided as it is stored, and trying again
    /// does not help. Everything else can: the driver sets this one aside.
    #[error("{} cannot be decided: {why}", named(*what))]
    Undecidable {
        /// The schedule, run or handler, if it is known.
        what: Option<Wakeup>,
        why: String,
    },
    /// Other nodes took this node for dead and have taken over its attempts. It has to join again.
    #[error("this node was taken for dead, and what it was doing is done by others")]
    Fenced,
    /// Another process uses the store.
    #[error("{0}")]
    InUse(String),
    /// The store's file was removed or replaced while it was in use. The node has to stop: nothing
    /// it stores would be found again.
    #[error("{0}")]
    Gone(String),
    /// The store is there, but trying again does not help: using it would lose data, a newer
    /// version of this program has written it, or a pooler or server in front of it cannot be used.
    #[error("{what}")]
    Unusable {
        what: String,
        /// The action that a person can take.
        remedy: String,
    },
}

/// Why the store cannot be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// No space is left, or a quota is used up.
    DiskFull,
    /// The file, its disk or the database is read-only.
    ReadOnly,
    /// The operating system reports an error: of the disk, or of a limit.
    Disk,
}

impl WriteFault {
    /// The action that a person can take.
    pub fn remedy(self) -> &'static str {
        match self {
            WriteFault::DiskFull => "make room on the disk of the store",
            WriteFault::ReadOnly => {
                "make the store's file and its folder writable for the node's user, or the \
                 PostgreSQL server writable; then try again"
            }
            WriteFault::Disk => {
                "look for a quota or a limit of the size of files that the node's user has reached, and \
                 for errors of the disk in the system's log; then run `punctual doctor`"
            }
        }
    }
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteFault::DiskFull => "the disk of the store is full",
            WriteFault::ReadOnly => "the store is read-only",
            WriteFault::Disk => "the store's files cannot be written or read",
        })
    }
}

fn named(what: Option<Wakeup>) -> String {
    match what {
        Some(what) => {
            format!("{} {}", crate::set_aside::kind(what), crate::wakeups::stored_wakeup(what).1)
        }
        None => "something that is stored".to_owned(),
    }
}

impl Failure {
    /// The failure with which a store refuses a node: the unique index that keeps an occurrence
    /// from running twice is missing or not valid.
    pub(crate) fn without_index(name: &str) -> Failure {
        Failure::Unusable {
            what: format!(
                "the unique index {name} is missing or not valid: without it an occurrence may run twice"
            ),
            remedy: "punctual doctor --repair, which makes the index again".to_owned(),
        }
    }

    /// Whether one stored row cannot be read or decided, so that others still can.
    pub(crate) fn is_about_a_row(&self) -> bool {
        matches!(self, Failure::Undecidable { .. })
    }

    /// Adds `what` to a [`Failure::Undecidable`] that does not name its schedule, run or handler.
    pub(crate) fn about(self, what: Option<Wakeup>) -> Failure {
        match self {
            Failure::Undecidable { what: None, why } => Failure::Undecidable { what, why },
            other => other,
        }
    }
}

impl From<Stop<Refused, Failure>> for Failure {
    fn from(stop: Stop<Refused, Failure>) -> Failure {
        stop.refusal().map_or_else(|failure| failure, Failure::Refused)
    }
}

/// The driver sets aside what the engine was deciding.
impl From<engine::turn::Damaged> for Failure {
    fn from(engine::turn::Damaged(why): engine::turn::Damaged) -> Failure {
        Failure::Undecidable { what: None, why }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        use rusqlite::ErrorCode::{
            ConstraintViolation, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
        };
        let is_about_a_row = matches!(
            error,
            FromSqlConversionFailure(..)
                | IntegralValueOutOfRange(..)
                | InvalidColumnType(..)
                | Utf8Error(..)
        );
        let not_written = |fault| Failure::NotWritten { fault, said: error.to_string() };
        let extended = error.sqlite_error().map(|error| error.extended_code);
        match error.sqlite_error_code() {
            _ if is_about_a_row => Failure::Undecidable { what: None, why: error.to_string() },
            Some(ConstraintViolation) => {
                Failure::Undecidable { what: None, why: error.to_string() }
            }
            Some(DatabaseCorrupt | NotADatabase) => Failure::Damaged(error.to_string()),
            Some(DiskFull) => not_written(WriteFault::DiskFull),
            // The index of the log has no room to grow, as on a tmpfs that is full.
            Some(SystemIoFailure) if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => {
                not_written(WriteFault::DiskFull)
            }
            Some(ReadOnly) => not_written(WriteFault::ReadOnly),
            Some(SystemIoFailure) => not_written(WriteFault::Disk),
            _ => Failure::Unavailable(error.to_string()),
        }
    }
}

/// Tells from the error of a failed commit whether the transaction may have been stored.
///
/// Writing the last frame of a transaction to the log commits it, and SQLite undoes what it could
/// not write. Only if the log was written but could not be synced, the transaction may still be
/// there after a crash.
pub(crate) fn of_commit(error: rusqlite::Error) -> Failure {
    use rusqlite::ErrorCode::{
        ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, ReadOnly,
    };
    use rusqlite::ffi;
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let certain = match error.sqlite_error_code() {
        Some(
            DiskFull | ReadOnly | ConstraintViolation | DatabaseBusy | DatabaseLocked | OutOfMemory,
        ) => true,
        _ => extended.is_some_and(|code| {
            [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_SHMSIZE]
                .contains(&code)
        }),
    };
    if certain { error.into() } else { Failure::Unknown(error.to_string()) }
}
