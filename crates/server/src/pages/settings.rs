//! Settings of the user: the time zone and the theme. They are kept in cookies.

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use axum::routing::get;
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::form::{field, select};
use super::forms;
use super::layout::Page;
use super::page_context::{PageContext, THEME_COOKIE, Theme, ZONE_COOKIE};
use crate::http::App;
use crate::http::body::RawBody;
use crate::http::problem::Problem;

const YEAR: u32 = 365 * 86_400;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/settings", get(show).post(save))
}

async fn show(context: PageContext) -> Result<Response, Problem> {
    let zones = context.app.rules().zones().names();
    let themes = [("", "As my system says"), ("light", "Light"), ("dark", "Dark")];
    let zone = html! {
        input type="text" id="zone" name="zone" list="zones" value=(context.zone.name()) autocomplete="off";
        datalist id="zones" { @for zone in &zones { option value=(zone) {} } }
    };
    let roles: Vec<&str> = context.caller.roles.iter().map(|role| role.name()).collect();
    let content = html! {
        div.head { h1 { "Settings" } }
        div.columns {
            section.card {
                h2 { "How you see things" }
                form.form method="post" action="/settings" {
                    input type="hidden" name="_key" value=(context.form_key());
                    (field("Zone of times", "zone", "Schedules show their own zone besides.", zone))
                    (select("Colours", "theme", context.theme.map_or("", Theme::name), &themes))
                    div.row { button.main type="submit" { "Save" } }
                }
            }
            section.card {
                h2 { "Who you are" }
                dl.facts {
                    dt { "Name" } dd { (context.caller.name) }
                    dt { "Roles" } dd { (roles.join(", ")) }
                }
            }
            section.card {
                h2 { "Keys" }
                dl.facts {
                    dt { kbd { "/" } } dd { "to search" }
                    dt { kbd { "g" } " then " kbd { "o s w r a t c n" } }
                    dd { "to Overview, Schedules, Workflows, Runs, Approvals, Topics, Calendars, Nodes" }
                }
            }
        }
    };
    Ok(context.show(Page::new("Settings", content)))
}

async fn save(context: PageContext, body: RawBody) -> Result<Response, Problem> {
    let form = forms::read(&context, &body.text)?;
    let value = |name: &str| form.values.text(name);
    let zone = context.app.rules().zones().get(value("zone")).map_err(|problem| {
        Problem::from(vec![calendar::Mistake { path: "zone".to_owned(), problem }])
    })?;
    let theme = value("theme");
    let kept = |name: &str, value: &str, seconds: u32| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        format!("{name}={value}; Path=/; Max-Age={seconds}; SameSite=Lax")
    };
    let theme_seconds = if matches!(theme, "light" | "dark") { YEAR } else { 0 };
    let cookies = [kept(ZONE_COOKIE, zone.name(), YEAR), kept(THEME_COOKIE, theme, theme_seconds)];
    let mut response = forms::go("/settings", Some("Saved in this browser."), false)?;
    for cookie in cookies {
        let cookie = HeaderValue::from_str(&cookie).ok();
        response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    }
    Ok(response)
}
