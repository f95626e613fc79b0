//! The page of access tokens: make one, see its secret once, revoke it.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use store::TokenView;

use crate::http::access::{Permission, Role};
use crate::http::body::RawBody;
use crate::http::problem::Problem;
use crate::pages::badge::badge;
use crate::pages::form::{self, Action};
use crate::pages::forms;
use crate::pages::frame::Page;
use crate::pages::listing::{empty, heads};
use crate::pages::trouble::told;
use crate::pages::visit::Visit;
use crate::pages::when;

pub(super) async fn list(visit: Visit) -> Result<Response, Problem> {
    show(&visit, StatusCode::OK, html! {}).await
}

/// Makes a token. Its secret is on the returned page, and nowhere else.
pub(super) async fn create(visit: Visit, body: RawBody) -> Result<Response, Problem> {
    let form = forms::read(&visit, &body.text)?;
    match forms::call(&visit, Method::POST, "tokens", &form).await {
        Ok(made) => show(&visit, StatusCode::CREATED, secret(&made)).await,
        Err(problem) => show(&visit, problem.status(), told(&problem)).await,
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

async fn show(visit: &Visit, status: StatusCode, said: Markup) -> Result<Response, Problem> {
    let tokens = visit.app.store().tokens().await?;
    let content = html! {
        div.head { h1 { "Tokens" } }
        (said)
        section.card.flush id="tokens" {
            @if tokens.is_empty() {
                (empty("There are no tokens.", html! {
                    p { "Whoever reaches this node from its own machine may do everything. The first token has to be an admin's." }
                }))
            } @else {
                (rows(visit, &tokens))
            }
        }
        section.card { h2 { "New token" } (new_form(visit)) }
    };
    Ok(visit.show_with(status, Page::new("Tokens", content)))
}

fn new_form(visit: &Visit) -> Markup {
    html! {
        form.form method="post" action="/tokens" {
            input type="hidden" name="_key" value=(visit.form_key());
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

fn rows(visit: &Visit, tokens: &[TokenView]) -> Markup {
    html! {
        table.cards {
            (heads(&["Name", "Roles", "State", "Made", "Good until", ""]))
            tbody {
                @for token in tokens {
                    tr id={ "token-" (token.id) } {
                        td.name { (token.name) }
                        td data-label="roles" {
                            (token.roles.join(", "))
                            @if let Some(queues) = &token.queues {
                                span.muted.small { " for " (queues.join(", ")) }
                            }
                        }
                        td data-label="state" { (state(visit, token)) }
                        td data-label="made" {
                            (when::at(visit, token.created_at)) span.muted.small { " by " (token.created_by) }
                        }
                        td data-label="good until" { (when::or_dash(visit, token.expires_at)) }
                        td.actions {
                            @if token.is_valid(visit.now) && visit.may(Permission::Administer) {
                                (Action::new(format!("tokens/{}/revoke", token.id), "Revoke")
                                    .ask("Whoever has this token can do nothing any more. Revoke it?")
                                    .said("Revoked.")
                                    .next("/tokens")
                                    .show(visit))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn state(visit: &Visit, token: &TokenView) -> Markup {
    match token.revoked_at {
        Some(_) => badge("revoked", "is-idle"),
        None if token.is_valid(visit.now) => badge("active", "is-ok"),
        None => badge("expired", "is-warn"),
    }
}
