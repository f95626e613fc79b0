//! Whom a secret belongs to, and whether one is needed at all. Answers of the store are cached for
//! a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use store::{Failure, SecretHash, SignedInWith, Store, TokenRow, TokenView};
use tokio::sync::watch;
use tokio::time::Instant;

use super::caller::Caller;
use super::role::Role;
use super::secret::{self, Token};
use crate::http::problem::Problem;

/// How long answers of the store are cached: changes by another node whose call was lost take
/// effect after this. Short enough for those who revoke a token, long enough that a busy caller
/// does not cost a query per request.
pub(super) const REMEMBERED: Duration = Duration::from_secs(1);
/// How many secrets are cached at most.
const MOST: usize = 1_024;

/// The holder of a known secret.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) caller: Caller,
    /// The secret they would sign in with.
    pub(super) with: SignedInWith,
    /// Until when the secret is valid.
    until: Option<Timestamp>,
}

impl Holder {
    fn of(token: &TokenView) -> Option<Holder> {
        if token.revoked_at.is_some() {
            return None;
        }
        let roles: Vec<Role> = token.roles.iter().filter_map(|role| role.parse().ok()).collect();
        let queues = token.queues.as_deref().map(Into::into);
        let caller = Caller { queues, ..Caller::holder(&token.name, &roles) };
        let with = SignedInWith::Token(token.id);
        Some(Holder { caller, with, until: token.expires_at })
    }

    /// Until when their secret is valid, if that is limited.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The kind of secret that a request shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    /// The secret of a token.
    Token,
    /// The secret of a sign-in.
    SignIn,
}

/// The cache of who is known on this node.
pub(crate) struct Known {
    /// The node's own token.
    node: Option<Token>,
    /// Goes up when tokens or sign-ins change, on this node or on another one that notifies it.
    changes: Arc<watch::Sender<u64>>,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// The change count when the cache was filled. The cache is cleared when it differs, and an
    /// answer asked for before a change is not cached after it.
    changes: u64,
    /// A token has been stored once: the node never becomes open again.
    is_closed: bool,
    /// When the store last said that there was no token.
    open_at: Option<Instant>,
    holders: HashMap<(Shown, SecretHash), (Instant, Holder)>,
}

impl Known {
    pub(crate) fn new(node: Option<Token>, changes: Arc<watch::Sender<u64>>) -> Known {
        Known { node, changes, remembered: Mutex::default() }
    }

    /// The cache, cleared if something has changed since.
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = *self.changes.borrow();
        if remembered.changes != changes {
            remembered.changes = changes;
            remembered.open_at = None;
            remembered.holders.clear();
        }
        remembered
    }

    /// Clears the caches: a change on this node takes effect at once.
    pub(in crate::http) fn forget(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether the node is open: it has no token of its own, and none was ever stored.
    pub(super) async fn is_open(&self, store: &dyn Store) -> Result<bool, Problem> {
        let now = Instant::now();
        let changes = {
            let remembered = self.remembered();
            if self.node.is_some() || remembered.is_closed {
                return Ok(false);
            }
            if remembered.open_at.is_some_and(|at| now < at + REMEMBERED) {
                return Ok(true);
            }
            remembered.changes
        };
        let is_open = store.tokens().await?.is_empty();
        let mut remembered = self.remembered();
        if !is_open {
            remembered.is_closed = true;
        } else if remembered.changes == changes {
            remembered.open_at = Some(now);
        }
        Ok(is_open)
    }

    /// Who holds this secret, if it is valid.
    pub(super) async fn holder(
        &self,
        store: &dyn Store,
        shown: Shown,
        secret: &str,
        now: Timestamp,
    ) -> Result<Option<Holder>, Problem> {
        let hash = secret::hash(secret);
        if shown == Shown::Token && self.node.is_some_and(|node| node.is(&hash)) {
            return Ok(self.node_holder());
        }
        let asked_at = Instant::now();
        let changes = {
            let remembered = self.remembered();
            if let Some((at, holder)) = remembered.holders.get(&(shown, hash))
                && asked_at < *at + REMEMBERED
            {
                return Ok(Some(holder.clone()).filter(|holder| holder.is_valid(now)));
            }
            remembered.changes
        };
        let found = match shown {
            Shown::Token => {
                readable(store.token_by_hash(hash).await)?.as_ref().and_then(Holder::of)
            }
            Shown::SignIn => self.signed_in(store, hash, secret).await?,
        };
        if let Some(holder) = &found {
            let mut remembered = self.remembered();
            if remembered.holders.len() >= MOST {
                remembered.holders.clear();
            }
            if remembered.changes == changes {
                remembered.holders.insert((shown, hash), (asked_at, holder.clone()));
            }
        }
        Ok(found.filter(|holder| holder.is_valid(now)))
    }

    fn node_holder(&self) -> Option<Holder> {
        let with = SignedInWith::Node(self.node?.hash());
        Some(Holder { caller: Caller::node(), with, until: None })
    }

    /// Who has signed in: with a token that is still valid, or with the node's own token if it has
    /// not changed.
    async fn signed_in(
        &self,
        store: &dyn Store,
        hash: SecretHash,
        secret: &str,
    ) -> Result<Option<Holder>, Problem> {
        let Some(view) = readable(store.sign_in(hash).await)? else { return Ok(None) };
        let holder = match view.with {
            SignedInWith::Token(_) => view.token.as_ref().and_then(Holder::of),
            SignedInWith::Node(with) => match self.node {
                Some(node) if node.is(&with) => self.node_holder(),
                _ => None,
            },
        };
        Ok(holder.map(|holder| {
            let until = holder.until.map_or(view.expires_at, |until| until.min(view.expires_at));
            let form_key = Some(secret::form_key(secret).into());
            let caller = Caller { form_key, ..holder.caller };
            Holder { caller, until: Some(until), ..holder }
        }))
    }
}

/// What the store found. A token or sign-in that cannot be read admits nobody, and is logged: all
/// others still do.
fn readable<T>(found: Result<Option<T>, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Err(failure @ Failure::Undecidable { .. }) => {
            tracing::error!(%failure, "a token or sign-in is refused: its row cannot be read");
            Ok(None)
        }
        found => found,
    }
}

/// Whether a valid token with the role admin exists.
pub(crate) fn has_admin(tokens: &[TokenRow], now: Timestamp) -> bool {
    let admin = Role::Admin.name();
    tokens
        .iter()
        .flatten()
        .any(|token| token.is_valid(now) && token.roles.iter().any(|role| role == admin))
}
