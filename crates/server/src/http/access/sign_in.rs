//! Signing in to the pages with a token, and signing out.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use jiff::SignedDuration;
use store::{AuditEntry, Failure, NewSignIn};

use super::caller::Caller;
use super::known::Shown;
use super::{cookie, origin, secret};
use crate::http::App;
use crate::http::problem::Problem;

/// How long a sign-in lasts: a working day and a little more, so that nobody has to sign in twice a
/// day.
const LASTS: SignedDuration = SignedDuration::from_hours(12);

#[derive(Debug)]
pub struct SignedIn {
    /// The name of the token.
    pub name: String,
    /// The value of `Set-Cookie`.
    pub cookie: HeaderValue,
}

/// Signs in with a token: the returned cookie stands for it from now on. `headers` are those of the
/// request that carries the secret, `from` is its sender.
pub async fn sign_in(
    app: &App,
    given: &str,
    from: Option<IpAddr>,
    headers: &HeaderMap,
) -> Result<SignedIn, Problem> {
    let known = app.known();
    if known.is_open(app.store().as_ref()).await? {
        return Err(Problem::conflict("There are no tokens yet: nobody has to sign in."));
    }
    let now = app.now();
    let found = known.holder(app.store().as_ref(), Shown::Token, given.trim(), now).await?;
    let Some(holder) = found else {
        app.wrong().refuse_after_many(from).await?;
        let detail = "There is no such token, or it is good no more.";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail));
    };
    let secret = secret::random()?;
    let expires_at = now.checked_add(LASTS).unwrap_or(now);
    let new = NewSignIn { hash: secret::hash(&secret), with: holder.with, expires_at };
    let Caller { name, .. } = holder.caller;
    let audit = AuditEntry {
        who: name.to_string(),
        from: from.map(|from| from.to_string()),
        action: "POST /sign-in".to_owned(),
        target: "/sign-in".to_owned(),
        detail: None,
    };
    let store = app.store().clone();
    let beginning = async move { store.begin_sign_in(new, now, Some(audit)).await };
    app.hub().uninterrupted(beginning).await?;
    let is_secure = origin::is_secure(headers);
    let cookie = cookie::set(cookie::SIGN_IN, &secret, Some(LASTS.as_secs()), is_secure);
    Ok(SignedIn { name: name.to_string(), cookie })
}

/// Signs out the sender of this request: the cookie is no longer valid. Returns the `Set-Cookie`
/// that removes it.
pub async fn sign_out(app: &App, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    if let Some(secret) = cookie::given(headers, cookie::SIGN_IN) {
        let (asked, hash) = (app.clone(), secret::hash(secret));
        let ending = async move {
            asked.store().end_sign_in(hash).await?;
            asked.known().forget();
            Ok::<_, Failure>(())
        };
        app.hub().uninterrupted(ending).await?;
    }
    Ok(cookie::set(cookie::SIGN_IN, "", Some(0), origin::is_secure(headers)))
}
