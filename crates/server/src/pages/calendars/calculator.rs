//! Calculates with working time: adds an amount, and measures between two instants.

use calendar::{Amount, Calendar, Dst, parse_instant};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::http::query::Values;
use crate::pages::form;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// The values of the form, as they were typed.
#[derive(Debug, Default)]
pub(super) struct Sum {
    start: Option<String>,
    amount: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

impl Sum {
    pub(super) fn read(values: &mut Values) -> Sum {
        Sum {
            start: values.text("start"),
            amount: values.text("amount"),
            from: values.text("from"),
            to: values.text("to"),
        }
    }
}

pub(super) fn show(context: &PageContext, calendar: &Calendar, sum: &Sum) -> Markup {
    let today = calendar.zone().wall(context.now).strftime("%Y-%m-%dT%H:%M").to_string();
    let or_now = |text: &Option<String>| text.clone().unwrap_or_else(|| today.clone());
    html! {
        form.form method="get" action="#calculator" {
            div.fields {
                (form::text("From", "start", &or_now(&sum.start), "A time on the calendar's clock."))
                (form::text("Working time", "amount", sum.amount.as_deref().unwrap_or("2d"), "2d, 16h, 90m; −1d to go back."))
            }
            div.row { button type="submit" { "When is that?" } }
            @if let (Some(start), Some(amount)) = (&sum.start, &sum.amount) {
                (said(later(calendar, start, amount)))
            }
        }
        form.form method="get" action="#calculator" {
            div.fields {
                (form::text("From", "from", &or_now(&sum.from), ""))
                (form::text("To", "to", &or_now(&sum.to), ""))
            }
            div.row { button type="submit" { "How much is that?" } }
            @if let (Some(from), Some(to)) = (&sum.from, &sum.to) {
                (said(between(calendar, from, to)))
            }
        }
    }
}

fn said(answer: Result<String, String>) -> Markup {
    match answer {
        Ok(text) => html! { p.said.is-ok role="status" { (text) } },
        Err(text) => html! { p.said.is-bad role="alert" { (text) } },
    }
}

fn instant(calendar: &Calendar, text: &str) -> Result<Timestamp, String> {
    parse_instant(text, calendar.zone(), Dst::FIXED).map_err(|problem| problem.to_string())
}

fn later(calendar: &Calendar, start: &str, amount: &str) -> Result<String, String> {
    let start = instant(calendar, start)?;
    let parsed = Amount::parse(&amount.replace('−', "-")).map_err(|problem| problem.to_string())?;
    let result = calendar.add(start, parsed);
    let result = result.ok_or("The calendar does not hold that much working time.")?;
    Ok(when::full(calendar.zone(), result))
}

fn between(calendar: &Calendar, from: &str, to: &str) -> Result<String, String> {
    let (from, to) = (instant(calendar, from)?, instant(calendar, to)?);
    let found = calendar.between(from, to);
    let found = found.ok_or("The second time has to be after the first, within a century.")?;
    let minutes = found.working.as_mins();
    Ok(format!(
        "{} h {} min of working time, on {} working days; {} days of weekends, {} holidays, {} exceptions.",
        minutes / 60,
        minutes % 60,
        found.working_days,
        found.weekend_days,
        found.holidays,
        found.exceptions
    ))
}
