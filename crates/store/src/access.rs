//! Tokens, sign-ins and the audit log: who may ask, and who changed what.

use jiff::{SignedDuration, Timestamp};

use crate::view::Cursor;

/// How long the audit log is kept: a whole year can still be looked up one month after its end.
pub(crate) const AUDIT_KEPT: SignedDuration = SignedDuration::from_hours(400 * 24);

/// The SHA-256 of a secret. The secret itself is never stored.
pub type SecretHash = [u8; 32];

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// A name that no token ever had.
    pub name: String,
    pub hash: SecretHash,
    /// The names of the roles its holder has.
    pub roles: Vec<String>,
    /// The queues its holder may claim from; `None` means every queue.
    pub queues: Option<Vec<String>>,
    pub created_by: String,
    pub expires_at: Option<Timestamp>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    pub id: i64,
    pub name: String,
    /// The names of the roles its holder has.
    pub roles: Vec<String>,
    /// The queues its holder may claim from; `None` means every queue.
    pub queues: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub created_by: String,
    /// Until when the token is valid, unless it is revoked.
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl TokenView {
    /// Whether the token is neither revoked nor expired at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// A stored token, or what is known of one whose row cannot be read.
pub type TokenRow = Result<TokenView, UnreadableToken>;

/// A token whose row cannot be read. It admits nobody, and can be revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableToken {
    pub id: i64,
    /// Its name, or its id if the name cannot be read either.
    pub name: String,
    pub is_revoked: bool,
    /// The column that cannot be read, and why.
    pub why: String,
}

/// The token with which a person signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedInWith {
    Token(i64),
    /// A node's own token, which is not stored; the hash of its secret.
    Node(SecretHash),
}

/// A sign-in to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignIn {
    /// The hash of the secret that the caller will present from now on.
    pub hash: SecretHash,
    /// The token with which the caller signed in.
    pub with: SignedInWith,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInView {
    pub with: SignedInWith,
    /// The token the caller signed in with, if it is a stored one.
    pub token: Option<TokenView>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A change that a caller makes. Its audit row is committed with the change, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub who: String,
    /// The caller's address, if it is known.
    pub from: Option<String>,
    /// The operation, such as `POST /api/v1/schedules/{id}/pause`.
    pub action: String,
    /// The path of what is changed.
    pub target: String,
    /// Anything else worth recording, in one line.
    pub detail: Option<String>,
}

/// Filter and paging for the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub who: Option<String>,
    /// Only changes at or after this time.
    pub since: Option<Timestamp>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// A row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    pub key: i64,
    pub at: Timestamp,
    pub entry: AuditEntry,
}

/// The refusal to create a token whose name is taken.
pub(crate) fn name_taken(name: &str) -> crate::Failure {
    let message = format!(
        "There is, or was, a token called {name}. The audit log names them: take another name."
    );
    crate::Failure::Refused(engine::turn::Refused::Conflict(message))
}

/// Where a page of the audit log begins: before this instant, in milliseconds, and this key.
pub(crate) fn position(cursor: Option<&Cursor>) -> (i64, i64) {
    match cursor {
        Some(Cursor::Instant(at, key)) => (*at, *key),
        _ => (i64::MAX, i64::MAX),
    }
}
