//! Answers "Why did it not run at …?" in sentences.

use maud::{Markup, html};

use super::one::Looked;
use crate::http::problem::Problem;
use crate::http::schedules::coming::instant_in;
use crate::http::schedules::occurrences::sentences;
use crate::pages::page_context::PageContext;
use crate::pages::{error_page, form};

pub(super) async fn card(
    context: &PageContext,
    looked: &Looked,
    at: Option<&str>,
) -> Result<Markup, Problem> {
    let told = match at.map(|text| instant_in(&looked.zone, "at", text)).transpose() {
        Ok(at) => lines(&sentences(&context.app, &looked.view, at).await?),
        Err(problem) => error_page::told(&problem),
    };
    let label = format!("Why did it run, or not, at ({})", looked.zone.name());
    Ok(html! {
        section.card #why {
            h2 { "Why?" }
            form.search method="get" action={ (looked.address()) "#why" } {
                (form::field(&label, "at", "", html! {
                    input type="datetime-local" step="1" id="at" name="at" value=[at];
                }))
                button type="submit" { "Explain" }
                @if at.is_some() { a.button href={ (looked.address()) "#why" } { "Explain now" } }
            }
            (told)
        }
    })
}

fn lines(sentences: &[String]) -> Markup {
    html! { ul.plain.lines { @for sentence in sentences { li { (sentence) } } } }
}
