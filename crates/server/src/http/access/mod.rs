//! The access check: every request passes it before its route is entered.
//!
//! It decides by the matched route, not by the text of the path, with one table (`rules.rs`).

mod caller;
mod cookie;
mod known;
mod lasting;
mod origin;
mod role;
mod rules;
mod secret;
mod sign_in;
mod strength;
mod wrongs;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use url::form_urlencoded;

pub use caller::{AuditedAction, Caller, Standing};
pub(super) use cookie::SIGN_IN;
pub(crate) use cookie::cookies;
pub(crate) use known::{Known, has_admin};
pub use origin::local_path;
pub use role::{Permission, Role};
pub(crate) use secret::Token;
pub(in crate::http) use secret::{hash, random};
pub use sign_in::{SignedIn, sign_in, sign_out};
pub use strength::token_weakness;
pub(crate) use wrongs::Wrongs;

use self::known::Shown;
use self::lasting::Pass;
pub(super) use self::rules::{Need, Ruled, ruled};
use super::App;
use super::problem::Problem;

/// The header in which scripts of our pages send the form key with each change.
pub(super) const FORM_KEY: &str = "x-form-key";

/// The address of the peer, set by its connection. Headers that claim another address are ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Marks a request that only its signature can admit.
#[derive(Clone)]
pub(super) struct Uninvited(pub(super) Problem);

impl App {
    /// A new secret for a token, and its hash. The secret is shown once and not stored.
    pub(super) fn new_token_secret(&self) -> Result<(String, store::SecretHash), Problem> {
        let secret = format!("{}{}", secret::PREFIX, secret::random()?);
        let hash = secret::hash(&secret);
        Ok((secret, hash))
    }
}

/// Middleware that admits a request or refuses it.
pub(super) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match admitted(&app, &mut request).await {
        Ok(Admitted { cookie, pass }) => {
            let caller = request.extensions().get::<Caller>().cloned();
            let mut response = match pass {
                Some(pass) => lasting::while_admitted(app, pass, next.run(request)).await,
                None => next.run(request).await,
            };
            // Error pages show the caller what they may do.
            if let Some(caller) = caller {
                response.extensions_mut().insert(caller);
            }
            if let Some(cookie) = cookie {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
            response
        }
        Err(problem) => refused(&request, problem),
    }
}

/// Redirects people to the sign-in page where programs get 401.
fn refused(request: &Request, problem: Problem) -> Response {
    let accepts = request.headers().get_all(ACCEPT).iter();
    let mut accepts = accepts.filter_map(|value| value.to_str().ok());
    let is_unknown = problem.status() == StatusCode::UNAUTHORIZED;
    let is_page = !is_api(request.uri().path()) && accepts.any(|text| text.contains("text/html"));
    if !is_unknown || !is_page {
        return problem.into_response();
    }
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let next = local_path(if origin::is_safe(request.method()) { target } else { "/" });
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let address = HeaderValue::from_str(&format!("/sign-in?next={next}"));
    let address = address.unwrap_or(HeaderValue::from_static("/sign-in"));
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

/// What an admitted request leads to.
#[derive(Default)]
struct Admitted {
    /// A cookie to set with the response.
    cookie: Option<HeaderValue>,
    /// The pass that must stay valid while the response lasts.
    pass: Option<Pass>,
}

/// Admits a request and puts its caller into it.
async fn admitted(app: &App, request: &mut Request) -> Result<Admitted, Problem> {
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let ruled = route.as_deref().map(|route| ruled(request.method(), route));
    // The request comes from our own pages, which have already admitted the caller.
    if let Some(caller) = request.extensions().get::<Caller>().cloned() {
        return may_go_on(request, caller, ruled, route.as_deref()).map(|()| Admitted::default());
    }
    // A proxy between may have checked the other Host header.
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        return Err(Problem::bad_request("The request has more than one Host header. Send one."));
    }
    if matches!(route.as_deref(), Some("/healthz" | "/readyz")) {
        return Ok(Admitted::default());
    }
    let host = origin::host(request);
    let lasts = route.as_deref().is_some_and(lasting::is_lasting);
    let may_be_foreign = origin::is_safe(request.method()) && !lasts;
    if !may_be_foreign && origin::is_foreign(request.headers(), host) {
        let detail = "The request comes from a page of another site.";
        return Err(Problem::forbidden(detail));
    }
    let is_open = app.known().is_open(app.store().as_ref()).await?;
    // Protects an open node from DNS rebinding: a foreign page whose name resolves to this machine
    // still sends its own name as the host.
    if is_open && !host.is_some_and(origin::is_loopback) {
        return Err(wrong_host());
    }
    let from = request.extensions().get().map(|Peer(from)| *from);
    let (caller, cookie) = match ruled {
        _ if is_open => anyone(request, route.as_deref())?,
        Some(Ruled::Needs(Need::Public)) => (Caller::nobody(), None),
        _ => (shown(app, request.headers(), from).await?.unwrap_or_else(Caller::nobody), None),
    };
    let caller = Caller { from, ..caller };
    check_form_key(request, &caller, route.as_deref())?;
    let pass = if !lasts {
        None
    } else if is_open {
        Some(Pass::Open)
    } else {
        secret(request.headers()).map(|(shown, secret)| Pass::Secret(shown, secret.into()))
    };
    may_go_on(request, caller, ruled, route.as_deref())?;
    Ok(Admitted { cookie, pass })
}

/// The caller on an open node. Forms have a key all the same: it is derived from a random cookie
/// that is not stored.
fn anyone(
    request: &Request,
    route: Option<&str>,
) -> Result<(Caller, Option<HeaderValue>), Problem> {
    let has_pages = route.is_some_and(|route| !is_api(route) && route != "/metrics");
    let with_key = |secret: &str| Caller {
        form_key: Some(secret::form_key(secret).into()),
        ..Caller::anyone()
    };
    match cookie::given(request.headers(), cookie::ANYONE) {
        Some(secret) => Ok((with_key(secret), None)),
        None if has_pages && request.method() == Method::GET => {
            let secret = secret::random()?;
            let cookie = cookie::set(cookie::ANYONE, &secret, None, false);
            Ok((with_key(&secret), Some(cookie)))
        }
        None => Ok((Caller::anyone(), None)),
    }
}

/// The caller, by a token or a sign-in.
async fn shown(
    app: &App,
    headers: &HeaderMap,
    from: Option<IpAddr>,
) -> Result<Option<Caller>, Problem> {
    let Some((shown, secret)) = secret(headers) else { return Ok(None) };
    let holder = app.known().holder(app.store().as_ref(), shown, secret, app.now()).await?;
    if holder.is_none() && shown == Shown::Token {
        app.wrong().slow(from).await?;
    }
    Ok(holder.map(|holder| holder.caller))
}

/// The secret that a request shows: a token, or otherwise the cookie of a sign-in.
fn secret(headers: &HeaderMap) -> Option<(Shown, &str)> {
    if headers.contains_key(AUTHORIZATION) {
        bearer(headers).map(|secret| (Shown::Token, secret))
    } else {
        cookie::given(headers, cookie::SIGN_IN).map(|secret| (Shown::SignIn, secret))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty()).then_some(secret)
}

/// Protects against forged requests: a browser sends its cookie whoever causes the request, but
/// only our pages know the form key. Forms send it in a field, which the route checks.
fn check_form_key(request: &Request, caller: &Caller, route: Option<&str>) -> Result<(), Problem> {
    let has_signed_in = caller.form_key.is_some() && caller.standing != Standing::Anyone;
    if !has_signed_in || origin::is_safe(request.method()) {
        return Ok(());
    }
    let given = request.headers().get(FORM_KEY).map(|key| key.to_str().unwrap_or_default());
    match given {
        Some(given) if caller.has_form_key(given) => Ok(()),
        None if route.is_some_and(|route| !is_api(route)) => Ok(()),
        _ => Err(Problem::forbidden(
            "With the cookie of a sign-in, a change needs the page's key in X-Form-Key; programs \
             send a token instead: Authorization: Bearer TOKEN.",
        )),
    }
}

fn may_go_on(
    request: &mut Request,
    caller: Caller,
    ruled: Option<Ruled>,
    route: Option<&str>,
) -> Result<(), Problem> {
    let denied = match ruled {
        Some(Ruled::Needs(Need::Public)) => None,
        Some(Ruled::Needs(Need::Hook)) if caller.standing == Standing::Nobody => Some(unsigned()),
        _ if caller.standing == Standing::Nobody => Some(unknown()),
        Some(Ruled::Needs(Need::Permission(permission))) => lacks(&caller, permission),
        Some(Ruled::Needs(Need::Hook)) => lacks(&caller, Permission::Operate),
        Some(Ruled::Unknown) => Some(Problem::forbidden("Nobody may do this.")),
        // The router answers for unknown paths and for methods that a route does not have.
        Some(Ruled::Needs(Need::Somebody) | Ruled::OtherMethod) | None => None,
    };
    match denied {
        Some(problem) if ruled == Some(Ruled::Needs(Need::Hook)) => {
            request.extensions_mut().insert(Uninvited(problem));
        }
        Some(problem) => return Err(problem),
        None => {}
    }
    let audited = route.map(|route| {
        let (action, target) = (format!("{} {route}", request.method()), request.uri().path());
        Arc::new(AuditedAction { action, target: target.to_owned() })
    });
    request.extensions_mut().insert(Caller { audited, ..caller });
    Ok(())
}

fn lacks(caller: &Caller, permission: Permission) -> Option<Problem> {
    if caller.may(permission) {
        return None;
    }
    let names = |roles: &[Role]| roles.iter().map(|role| role.name()).collect::<Vec<_>>();
    let enough: Vec<Role> = Role::ALL.into_iter().filter(|role| role.allows(permission)).collect();
    let has = match names(&caller.roles).join(", ") {
        none if none.is_empty() => "no role".to_owned(),
        some => some,
    };
    Some(Problem::forbidden(format!(
        "This needs the permission {}: role {}. {} has {has}.",
        permission.name(),
        names(&enough).join(" or "),
        caller.name
    )))
}

fn unknown() -> Problem {
    let detail = "Send a token: Authorization: Bearer TOKEN.";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail)
}

/// The same answer for a webhook trigger that does not exist, and for a call that is not accepted.
fn unsigned() -> Problem {
    let detail = "No webhook trigger of this name takes this call: it is not there, or the call is not \
                  signed with its secret (webhook-id, webhook-timestamp, webhook-signature), or it needs a \
                  token: Authorization: Bearer TOKEN.";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail)
}

fn wrong_host() -> Problem {
    Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "wrong-host",
        "Wrong host",
        "Without a token this node answers to localhost, 127.0.0.1 and [::1] only. \
         Start it with a token to use another name.",
    )
}

fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}
