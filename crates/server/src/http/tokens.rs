//! Routes of access tokens.

use axum::extract::State;
use axum::http::StatusCode;
use calendar::parse_duration;
use jiff::Timestamp;
use language::definition::limits::QUEUE_LENGTH;
use serde::{Deserialize, Serialize};
use store::{NewToken, TokenRow, TokenView, Total, UnreadableToken};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::access::{Caller, Role, Standing};
use super::answer::{self, Answered, Listed};
use super::body::JsonBody;
use super::path::PathId;
use super::problem::{Problem, Wrong};
use super::query::Query;
use super::shapes;

/// Names are shown in lists, and in sentences of others.
const LONGEST_NAME: usize = 64;
/// How many queues a token may be limited to.
const MOST_QUEUES: usize = 100;
/// Names that have another meaning where a caller is named.
const RESERVED: [&str; 5] = ["anyone", "node", "nobody", "webhook", "via"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke)).routes(routes!(me))
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
struct TokenObject {
    id: String,
    /// The name of its holder in the audit log.
    name: String,
    /// `viewer`, `operator`, `approver`, `designer`, `worker`, `admin`.
    #[schema(value_type = Vec<shapes::RoleName>)]
    roles: Vec<String>,
    /// The queues its holder may claim from; null for all.
    queues: Option<Vec<String>>,
    /// `active`, `expired`, `revoked`, or `unreadable`: its row in the store is damaged, and it
    /// admits nobody until it is revoked.
    #[schema(value_type = shapes::TokenStatus)]
    status: &'static str,
    /// Null if the token is unreadable, as `created_by`.
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Timestamp>,
    created_by: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl TokenObject {
    fn new(view: TokenView, now: Timestamp) -> TokenObject {
        let status = match view.revoked_at {
            Some(_) => "revoked",
            None if view.is_valid(now) => "active",
            None => "expired",
        };
        TokenObject {
            id: view.id.to_string(),
            name: view.name,
            roles: view.roles,
            queues: view.queues,
            status,
            created_at: Some(view.created_at),
            created_by: Some(view.created_by),
            expires_at: view.expires_at,
            revoked_at: view.revoked_at,
        }
    }

    fn of_row(row: TokenRow, now: Timestamp) -> TokenObject {
        let UnreadableToken { id, name, is_revoked, .. } = match row {
            Ok(view) => return TokenObject::new(view, now),
            Err(unreadable) => unreadable,
        };
        TokenObject {
            id: id.to_string(),
            name,
            roles: Vec::new(),
            queues: None,
            status: if is_revoked { "revoked" } else { "unreadable" },
            created_at: None,
            created_by: None,
            expires_at: None,
            revoked_at: None,
        }
    }
}

/// A token with its secret, which is shown only this once.
#[derive(Serialize, ToSchema)]
struct Made {
    #[serde(flatten)]
    token: TokenObject,
    /// The secret to send as `Authorization: Bearer SECRET`. It is not stored.
    secret: String,
}

/// The caller.
#[derive(Serialize, ToSchema)]
struct Me {
    /// The name of the token; `anyone` where none is needed, `node` for the node's own token.
    name: String,
    #[schema(value_type = Vec<shapes::RoleName>)]
    roles: Vec<&'static str>,
    /// The queues they may claim from; left out for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Vec<String>>,
}

/// Gets the caller, and what they may do.
#[utoipa::path(get, path = "/me", tag = "access", responses((status = 200, body = Me)))]
async fn me(caller: Caller, Query(()): Query<()>) -> Answered {
    let roles = caller.roles.iter().map(|role| role.name()).collect();
    let queues = caller.queues.as_deref().map(<[String]>::to_vec);
    answer::ok(&Me { name: caller.name.to_string(), roles, queues })
}

/// Lists tokens, in the order they were made.
/// Expired and revoked tokens stay in the list: their names are not used again.
#[utoipa::path(get, path = "/tokens", tag = "access",
    responses((status = 200, body = Listed<TokenObject>), (status = 403, body = Problem)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let tokens = app.store().tokens().await?;
    let now = app.now();
    let items: Vec<TokenObject> =
        tokens.into_iter().map(|row| TokenObject::of_row(row, now)).collect();
    let total = Total::Exact(items.len() as u64);
    answer::ok(&Listed::new(items, total, None))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    /// The name of its holder: letters, digits and `._@+-`.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// `viewer`, `operator`, `approver`, `designer`, `worker`, `admin`.
    #[schema(value_type = Vec<shapes::RoleName>, min_items = 1)]
    roles: Vec<String>,
    /// The queues its holder may claim from, for the role worker; all if left out. `agent:NAME` is
    /// the queue of an agent's tasks.
    queues: Option<Vec<String>>,
    /// How long it is valid, such as `90d`.
    expires_in: Option<String>,
    /// Or until when it is valid, RFC 3339.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl TokenRequest {
    /// The new token, or everything that is wrong with the request.
    fn read(self, caller: &Caller, now: Timestamp) -> Result<NewToken, Problem> {
        let mut wrong = Vec::new();
        let name = self.name.trim().to_owned();
        wrong.extend(wrong_name(&name));
        let mut roles: Vec<Role> = Vec::new();
        for (index, text) in self.roles.iter().enumerate() {
            match text.parse() {
                Ok(role) if !roles.contains(&role) => roles.push(role),
                Ok(_) => {}
                Err(()) => {
                    let path = format!("roles[{index}]");
                    let unknown = Wrong::new(path, "role", format!("there is no role {text:?}"));
                    wrong.push(unknown.allow(Role::ALL.map(Role::name).join(", ")));
                }
            }
        }
        if self.roles.is_empty() {
            let none = Wrong::new("roles", "missing", "a token without a role is good for nothing");
            wrong.push(none.allow(Role::ALL.map(Role::name).join(", ")));
        }
        wrong.extend(wrong_queues(self.queues.as_deref(), &roles));
        let expires_at = expiry(self.expires_in.as_deref(), self.expires_at.as_deref(), now);
        let expires_at = expires_at.unwrap_or_else(|mistake| {
            wrong.push(*mistake);
            None
        });
        if !wrong.is_empty() {
            return Err(Problem::invalid(wrong));
        }
        // Without an admin nobody could make another token.
        if caller.standing == Standing::Anyone && !roles.contains(&Role::Admin) {
            let first = "the first token must have the role admin: from then on nobody may do \
                         anything without one";
            let wrong = Wrong::new("roles", "first", first);
            return Err(Problem::invalid([wrong.suggest("make one for yourself with role admin")]));
        }
        let roles = roles.iter().map(Role::to_string).collect();
        let created_by = caller.name.to_string();
        let queues = self.queues;
        Ok(NewToken { name, hash: [0; 32], roles, queues, created_by, expires_at })
    }
}

fn wrong_name(name: &str) -> Option<Wrong> {
    let is_plain = |c: char| c.is_alphanumeric() || "._@+-".contains(c);
    let length = name.chars().count();
    if !(1..=LONGEST_NAME).contains(&length) || !name.chars().all(is_plain) {
        let allowed = format!("1 to {LONGEST_NAME} letters, digits and ._@+-");
        return Some(Wrong::new("name", "name", "is not a name for a token").allow(allowed));
    }
    let is_reserved = RESERVED.contains(&name) || name.parse::<Role>().is_ok();
    is_reserved.then(|| Wrong::new("name", "reserved", "means something else"))
}

/// Refuses a list of queues that would limit nothing: whoever sets it relies on it.
fn wrong_queues(queues: Option<&[String]>, roles: &[Role]) -> Option<Wrong> {
    let queues = queues?;
    if roles.contains(&Role::Admin) || !roles.contains(&Role::Worker) {
        let message = "limits the role worker alone: an admin claims from every queue, and the \
                       others from none";
        let wrong = Wrong::new("queues", "role", message);
        return Some(wrong.suggest("give the role worker without admin, or leave queues out"));
    }
    if !(1..=MOST_QUEUES).contains(&queues.len()) {
        let wrong = Wrong::new("queues", "limit", "too few or too many");
        let allowed = format!("1 to {MOST_QUEUES} names; left out, every queue");
        return Some(wrong.allow(allowed));
    }
    let is_name = |name: &String| {
        (1..=QUEUE_LENGTH).contains(&name.len()) && !name.contains(char::is_control)
    };
    let at = queues.iter().position(|name| !is_name(name))?;
    let wrong = Wrong::new(format!("queues[{at}]"), "name", "is not the name of a queue");
    Some(wrong.allow(format!("1 to {QUEUE_LENGTH} bytes")))
}

fn expiry(
    within: Option<&str>,
    at: Option<&str>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Box<Wrong>> {
    let wrong = |path: &str, code: &str, message: &str| Box::new(Wrong::new(path, code, message));
    let (path, expires_at) = match (within, at) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(wrong("expires_at", "one-of", "expires_in is given already"));
        }
        (Some(text), None) => {
            let duration = parse_duration(text).map_err(|problem| {
                Box::new(calendar::Mistake::new("expires_in", problem).into())
            })?;
            ("expires_in", now.checked_add(duration).ok())
        }
        (None, Some(text)) => {
            let instant = text.parse::<Timestamp>().map_err(|_| {
                let wrong = Wrong::new("expires_at", "time", "is no instant");
                Box::new(wrong.allow("RFC 3339 with an offset"))
            })?;
            ("expires_at", Some(instant))
        }
    };
    match expires_at {
        Some(at) if at > now => Ok(Some(at)),
        Some(_) => Err(wrong(path, "range", "lies in the past")),
        None => Err(wrong(path, "range", "lies too far ahead")),
    }
}

/// Makes a token. Its secret is in the response, and is stored nowhere.
/// The very first token needs the role admin, unless the node has a token of its own: from then on
/// every request needs a token.
#[utoipa::path(post, path = "/tokens", tag = "access", request_body = TokenRequest,
    responses((status = 201, body = Made), (status = 403, body = Problem),
        (status = 409, body = Problem, description = "There is or was one of that name"),
        (status = 422, body = Problem)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    refuse_key(&body)?;
    let request: TokenRequest = body.read()?;
    let now = app.now();
    let new = request.read(&caller, now)?;
    let (secret, hash) = app.new_token_secret()?;
    let mut detail = format!("{}: {}", new.name, new.roles.join(", "));
    if let Some(queues) = &new.queues {
        detail.push_str(&format!("; queues {}", queues.join(", ")));
    }
    let audit = app.audit(&caller, Some(detail));
    let asked = app.clone();
    let making = async move {
        let made = asked.store().create_token(NewToken { hash, ..new }, now, audit).await;
        asked.known().forget();
        made
    };
    let token = TokenObject::new(app.hub().uninterrupted(making).await?, now);
    answer::json(StatusCode::CREATED, &Made { token, secret })
}

/// Refuses an idempotency key: a repeated response would have to contain the secret, which is not
/// stored.
fn refuse_key(body: &JsonBody) -> Result<(), Problem> {
    match &body.idempotency {
        Some(_) => Err(Problem::bad_request(
            "Tokens are made without an Idempotency-Key: a secret is shown once, and a name is \
             given once.",
        )),
        None => Ok(()),
    }
}

/// Revokes a token, and signs out everyone who signed in with it.
/// Their open streams end at once, on every node of a shared store.
#[utoipa::path(post, path = "/tokens/{id}/revoke", tag = "access",
    params(("id" = String, Path, description = "The id, or the name")),
    responses((status = 200, body = TokenObject), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    body.expect_nothing()?;
    let unknown = || Problem::not_found("token", &id);
    let tokens = app.store().tokens().await?;
    // A name may look like an id: then the id counts.
    let named = tokens.iter().map(|row| match row {
        Ok(token) => (token.id, &token.name),
        Err(token) => (token.id, &token.name),
    });
    let by_id = named.clone().find(|(token, _)| token.to_string() == id);
    let known = by_id.or_else(|| named.clone().find(|(_, name)| **name == id));
    let (token, name) = known.ok_or_else(unknown)?;
    let now = app.now();
    let audit = app.audit(&caller, Some(name.clone()));
    let asked = app.clone();
    let revoking = async move {
        let revoked = asked.store().revoke_token(token, now, audit).await;
        asked.known().forget();
        revoked
    };
    let revoked = app.hub().uninterrupted(revoking).await?;
    answer::ok(&TokenObject::of_row(revoked.ok_or_else(unknown)?, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_say_one_thing() {
        for name in ["ci", "ada", "ada@example.com", "büro-7", "a", "x+y_z.1"] {
            assert!(wrong_name(name).is_none(), "{name}");
        }
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in ["", "a b", "a/b", "a\n", "node", "anyone", "admin", "<b>", "a,b", &long] {
            assert!(wrong_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn queues_limit_workers_and_nobody_else() {
        let (worker, admin) = (vec![Role::Worker, Role::Viewer], vec![Role::Worker, Role::Admin]);
        let many = vec!["q"; MOST_QUEUES + 1];
        for (roles, queues, is_fine) in [
            (&worker, vec!["mail"], true),
            (&worker, vec!["mail", "agent:a b"], true),
            (&worker, vec![], false),
            (&worker, vec!["mail", ""], false),
            (&worker, vec!["a\0b"], false),
            (&worker, many, false),
            (&admin, vec!["mail"], false),
            (&vec![Role::Viewer], vec!["mail"], false),
        ] {
            let names: Vec<String> = queues.iter().map(ToString::to_string).collect();
            assert_eq!(
                wrong_queues(Some(&names), roles).is_none(),
                is_fine,
                "{roles:?} {queues:?}"
            );
            assert!(wrong_queues(None, roles).is_none());
        }
    }

    #[test]
    fn a_token_expires_later_or_never() {
        let now: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
        let later = "2026-03-03T00:00:00Z".parse().unwrap();
        for (within, at, expected) in [
            (None, None, Some(None)),
            (Some("1d"), None, Some(Some(later))),
            (None, Some("2026-03-03T01:00:00+01:00"), Some(Some(later))),
            (Some("1d"), Some("2026-03-03T00:00:00Z"), None),
            (Some("soon"), None, None),
            (None, Some("2026-03-03"), None),
            (None, Some("2026-03-02T00:00:00Z"), None),
        ] {
            assert_eq!(expiry(within, at, now).ok(), expected, "{within:?} {at:?}");
        }
    }
}
