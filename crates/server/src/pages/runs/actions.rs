//! What people can do about a run: cancel, retry, resolve and approve.

use engine::run::{ActivityStatus, Item, RunStatus};
use maud::{Markup, html};
use store::ApprovalView;

use crate::http::access::Permission;
use crate::http::runs::WholeRun;
use crate::pages::form::{Action, field, hidden};
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// The resolutions of an attempt whose outcome is unknown: the API's value, the button, the
/// meaning.
const RESOLUTIONS: [(&str, &str, &str); 4] = [
    ("applied", "It was done", "the run goes on behind it"),
    ("did_not_happen", "It did not happen", "it is tried again"),
    ("failed", "It failed", "the run gives up, as after any failure"),
    ("skip", "Go on without it", "nobody says what became of it"),
];

/// The buttons beside the title.
pub(super) fn buttons(context: &PageContext, whole: &WholeRun) -> Markup {
    let run = &whole.view.run;
    if !context.may(Permission::Operate) {
        return html! {};
    }
    let again = |from: &'static str, label: &'static str| {
        Action::new(format!("runs/{}/retry", run.id), label)
            .field("from", from)
            .next("/runs/{id}")
            .said("It is tried again, as this run.")
    };
    html! {
        div.row {
            @if !run.status.has_ended() && run.state.ending.is_none() {
                (cancel(context, whole))
            }
            @if matches!(
                run.status,
                RunStatus::Failed | RunStatus::TimedOut | RunStatus::Cancelled
            ) {
                @if run.handler.is_none() {
                    (again("failed", "Retry from where it failed").class("main").show(context))
                }
                (again("start", "Retry from the start").show(context))
            }
        }
    }
}

fn cancel(context: &PageContext, whole: &WholeRun) -> Markup {
    let id = &whole.view.run.id;
    html! {
        details.menu id="cancel" {
            summary.button { "Cancel" }
            form.form.card method="post" action={ "/forms/runs/" (id) "/cancel" } {
                (hidden(context, &context.address, Some("The run is told to end."), None))
                (field("Why", "cancel-reason", "Kept with the run. May be left empty.", html! {
                    input type="text" id="cancel-reason" name="reason" maxlength="500"
                        aria-describedby="cancel-reason-hint";
                }))
                div { button.danger type="submit" { "Cancel the run" } }
            }
        }
    }
}

/// The forms to resolve a suspended run.
pub(super) fn resolutions(context: &PageContext, whole: &WholeRun) -> Markup {
    let run = &whole.view.run;
    let unknown =
        run.state.active.iter().filter(|a| matches!(a.status, ActivityStatus::Unknown { .. }));
    let mut steps: Vec<u32> = unknown.map(|active| active.step).collect();
    steps.dedup();
    html! {
        @for index in steps {
            @let step = whole.definition.steps.get(index as usize);
            @if let Some(step) = step {
                section.card id={ "resolve-" (index) } {
                    h2 { "What became of " (step.name.as_ref().unwrap_or(&step.id)) "?" }
                    p {
                        "An attempt was under way when its node was lost, or nobody answered for it. "
                        "Trying it again could do it twice: somebody has to look, and to say."
                    }
                    @if let Some(error) = &run.error { p.muted { (error.message) } }
                    @if context.may(Permission::Operate) {
                        (resolution(context, whole, index, &step.id))
                    }
                }
            }
        }
    }
}

fn resolution(context: &PageContext, whole: &WholeRun, index: u32, step: &str) -> Markup {
    let note = format!("note-{index}");
    html! {
        form.form method="post" action={ "/forms/runs/" (whole.view.run.id) "/resolve" } {
            (hidden(context, &context.address, Some("The run goes on."), None))
            input type="hidden" name="step" value=(step);
            div.fields {
                (who(context, &format!("by-{index}")))
                (field("How you know", &note, "", html! {
                    input type="text" id=(note) name="note" maxlength="500";
                }))
            }
            ul.plain.lines {
                @for (value, label, meaning) in RESOLUTIONS {
                    li.row {
                        button type="submit" name="resolution" value=(value) { (label) }
                        span.small.muted { (meaning) }
                    }
                }
            }
        }
    }
}

/// The name of whoever decides: from their token, or typed where there is none.
pub(super) fn who(context: &PageContext, id: &str) -> Markup {
    match &*context.caller.name {
        "anyone" => field(
            "Your name",
            id,
            "",
            html! { input type="text" id=(id) name="by" required maxlength="200" autocomplete="name"; },
        ),
        name => html! { input type="hidden" name="by" value=(name); },
    }
}

/// An open approval, with the form to decide it.
pub(in crate::pages) fn decision(context: &PageContext, asked: &ApprovalView) -> Markup {
    let path = format!("/forms/approvals/{}/{}", asked.run, asked.step);
    let key = format!("{}-{}", asked.run, asked.step);
    html! {
        @if let Some(description) = &asked.description { p.keep { (description) } }
        dl.facts {
            dt { "Asked" } dd { (when::at_and_age(context, asked.asked_at)) }
            @if let Some(deadline) = asked.deadline {
                dt { "To be decided by" }
                dd {
                    (when::at_and_age(context, deadline))
                    @if asked.overdue { " " strong.is-bad { "overdue" } }
                }
            }
            dt { "May decide" }
            dd {
                @if asked.assignees.is_empty() { "anyone who may approve" }
                @else { (asked.assignees.join(", ")) }
            }
        }
        @if context.may(Permission::Approve) {
            form.form method="post" action={ (path) "/approve" } {
                (hidden(context, &context.address, Some("Decided."), None))
                div.fields {
                    (who(context, &format!("by-{key}")))
                    (field("Comment", &format!("comment-{key}"), "", html! {
                        input type="text" id={ "comment-" (key) } name="comment" maxlength="2000";
                    }))
                }
                div.row {
                    button.main type="submit" { "Approve" }
                    button.danger type="submit" formaction={ (path) "/reject" } { "Reject" }
                }
            }
        }
    }
}

/// How many approvals of the run are open.
pub(super) fn asks(whole: &WholeRun) -> usize {
    let active = whole.view.run.state.active.iter();
    active
        .filter(|active| {
            active.item == Item::Whole && matches!(active.status, ActivityStatus::Asked { .. })
        })
        .count()
}
