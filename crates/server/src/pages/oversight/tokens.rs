//! The page of access tokens: make one, see its secret once, revoke it.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use store::{TokenRow, TokenView, UnreadableToken};

use crate::http::access::{Permission, Role};
use crate::http::body::RawBody;
use crate::http::problem::Problem;
use crate::pages::badge::badge;
use crate::pages::error_page::told;
use crate::pages::form::{self, Action};
use crate::pages::forms;
use crate::pages::layout::Page;
use crate::pages::listing::{empty, heads};
use crate::pages::page_context::PageContext;
use crate::pages::when;

pub(super) async fn list(context: PageContext) -> Result<Response, Problem> {
    show(&context, StatusCode::OK, html! {}).await
}

/// Makes a token. Its secret is on the returned page, and nowhere else.
pub(super) async fn create(context: PageContext, body: RawBody) -> Result<Response, Problem> {
    let form = forms::read(&context, &body.text)?;
    match forms::call(&context, Method::POST, "tokens", &form).await {
        Ok(made) => show(&context, StatusCode::CREATED, secret(&made)).await,
        Err(problem) => show(&context, problem.status(), told(&problem)).await,
    }
}

fn secret(made: &Value) -> Markup {
    let text = |name: &str| made[name].as_str().unwrap_or_default();
    html! {
        div.said.is-ok #secret role="status" {
            p { "This is the secret of " strong { (text("name")) } ". It is shown this once: keep it now." }
            pre tabindex="0" { (text("secret")) }
        }
    }
}

async fn show(
    context: &PageContext,
    status: StatusCode,
    said: Markup,
) -> Result<Response, Problem> {
    let tokens = context.app.store().tokens().await?;
    let content = html! {
        div.head { h1 { "Tokens" } }
        (said)
        section.card.flush id="tokens" {
            @if tokens.is_empty() {
                (empty("There are no tokens.", html! {
                    p { "Whoever reaches this node from its own machine may do everything. The first token has to be an admin's." }
                }))
            } @else {
                (rows(context, &tokens))
            }
        }
        section.card { h2 { "New token" } (new_form(context)) }
    };
    Ok(context.show_with(status, Page::new("Tokens", content)))
}

fn new_form(context: &PageContext) -> Markup {
    html! {
        form.form method="post" action="/tokens" {
            input type="hidden" name="_key" value=(context.form_key());
            div.fields {
                (form::text("Name", "name", "", "Who has it: letters, digits and ._@+-. The audit log names it."))
                (form::text("Queues", "queues:parts", "", "For the role worker: which ones it claims from, with commas between them; nothing for all."))
                (form::text("Good for", "expires_in", "90d", "Such as 90d or 12h; nothing for ever."))
            }
            fieldset {
                legend { "Roles" }
                @for role in Role::ALL {
                    div.check {
                        input type="checkbox" id={ "role-" (role) } name="roles:list" value=(role);
                        label for={ "role-" (role) } { (role) span.muted.small { " – " (meaning(role)) } }
                    }
                }
            }
            div.row { button.main type="submit" { "Make the token" } }
        }
    }
}

fn meaning(role: Role) -> &'static str {
    match role {
        Role::Viewer => "sees everything but tokens and the audit log",
        Role::Operator => "starts, pauses, cancels, retries, publishes",
        Role::Approver => "decides what people are asked",
        Role::Designer => "declares workflows, schedules and calendars",
        Role::Worker => "claims attempts, and nothing else",
        Role::Admin => "everything, tokens and the audit log too",
    }
}

fn rows(context: &PageContext, tokens: &[TokenRow]) -> Markup {
    html! {
        table.cards {
            (heads(&["Name", "Roles", "State", "Made", "Good until", ""]))
            tbody {
                @for token in tokens {
                    @match token {
                        Ok(token) => (row(context, token)),
                        Err(token) => (unreadable_row(context, token)),
                    }
                }
            }
        }
    }
}

fn row(context: &PageContext, token: &TokenView) -> Markup {
    html! {
        tr id={ "token-" (token.id) } {
            td.name { (token.name) }
            td data-label="roles" {
                (token.roles.join(", "))
                @if let Some(queues) = &token.queues {
                    span.muted.small { " for " (queues.join(", ")) }
                }
            }
            td data-label="state" { (state(context, token)) }
            td data-label="made" {
                (when::at(context, token.created_at)) span.muted.small { " by " (token.created_by) }
            }
            td data-label="good until" { (when::or_dash(context, token.expires_at)) }
            td.actions { @if token.is_valid(context.now) { (revoke(context, token.id)) } }
        }
    }
}

/// A token whose row in the store is damaged: it admits nobody, and can be revoked.
fn unreadable_row(context: &PageContext, token: &UnreadableToken) -> Markup {
    let (word, class) =
        if token.is_revoked { ("revoked", "is-idle") } else { ("unreadable", "is-bad") };
    html! {
        tr id={ "token-" (token.id) } {
            td.name { (token.name) }
            td data-label="roles" { span.muted.small { (token.why) } }
            td data-label="state" { (badge(word, class)) }
            td data-label="made" { "–" }
            td data-label="good until" { "–" }
            td.actions { @if !token.is_revoked { (revoke(context, token.id)) } }
        }
    }
}

fn revoke(context: &PageContext, token: i64) -> Markup {
    html! {
        @if context.may(Permission::Administer) {
            (Action::new(format!("tokens/{token}/revoke"), "Revoke")
                .ask("Whoever has this token can do nothing any more. Revoke it?")
                .said("Revoked.")
                .next("/tokens")
                .show(context))
        }
    }
}

fn state(context: &PageContext, token: &TokenView) -> Markup {
    match token.revoked_at {
        Some(_) => badge("revoked", "is-idle"),
        None if token.is_valid(context.now) => badge("active", "is-ok"),
        None => badge("expired", "is-warn"),
    }
}
