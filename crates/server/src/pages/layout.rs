//! The frame of every page: navigation, the user, and the message about the last action.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::assets;
use super::page_context::{PageContext, SAID_COOKIE};
use crate::http::access::Permission;

/// A page before it is framed.
pub(super) struct Page {
    pub(super) title: String,
    /// What updates the page, as [`super::live`] takes it; `None` if it does not update.
    pub(super) live: Option<String>,
    pub(super) content: Markup,
}

impl Page {
    /// A page that does not update.
    pub(super) fn new(title: impl Into<String>, content: Markup) -> Page {
        Page { title: title.into(), live: None, content }
    }

    /// Makes the page update when something changes: `all`, `run:ID`, `schedule:ID`, `workflow:ID`.
    #[must_use]
    pub(super) fn live(mut self, about: impl Into<String>) -> Page {
        self.live = Some(about.into());
        self
    }
}

/// The entries of the navigation: address, name, keyboard shortcut, permission.
const PLACES: [(&str, &str, &str, Permission); 13] = [
    ("/", "Overview", "o", Permission::Read),
    ("/schedules", "Schedules", "s", Permission::Read),
    ("/workflows", "Workflows", "w", Permission::Read),
    ("/runs", "Runs", "r", Permission::Read),
    ("/incidents", "Incidents", "i", Permission::Read),
    ("/approvals", "Approvals", "a", Permission::Read),
    ("/topics", "Topics", "t", Permission::Read),
    ("/calendars", "Calendars", "c", Permission::Read),
    ("/nodes", "Nodes", "n", Permission::Read),
    ("/tokens", "Tokens", "k", Permission::Administer),
    ("/audit", "Audit log", "l", Permission::Administer),
    ("/settings", "Settings", "e", Permission::Read),
    ("/docs", "API", "d", Permission::Read),
];

impl PageContext {
    /// Renders the page in its frame.
    pub(super) fn show(&self, page: Page) -> Response {
        self.show_with(StatusCode::OK, page)
    }

    /// The same with another status.
    pub(super) fn show_with(&self, status: StatusCode, page: Page) -> Response {
        let mut response = (status, self.framed(&page).into_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.said.is_some() {
            let forget = format!("{SAID_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
            headers.extend(HeaderValue::from_str(&forget).ok().map(|value| (SET_COOKIE, value)));
        }
        response
    }

    fn framed(&self, page: &Page) -> Markup {
        let theme = self.theme.map(super::page_context::Theme::name);
        html! {
            (DOCTYPE)
            html lang="en" data-theme=[theme] {
                (head(&page.title))
                body data-live=[page.live.as_deref()] data-now=(self.now)
                    data-zone=(self.zone.name()) {
                    a.skip href="#content" { "Skip to the content" }
                    div.frame {
                        (self.side())
                        main #content tabindex="-1" {
                            @if let Some(said) = &self.said {
                                div.said.is-ok #said role="status" { (said) }
                            }
                            (page.content)
                        }
                    }
                }
            }
        }
    }

    fn side(&self) -> Markup {
        let path = self.address.split('?').next().unwrap_or_default();
        let is_here = |prefix: &str| match prefix {
            "/" => path == "/",
            prefix => path.strip_prefix(prefix).is_some_and(|r| r.is_empty() || r.starts_with('/')),
        };
        html! {
            header.side {
                div.side-inner {
                    a.brand href="/" { (MARK) "Punctual" }
                    nav aria-label="Places" {
                        ul {
                            @for (address, name, key, needs) in PLACES {
                                @if self.may(needs) {
                                    li {
                                        a href=(address) data-key=(key)
                                            aria-current=[is_here(address).then_some("page")] { (name) }
                                    }
                                }
                            }
                        }
                    }
                    div.who {
                        span { "You are " strong { (self.caller.name) } }
                        span { "Times: " (self.zone.name()) }
                        @if self.caller.name.as_ref() != "anyone" {
                            form method="post" action="/sign-out" {
                                input type="hidden" name="_key" value=(self.form_key());
                                button.plain type="submit" { "Sign out" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The HTML head of every page, also of pages without a frame.
pub(super) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) " · Punctual" }
            link rel="icon" href=(assets::ICON.address());
            link rel="stylesheet" href=(assets::STYLE.address());
            script src=(assets::SCRIPT.address()) defer {}
        }
    }
}

/// The logo: a clock at nine o'clock sharp.
const MARK: PreEscaped<&str> = PreEscaped(
    r#"<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" aria-hidden="true"><circle cx="12" cy="12" r="9"/><path d="M12 6.5V12H7.5"/></svg>"#,
);
