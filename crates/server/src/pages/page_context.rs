//! One request for a page: the user, the address, the time, and the user's settings.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use calendar::Zone;
use jiff::Timestamp;

use crate::http::App;
use crate::http::access::{self, Caller, Permission};

/// The cookie that holds the time zone.
pub(super) const ZONE_COOKIE: &str = "punctual_zone";
/// The cookie that holds the theme.
pub(super) const THEME_COOKIE: &str = "punctual_theme";
/// The cookie that holds a message to show once, on the next page.
pub(super) const SAID_COOKIE: &str = "punctual_said";

/// One request for a page.
pub(crate) struct PageContext {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) now: Timestamp,
    /// The zone in which times are shown, unless something declares its own.
    pub(super) zone: Zone,
    /// The chosen theme; the system's own if `None`.
    pub(super) theme: Option<Theme>,
    /// The page's own address, with its query.
    pub(super) address: String,
    /// The message about the action that was just done.
    pub(super) said: Option<String>,
}

/// The colours of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    fn read(text: &str) -> Option<Theme> {
        [Theme::Light, Theme::Dark].into_iter().find(|theme| theme.name() == text)
    }
}

impl PageContext {
    /// Whether the user has this permission. Actions they may not do are not offered.
    pub(super) fn may(&self, permission: Permission) -> bool {
        self.caller.may(permission)
    }

    /// The key that every form sends back.
    pub(super) fn form_key(&self) -> &str {
        self.caller.form_key.as_deref().unwrap_or_default()
    }
}

impl FromRequestParts<App> for PageContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<PageContext, Infallible> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let headers = &parts.headers;
        let wanted = cookie(headers, ZONE_COOKIE);
        let zone = wanted.and_then(|name| app.rules().zones().get(&name).ok());
        let address = parts.uri.path_and_query().map_or("/", |address| address.as_str());
        Ok(PageContext {
            app: app.clone(),
            caller,
            now: app.now(),
            zone: zone.unwrap_or_else(Zone::utc),
            theme: cookie(headers, THEME_COOKIE).and_then(|text| Theme::read(&text)),
            address: address.to_owned(),
            said: cookie(headers, SAID_COOKIE),
        })
    }
}

/// A cookie's value, percent-decoded.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = access::cookies(headers, name).next()?;
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8().ok()?;
    Some(decoded.into_owned())
}
