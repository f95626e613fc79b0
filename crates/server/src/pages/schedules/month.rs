//! A month or a year of a schedule: past and upcoming occurrences per day, and days off.

use std::collections::BTreeMap;

use axum::response::Response;
use calendar::{Calendar, Reason, Zone};
use drawing::days::{Day, DayMark};
use engine::schedule::Ahead;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use maud::{Markup, html};
use store::LedgerQuery;

use super::one::{self, Looked};
use crate::http::path::SchedulePath;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::schedules::coming::instant_in;
use crate::pages::badge;
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;

/// How many ledger rows are read, and how many upcoming occurrences are computed, at most.
const MOST: usize = 1_000;
/// How many upcoming occurrences are computed at first: most rules have no more in a month.
const FEW: usize = 64;
/// How many times of a day are written out; more are counted.
const WRITTEN: usize = 2;
/// The years that calendars cover.
const YEARS: std::ops::RangeInclusive<i16> = 1900..=2299;

/// The query parameter that names a month.
pub(super) struct Month(Option<Date>);

impl Parameters for Month {
    fn read(values: &mut Values) -> Month {
        let Some(text) = values.text("month") else { return Month(None) };
        let first = format!("{text}-01").parse::<Date>().ok();
        let first = first.filter(|date| YEARS.contains(&date.year()));
        if first.is_none() {
            values.refuse("month", "value", "cannot be read", Some("a month such as 2026-11"));
        }
        Month(first)
    }
}

impl Month {
    /// The first day of the month; of the current one in the zone, if none is named.
    pub(super) fn first(self, zone: &Zone, now: Timestamp) -> Date {
        self.0.unwrap_or_else(|| zone.wall(now).date()).first_of_month()
    }
}

/// The query parameter that names a year.
pub(super) struct Year(Option<i16>);

impl Parameters for Year {
    fn read(values: &mut Values) -> Year {
        let year = values.number("year", *YEARS.start() as u64..=*YEARS.end() as u64);
        Year(year.and_then(|year| i16::try_from(year).ok()))
    }
}

pub(super) async fn month(
    context: PageContext,
    SchedulePath(id): SchedulePath,
    Query(month): Query<Month>,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    let first = month.first(&looked.zone, context.now);
    let (days, is_cut) = days(&context, &looked, first, first.last_of_month()).await?;
    let content = html! {
        (one::head(&context, &looked))
        (one::tabs(&looked, "month"))
        section.card #days {
            (around(&format!("{}/month", looked.address()), first))
            (drawing::days::month(first, &days))
            (legend(&looked, is_cut))
        }
    };
    let title = format!("{}, {}", looked.name(), first.strftime("%B %Y"));
    Ok(context.show(Page::new(title, content).live(format!("schedule:{id}"))))
}

pub(super) async fn year(
    context: PageContext,
    SchedulePath(id): SchedulePath,
    Query(Year(year)): Query<Year>,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    let year = year.unwrap_or_else(|| looked.zone.wall(context.now).year());
    let first = Date::constant(year, 1, 1);
    let (days, is_cut) = days(&context, &looked, first, Date::constant(year, 12, 31)).await?;
    let address = |year: i16| format!("{}/year?year={year}", looked.address());
    let content = html! {
        (one::head(&context, &looked))
        (one::tabs(&looked, "year"))
        section.card #days {
            h2.hidden { (year) }
            nav.row aria-label="Years" {
                @if YEARS.contains(&(year - 1)) { a.button rel="prev" href=(address(year - 1)) { (year - 1) } }
                @if YEARS.contains(&(year + 1)) { a.button rel="next" href=(address(year + 1)) { (year + 1) } }
            }
            (drawing::days::year(year, &days))
            (legend(&looked, is_cut))
        }
    };
    let title = format!("{}, {year}", looked.name());
    Ok(context.show(Page::new(title, content).live(format!("schedule:{id}"))))
}

/// The month's name, and links to the months before and after.
pub(super) fn around(address: &str, first: Date) -> Markup {
    let beside = |months: i64| {
        let date = first.checked_add(months.months()).ok()?;
        YEARS.contains(&date.year()).then_some(date)
    };
    let way = |date: Date, rel: &str| {
        html! {
            a.button rel=(rel) href={ (address) "?month=" (date.strftime("%Y-%m")) } {
                (date.strftime("%B %Y"))
            }
        }
    };
    html! {
        h2.hidden { (first.strftime("%B %Y")) }
        nav.row aria-label="Months" {
            @if let Some(date) = beside(-1) { (way(date, "prev")) }
            @if let Some(date) = beside(1) { (way(date, "next")) }
        }
    }
}

fn legend(looked: &Looked, is_cut: bool) -> Markup {
    html! {
        p.small.muted {
            "Days are those of " (looked.zone.name()) "."
            @match &looked.schedule().declared.timing.calendar {
                Some(calendar) => {
                    " Days off are those of " a href={ "/calendars/" (calendar) } { (calendar) } "."
                }
                None => " It has no calendar: all days are alike.",
            }
            @if is_cut { " There is more than can be shown: of what came, the latest " (MOST)
                " are counted; of what comes, the first " (MOST) "." }
        }
    }
}

/// What happened and what is due on a day.
#[derive(Default)]
struct Tally {
    /// The outcomes of past occurrences: how many of each, with their colour.
    came: BTreeMap<&'static str, (u64, &'static str)>,
    /// Times of upcoming occurrences.
    due: Vec<String>,
    /// Upcoming occurrences that are skipped, and why.
    skipped: Vec<String>,
}

impl Tally {
    fn marks(&self) -> Vec<DayMark> {
        let mark =
            |label: String, state: &str| DayMark { label, state: state.to_owned(), href: None };
        let came = self.came.iter().map(|(name, (count, class))| match count {
            1 => mark((*name).to_owned(), class),
            count => mark(format!("{count} × {name}"), class),
        });
        let mut marks: Vec<DayMark> = came.collect();
        match self.due.len() {
            count if count > WRITTEN => marks.push(mark(format!("{count} × due"), "is-run")),
            _ => marks.extend(self.due.iter().map(|time| mark(format!("due {time}"), "is-run"))),
        }
        marks.extend(self.skipped.iter().take(1).map(|said| mark(said.clone(), "is-idle")));
        marks
    }
}

/// The days from `first` to `last`, and whether something is left out.
async fn days(
    context: &PageContext,
    looked: &Looked,
    first: Date,
    last: Date,
) -> Result<(Vec<Day>, bool), Problem> {
    let from = start_of(&looked.zone, first)?;
    let until = start_of(&looked.zone, last.tomorrow().unwrap_or(last))?;
    let mut tallies: BTreeMap<Date, Tally> = BTreeMap::new();
    let came_cut = came(context, looked, from, until, &mut tallies).await?;
    let rows = to_come(looked, context.now, context.now.max(from), until);
    let comes_cut = rows.len() >= MOST;
    for row in &rows {
        let at = row.effective.unwrap_or(row.nominal);
        let wall = looked.zone.wall(at);
        let tally = tallies.entry(wall.date()).or_default();
        match (row.effective, &row.reason) {
            (Some(_), _) => tally.due.push(wall.strftime("%H:%M").to_string()),
            (None, reason) => {
                tally
                    .skipped
                    .push(format!("skipped: {}", reason.as_deref().unwrap_or("a day off")));
            }
        }
    }
    let calendar = looked.plan.as_ref().and_then(|plan| plan.timing.calendar());
    let today = looked.zone.wall(context.now).date();
    let dates = std::iter::successors(Some(first), |date| date.tomorrow().ok());
    let days = dates.take_while(|date| *date <= last).map(|date| {
        let marks = tallies.get(&date).map(Tally::marks).unwrap_or_default();
        day(date, calendar, today, marks)
    });
    Ok((days.collect(), came_cut || comes_cut))
}

fn start_of(zone: &Zone, date: Date) -> Result<Timestamp, Problem> {
    instant_in(zone, "month", &format!("{date}T00:00:00"))
}

/// Counts past occurrences. Returns whether there are more than were read.
async fn came(
    context: &PageContext,
    looked: &Looked,
    from: Timestamp,
    until: Timestamp,
    tallies: &mut BTreeMap<Date, Tally>,
) -> Result<bool, Problem> {
    if from > context.now {
        return Ok(false);
    }
    let query = LedgerQuery {
        schedule: looked.schedule().id,
        outcome: None,
        from: Some(from),
        to: Some(until),
        limit: MOST,
        after: None,
    };
    let page = context.app.store().ledger(query).await?;
    for row in &page.items {
        let date = looked.zone.wall(row.entry.effective).date();
        let outcome = row.entry.outcome;
        let of = tallies.entry(date).or_default().came.entry(outcome.name());
        of.or_insert((0, badge::outcome_class(outcome))).0 += row.entry.count;
    }
    Ok(page.next.is_some())
}

/// The upcoming occurrences before `until`, as far as they are computed.
fn to_come(looked: &Looked, now: Timestamp, from: Timestamp, until: Timestamp) -> Vec<Ahead> {
    let Some(plan) = &looked.plan else { return Vec::new() };
    let from = from.checked_sub(SignedDuration::from_millis(1)).unwrap_or(from);
    let up_to = |count: usize| looked.view.outlook(plan, now).coming_after(from, count);
    let mut rows = up_to(FEW);
    let is_before = |row: &Ahead| row.effective.unwrap_or(row.nominal) < until;
    if rows.len() >= FEW && rows.last().is_some_and(is_before) {
        rows = up_to(MOST);
    }
    rows.retain(is_before);
    rows
}

/// A day with its marks and, by the calendar, whether it is a day off.
pub(super) fn day(
    date: Date,
    calendar: Option<&Calendar>,
    today: Date,
    marks: Vec<DayMark>,
) -> Day {
    let mut classes = Vec::new();
    let mut title = None;
    if let Some(plan) = calendar.map(|calendar| calendar.day(date)) {
        classes.push(match (&plan.reason, plan.is_working()) {
            (_, true) => "day-working".to_owned(),
            (Reason::Weekend(_), false) => "day-weekend".to_owned(),
            (_, false) => "day-holiday".to_owned(),
        });
        if let Reason::Holiday(name) | Reason::Exception(name) = &plan.reason {
            title = Some(name.to_string());
        }
    }
    if date == today {
        classes.push("day-today".to_owned());
    }
    Day { date, classes, marks, href: None, title }
}
