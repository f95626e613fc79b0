//! Signing in to the pages with a token, and out again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use jiff::SignedDuration;
use store::{AuditEntry, NewSignIn};
use tokio::time::Instant;

use super::caller::Caller;
use super::known::Shown;
use super::{cookie, origin, secret};
use crate::http::App;
use crate::http::problem::Problem;

/// A working day and a little more: nobody has to sign in twice a day.
const LASTS: SignedDuration = SignedDuration::from_hours(12);
/// Wrong tokens from one address within [`WINDOW`]: enough for people who mistype, too few for those who guess.
const MOST_WRONG: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// So many addresses are watched at most.
const MOST_WATCHED: usize = 10_000;

/// Somebody has signed in.
#[derive(Debug)]
pub struct SignedIn {
    /// What the token is called.
    pub name: String,
    /// `Set-Cookie`.
    pub cookie: HeaderValue,
}

/// Signs in with a token: the answer's cookie stands for it from now on. `headers` are those of the request that
/// brings the secret, `from` is who sends it.
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
    app.wrong().check(from)?;
    let now = app.now();
    let found = known.holder(app.store().as_ref(), Shown::Token, given.trim(), now).await?;
    let Some(holder) = found else {
        app.wrong().note(from);
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
    app.store().begin_sign_in(new, now, Some(audit)).await?;
    let is_secure = origin::is_secure(headers);
    let cookie = cookie::set(cookie::SIGN_IN, &secret, Some(LASTS.as_secs()), is_secure);
    Ok(SignedIn { name: name.to_string(), cookie })
}

/// Signs out whoever sent this request: their cookie is good for nothing any more. `Set-Cookie` that takes it away.
pub async fn sign_out(app: &App, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    if let Some(secret) = cookie::given(headers, cookie::SIGN_IN) {
        app.store().end_sign_in(secret::hash(secret)).await?;
        app.known().forget();
    }
    Ok(cookie::set(cookie::SIGN_IN, "", Some(0), origin::is_secure(headers)))
}

/// Wrong tokens, by the address that they came from.
#[derive(Default)]
pub(crate) struct Wrongs(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Wrongs {
    fn seen(&self) -> MutexGuard<'_, HashMap<IpAddr, (Instant, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, from: Option<IpAddr>) -> Result<(), Problem> {
        let seen = self.seen();
        let Some((since, wrong)) = from.and_then(|from| seen.get(&whole(from))) else {
            return Ok(());
        };
        if *wrong < MOST_WRONG || Instant::now() >= *since + WINDOW {
            return Ok(());
        }
        let detail = format!("{MOST_WRONG} wrong tokens came from your address. Wait a minute.");
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many requests", detail))
    }

    fn note(&self, from: Option<IpAddr>) {
        let (Some(from), now) = (from.map(whole), Instant::now()) else { return };
        let mut seen = self.seen();
        if seen.len() >= MOST_WATCHED {
            seen.retain(|_, (since, _)| now < *since + WINDOW);
        }
        if seen.len() >= MOST_WATCHED && !seen.contains_key(&from) {
            return;
        }
        let (since, wrong) = seen.entry(from).or_insert((now, 0));
        if now >= *since + WINDOW {
            (*since, *wrong) = (now, 0);
        }
        *wrong += 1;
    }
}

/// Whoever has one IPv6 address has the whole network around it.
fn whole(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn guessing_ends_after_a_few_and_begins_again_after_a_while() {
        let wrongs = Wrongs::default();
        let (one, other) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        for _ in 0..MOST_WRONG {
            assert!(wrongs.check(one).is_ok());
            wrongs.note(one);
        }
        assert_eq!(wrongs.check(one).unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(wrongs.check(other).is_ok() && wrongs.check(None).is_ok());
        tokio::time::advance(WINDOW).await;
        assert!(wrongs.check(one).is_ok());
        wrongs.note(one);
        assert!(wrongs.check(one).is_ok());
    }

    #[test]
    fn a_network_is_one_address() {
        let whole = |text: &str| whole(text.parse().unwrap());
        assert_eq!(whole("2001:db8::1"), whole("2001:db8::ffff"));
        assert_ne!(whole("2001:db8::1"), whole("2001:db8:1::1"));
        assert_ne!(whole("::ffff:192.0.2.1"), whole("::ffff:192.0.2.2"));
    }
}
