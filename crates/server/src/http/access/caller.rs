//! The caller of a request, as the access check found them.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::AuditEntry;

use super::role::{Permission, Role};
use super::secret;
use crate::http::problem::{Problem, Wrong};

/// A name is shown in one line.
const LONGEST_NAME: usize = 256;

/// The caller of a request. The access check, or our own pages, put it into each request that is
/// admitted.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name of the token; `anyone` where none is needed, `node` for the node's own token.
    pub name: Arc<str>,
    pub roles: Arc<[Role]>,
    /// The queues they may claim from; every queue, if `None`.
    pub queues: Option<Arc<[String]>>,
    /// The address they call from, if it is known.
    pub from: Option<IpAddr>,
    /// The key that forms must send back; `None` for programs, which send a token.
    pub form_key: Option<Arc<str>>,
    /// How the caller is known.
    pub standing: Standing,
    /// The request, for the audit log.
    pub audited: Option<Arc<AuditedAction>>,
}

/// How a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The caller is not known.
    Nobody,
    /// The caller is not known, and need not be.
    Anyone,
    /// By the node's own token.
    Node,
    /// By a stored token.
    Token,
}

/// The request, as the audit log records it.
#[derive(Debug, PartialEq, Eq)]
pub struct AuditedAction {
    /// The method and the route.
    pub action: String,
    pub target: String,
}

impl Caller {
    fn new(name: &str, roles: &[Role], standing: Standing) -> Caller {
        let (name, roles) = (name.into(), roles.into());
        Caller { name, roles, queues: None, from: None, form_key: None, standing, audited: None }
    }

    /// A caller who is not known and may do nothing.
    pub(super) fn nobody() -> Caller {
        Caller::new("nobody", &[], Standing::Nobody)
    }

    /// A caller on an open node, who may do everything.
    pub(super) fn anyone() -> Caller {
        Caller::new("anyone", &[Role::Admin], Standing::Anyone)
    }

    /// A caller with the node's own token.
    pub(super) fn node() -> Caller {
        Caller::new("node", &[Role::Admin], Standing::Node)
    }

    /// A caller with a stored token.
    pub(in crate::http) fn holder(name: &str, roles: &[Role]) -> Caller {
        Caller::new(name, roles, Standing::Token)
    }

    /// Whether one of the caller's roles has this permission.
    pub fn may(&self, permission: Permission) -> bool {
        self.roles.iter().any(|role| role.allows(permission))
    }

    /// The first of these queues that the caller may not claim from.
    pub fn lacks_queue<'a>(&self, queues: &'a [String]) -> Option<&'a str> {
        let allowed = self.queues.as_deref()?;
        queues.iter().find(|queue| !allowed.contains(queue)).map(String::as_str)
    }

    /// Whether a form has sent back its key. Compares in constant time.
    pub fn has_form_key(&self, given: &str) -> bool {
        let key = self.form_key.as_deref();
        key.is_some_and(|key| secret::are_same(key.as_bytes(), given.as_bytes()))
    }

    /// The name recorded for what the caller does. If a known caller gives another name, that is
    /// only a claim, so the caller's own name is added to it.
    pub(in crate::http) fn said_by(&self, given: Option<&str>) -> Result<String, Problem> {
        let Some(given) = given.map(str::trim) else { return Ok(self.name.to_string()) };
        if !(1..=LONGEST_NAME).contains(&given.len()) || given.contains(char::is_control) {
            let wrong = Wrong::new("by", "limit", "is empty or too long");
            return Err(Problem::invalid([wrong.allow(format!("1 to {LONGEST_NAME} bytes"))]));
        }
        Ok(match self.standing {
            Standing::Anyone => given.to_owned(),
            _ if *given == *self.name => given.to_owned(),
            _ => format!("{given} via {}", self.name),
        })
    }

    /// The names under which the caller may decide, besides the name from [`Caller::said_by`]:
    /// their own name and their roles. A caller with the node's own token may also decide for
    /// others.
    pub(in crate::http) fn stands_for(&self, given: Option<&str>) -> Vec<String> {
        let given = given.filter(|_| self.standing == Standing::Node);
        let known = self.standing != Standing::Anyone;
        let own = known.then(|| self.name.to_string()).into_iter();
        let roles = self.roles.iter().filter(|_| known).map(Role::to_string);
        own.chain(roles).chain(given.map(|given| given.trim().to_owned())).collect()
    }

    /// The audit entry for a change by this caller.
    pub(in crate::http) fn audit(&self, detail: Option<String>) -> Option<AuditEntry> {
        let audited = self.audited.as_ref()?;
        Some(AuditEntry {
            who: self.name.to_string(),
            from: self.from.map(|from| from.to_string()),
            action: audited.action.clone(),
            target: audited.target.clone(),
            detail,
        })
    }
}

/// Taken from the request, where the check has put it. A request that did not pass the check has a
/// caller who may do nothing.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_else(Caller::nobody))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_written_down_as_somebody_else() {
        let ci = Caller::holder("ci", &[Role::Approver]);
        for (caller, given, said, stands_for) in [
            (Caller::anyone(), None, "anyone", vec![]),
            (Caller::anyone(), Some(" ada "), "ada", vec![]),
            (Caller::node(), None, "node", vec!["node", "admin"]),
            (Caller::node(), Some("ada"), "ada via node", vec!["node", "admin", "ada"]),
            (ci.clone(), None, "ci", vec!["ci", "approver"]),
            (ci.clone(), Some("ci"), "ci", vec!["ci", "approver"]),
            (ci.clone(), Some("ada"), "ada via ci", vec!["ci", "approver"]),
        ] {
            assert_eq!(caller.said_by(given).unwrap(), said);
            assert_eq!(caller.stands_for(given), stands_for, "{said}");
        }
        for wrong in ["", "  ", "a\0b", "a\nb", &"x".repeat(257)] {
            assert!(ci.said_by(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_form_key_is_itself_and_nothing_else() {
        let without = Caller::node();
        let with = Caller { form_key: Some("abc".into()), ..Caller::node() };
        assert!(with.has_form_key("abc"));
        for other in ["", "ab", "abcd", "abd"] {
            assert!(!with.has_form_key(other) && !without.has_form_key(other), "{other}");
        }
    }
}
