//! Whoever asks, as the access check has found.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::role::{Permission, Role};

/// Whoever asks: put into each request that is let through, by the check or by our own pages.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the token is called; `anyone` where none is needed, `node` with the node's own.
    pub name: Arc<str>,
    /// What they may do.
    pub roles: Arc<[Role]>,
    /// From where, if that is known.
    pub from: Option<IpAddr>,
    /// What forms must send back; nothing where programs ask with a token.
    pub form_key: Option<Arc<str>>,
}

impl Caller {
    /// Somebody who may do everything.
    pub(crate) fn admin(name: &str) -> Caller {
        Caller { name: name.into(), roles: [Role::Admin].into(), from: None, form_key: None }
    }

    /// Whether a form comes from a page that they have seen.
    pub(crate) fn has_form_key(&self, given: &str) -> bool {
        self.form_key.as_deref().is_none_or(|key| key == given)
    }

    /// Whether one of their roles is enough.
    pub fn may(&self, permission: Permission) -> bool {
        self.roles.iter().any(|role| role.allows(permission))
    }
}

/// The check has put it there. A request that did not pass it has nobody behind it, who may do nothing.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_else(|| Caller {
            name: "nobody".into(),
            roles: [].into(),
            from: None,
            form_key: None,
        }))
    }
}
