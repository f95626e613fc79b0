//! Who may ask, and who has changed what: tokens, sign-ins, and the audit log.

use jiff::{SignedDuration, Timestamp};

use crate::view::Cursor;

/// The audit log is kept so long: whoever looks back at the year that has passed, a month after it, finds all
/// of it.
pub(crate) const AUDIT_KEPT: SignedDuration = SignedDuration::from_hours(400 * 24);

/// A secret is never stored: this is its SHA-256.
pub type SecretHash = [u8; 32];

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// What it is called. Nothing else was ever called so.
    pub name: String,
    /// Of its secret.
    pub hash: SecretHash,
    /// What its holder is, by name.
    pub roles: Vec<String>,
    /// From which queues its holder may claim; from every one, if nothing is said.
    pub queues: Option<Vec<String>>,
    /// Who makes it.
    pub created_by: String,
    /// Until when it is good.
    pub expires_at: Option<Timestamp>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    /// Its id.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// What its holder is, by name.
    pub roles: Vec<String>,
    /// From which queues its holder may claim; from every one, if nothing is said.
    pub queues: Option<Vec<String>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// Until when it is good, unless it is revoked.
    pub expires_at: Option<Timestamp>,
    /// Since when it is good no more.
    pub revoked_at: Option<Timestamp>,
}

impl TokenView {
    /// Whether it is good for anything.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// What somebody has signed in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedInWith {
    /// The stored token with this id.
    Token(i64),
    /// A node's own token, which is not stored; the hash of it.
    Node(SecretHash),
}

/// Somebody signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignIn {
    /// Of the secret that they will show from now on.
    pub hash: SecretHash,
    /// What they have shown now.
    pub with: SignedInWith,
    /// Until when it lasts.
    pub expires_at: Timestamp,
}

/// Somebody has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInView {
    /// What they have shown.
    pub with: SignedInWith,
    /// The same, if it is a stored token.
    pub token: Option<TokenView>,
    /// When.
    pub created_at: Timestamp,
    /// Until when it lasts.
    pub expires_at: Timestamp,
}

/// Somebody changes something. It is written with the change, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who.
    pub who: String,
    /// From which address, if that is known.
    pub from: Option<String>,
    /// What they do, such as `POST /api/v1/schedules/{id}/pause`.
    pub action: String,
    /// What they do it to: the path.
    pub target: String,
    /// What else there is to say, in a line.
    pub detail: Option<String>,
}

/// Which changes.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// By this one.
    pub who: Option<String>,
    /// From here on.
    pub since: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A change, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Another one for each.
    pub key: i64,
    /// When.
    pub at: Timestamp,
    /// Who has done what.
    pub entry: AuditEntry,
}

/// Why a token is not made.
pub(crate) fn name_taken(name: &str) -> crate::Failure {
    let message = format!(
        "There is, or was, a token called {name}. The audit log names them: take another name."
    );
    crate::Failure::Refused(engine::turn::Refused::Conflict(message))
}

/// Where a page of the audit log begins: after this instant and key, in milliseconds.
pub(crate) fn place(cursor: Option<&Cursor>) -> (i64, i64) {
    match cursor {
        Some(Cursor::Instant(at, key)) => (*at, *key),
        _ => (i64::MAX, i64::MAX),
    }
}
