//! Routes of tokens: who may ask.

use axum::extract::State;
use axum::http::StatusCode;
use calendar::parse_duration;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{NewToken, TokenView, Total};
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

/// A name is read in lists, and in sentences of others.
const LONGEST_NAME: usize = 64;
/// Names that say something else where somebody is named.
const RESERVED: [&str; 5] = ["anyone", "node", "nobody", "webhook", "via"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke)).routes(routes!(me))
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
struct TokenObject {
    id: String,
    /// What its holder is called in the audit log.
    name: String,
    /// `viewer`, `operator`, `approver`, `designer`, `worker`, `admin`.
    roles: Vec<String>,
    /// `active`, `expired` or `revoked`.
    status: &'static str,
    #[schema(value_type = String)]
    created_at: Timestamp,
    created_by: String,
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>)]
    revoked_at: Option<Timestamp>,
}

impl TokenObject {
    fn new(view: TokenView, now: Timestamp) -> TokenObject {
        let status = match view.revoked_at {
            Some(_) => "revoked",
            None if view.is_valid(now) => "active",
            None => "expired",
        };
        let TokenView { id, name, roles, created_at, created_by, expires_at, revoked_at } = view;
        let id = id.to_string();
        TokenObject { id, name, roles, status, created_at, created_by, expires_at, revoked_at }
    }
}

/// A token with its secret: it is shown this once.
#[derive(Serialize, ToSchema)]
struct Made {
    #[serde(flatten)]
    token: TokenObject,
    /// What to send as `Authorization: Bearer SECRET`. It is kept nowhere.
    secret: String,
}

/// Whoever asks.
#[derive(Serialize, ToSchema)]
struct Me {
    /// What the token is called; `anyone` where none is needed, `node` with the node's own.
    name: String,
    roles: Vec<&'static str>,
}

/// Who is asking, and what they may do.
#[utoipa::path(get, path = "/me", tag = "access", responses((status = 200, body = Me)))]
async fn me(caller: Caller, Query(()): Query<()>) -> Answered {
    let roles = caller.roles.iter().map(|role| role.name()).collect();
    answer::ok(&Me { name: caller.name.to_string(), roles })
}

/// Tokens, in the order they were made. Those that are good no more stay: no other one has their name.
#[utoipa::path(get, path = "/tokens", tag = "access",
    responses((status = 200, body = Listed<TokenObject>), (status = 403, body = Problem)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let tokens = app.store().tokens().await?;
    let now = app.now();
    let items: Vec<TokenObject> =
        tokens.into_iter().map(|view| TokenObject::new(view, now)).collect();
    let total = Total::Exact(items.len() as u64);
    answer::ok(&Listed::new(items, total, None))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// What its holder is called: letters, digits and `._@+-`.
    name: String,
    /// `viewer`, `operator`, `approver`, `designer`, `worker`, `admin`.
    roles: Vec<String>,
    /// How long it is good, such as `90d`.
    expires_in: Option<String>,
    /// Or until when, RFC 3339.
    expires_at: Option<String>,
}

impl Wanted {
    /// The token, or everything that is wrong with it.
    fn read(self, caller: &Caller, now: Timestamp) -> Result<NewToken, Problem> {
        let mut wrong = Vec::new();
        let name = self.name.trim().to_owned();
        wrong.extend(wrong_name(&name));
        let mut roles: Vec<Role> = Vec::new();
        for (place, text) in self.roles.iter().enumerate() {
            match text.parse() {
                Ok(role) if !roles.contains(&role) => roles.push(role),
                Ok(_) => {}
                Err(()) => {
                    let path = format!("roles[{place}]");
                    let unknown = Wrong::new(path, "role", format!("there is no role {text:?}"));
                    wrong.push(unknown.allow(Role::ALL.map(Role::name).join(", ")));
                }
            }
        }
        if self.roles.is_empty() {
            let none = Wrong::new("roles", "missing", "a token without a role is good for nothing");
            wrong.push(none.allow(Role::ALL.map(Role::name).join(", ")));
        }
        let expires_at = expiry(self.expires_in.as_deref(), self.expires_at.as_deref(), now);
        let expires_at = expires_at.unwrap_or_else(|mistake| {
            wrong.push(*mistake);
            None
        });
        if !wrong.is_empty() {
            return Err(Problem::invalid(wrong));
        }
        // Nobody could make another one after that.
        if caller.standing == Standing::Anyone && !roles.contains(&Role::Admin) {
            let first = "the first token must have the role admin: from then on nobody may do \
                         anything without one";
            let wrong = Wrong::new("roles", "first", first);
            return Err(Problem::invalid([wrong.suggest("make one for yourself with role admin")]));
        }
        let roles = roles.iter().map(Role::to_string).collect();
        let created_by = caller.name.to_string();
        Ok(NewToken { name, hash: [0; 32], roles, created_by, expires_at })
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

/// Makes a token. Its secret is in the answer, and nowhere else. The first one that is ever made needs the role
/// admin, unless the node has a token of its own: from then on a token is needed for everything.
#[utoipa::path(post, path = "/tokens", tag = "access", request_body = Wanted,
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
    let wanted: Wanted = body.read()?;
    let now = app.now();
    let new = wanted.read(&caller, now)?;
    let (secret, hash) = app.new_token_secret()?;
    let audit = caller.audit(Some(format!("{}: {}", new.name, new.roles.join(", "))));
    let made = app.store().create_token(NewToken { hash, ..new }, now, audit).await;
    app.known().forget();
    let token = TokenObject::new(made?, now);
    answer::json(StatusCode::CREATED, &Made { token, secret })
}

/// The same answer again would have the secret in it, which is kept nowhere.
fn refuse_key(body: &JsonBody) -> Result<(), Problem> {
    match &body.idempotency {
        Some(_) => Err(Problem::bad_request(
            "Tokens are made without an Idempotency-Key: a secret is shown once, and a name is \
             given once.",
        )),
        None => Ok(()),
    }
}

/// A token is good no more, and whoever has signed in with it is signed out. Other nodes know within a second.
#[utoipa::path(post, path = "/tokens/{id}/revoke", tag = "access",
    params(("id" = String, Path, description = "The id, or the name")),
    responses((status = 200, body = TokenObject), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    _: JsonBody,
) -> Answered {
    let unknown = || Problem::not_found("token", &id);
    let tokens = app.store().tokens().await?;
    // A name may look like an id: the id counts.
    let by_id = tokens.iter().find(|token| token.id.to_string() == id);
    let known = by_id.or_else(|| tokens.iter().find(|token| token.name == id));
    let known = known.ok_or_else(unknown)?;
    let now = app.now();
    let audit = caller.audit(Some(known.name.clone()));
    let revoked = app.store().revoke_token(known.id, now, audit).await;
    app.known().forget();
    answer::ok(&TokenObject::new(revoked?.ok_or_else(unknown)?, now))
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
