//! Live output of commands and scripts.

use axum::http::Method;
use maud::{Markup, html};

use super::steps::called;
use crate::http::runs::{StepObject, WholeRun};
use crate::pages::page_context::PageContext;
use crate::pages::value::visible;

/// For how many steps live output is shown.
const MOST: usize = 3;
/// How many bytes of the latest output are shown.
const LONGEST: usize = 8 * 1024;

/// The live output of the wanted steps. It may change without a notice, so `data-again` makes the
/// script load the page again periodically.
pub(super) async fn now(
    context: &PageContext,
    whole: &WholeRun,
    is_wanted: impl Fn(&StepObject) -> bool,
) -> Markup {
    let speaks = |step: &&StepObject| matches!(step.kind, "exec" | "script");
    let running = whole.steps.iter().filter(|step| step.part.status == "running");
    let mut said = Vec::new();
    for step in running.filter(speaks).filter(|step| is_wanted(step)).take(MOST) {
        said.extend(of_step(context, whole, step).await.map(|text| (step, text)));
    }
    html! {
        @for (step, text) in &said {
            section.card id={ "said-by-" (step.id) } data-again {
                header { h2 { "What " (called(step)) " says" } span.small.muted { "as it comes" } }
                pre tabindex="0" { (text) }
            }
        }
    }
}

/// The end of a step's output, if there is any. Output that this node does not have is left out.
async fn of_step(context: &PageContext, whole: &WholeRun, step: &StepObject) -> Option<String> {
    let path = format!("/api/v1/runs/{}/steps/{}/output", whole.view.run.id, step.id);
    let answer = context.app.call(&context.caller, Method::GET, &path, None).await;
    let (_, answer) = answer.ok()?;
    let text = answer["text"].as_str().filter(|text| !text.is_empty())?;
    let mut start = text.len().saturating_sub(LONGEST);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    Some(visible(&text[start..], 2 * LONGEST))
}
