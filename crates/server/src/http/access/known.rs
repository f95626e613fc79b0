//! Whom a secret belongs to, and whether one is needed at all: as the store says, remembered for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use store::{SecretHash, SignedInWith, Store, TokenView};
use tokio::sync::watch;
use tokio::time::Instant;

use super::caller::Caller;
use super::role::Role;
use super::secret::{self, Token};
use crate::http::problem::Problem;

/// What another node has changed, and whose call was lost, is seen here after this: short enough for those who revoke something, long enough
/// that a busy caller does not cost a question with each request.
pub(super) const REMEMBERED: Duration = Duration::from_secs(1);
/// So many secrets are remembered at most.
const MOST: usize = 1_024;

/// Somebody whose secret is known.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) caller: Caller,
    /// What they would sign in with.
    pub(super) with: SignedInWith,
    /// Until when.
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

    /// Until when their secret is good, if that is known.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// What kind of secret is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    /// A token's.
    Token,
    /// That of whoever has signed in.
    SignIn,
}

/// Who is known here.
pub(crate) struct Known {
    /// The node's own token.
    node: Option<Token>,
    /// Goes up when something is changed, here or by another node that calls.
    changes: Arc<watch::Sender<u64>>,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// As of which change: what was asked for before another one is not remembered after it.
    changes: u64,
    /// A token was stored once: nothing opens the node again.
    is_closed: bool,
    /// There was none then.
    open_at: Option<Instant>,
    holders: HashMap<(Shown, SecretHash), (Instant, Holder)>,
}

impl Known {
    pub(crate) fn new(node: Option<Token>, changes: Arc<watch::Sender<u64>>) -> Known {
        Known { node, changes, remembered: Mutex::default() }
    }

    /// What is remembered and was not changed since.
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

    /// Something was changed here: it holds at once.
    pub(in crate::http) fn forget(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Tells when something is changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether nobody needs a secret: the node has none of its own, and none was ever stored.
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

    /// Who shows this secret, if it is good for anything.
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
            Shown::Token => store.token_by_hash(hash).await?.as_ref().and_then(Holder::of),
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

    /// Who has signed in: with a token that is still good, or with the token that the node still has.
    async fn signed_in(
        &self,
        store: &dyn Store,
        hash: SecretHash,
        secret: &str,
    ) -> Result<Option<Holder>, Problem> {
        let Some(view) = store.sign_in(hash).await? else { return Ok(None) };
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

/// Whether somebody could come in who may do everything.
pub(crate) fn has_admin(tokens: &[TokenView], now: Timestamp) -> bool {
    let admin = Role::Admin.name();
    tokens.iter().any(|token| token.is_valid(now) && token.roles.iter().any(|role| role == admin))
}
