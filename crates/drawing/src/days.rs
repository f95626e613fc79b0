//! The days of a month or a year as tables: weeks are rows and begin on Monday.
//!
//! A month fills the width of the page. A year has its twelve months side by side and wraps them.

use std::collections::BTreeMap;

use jiff::civil::{Date, Weekday};
use maud::{Markup, html};

/// A day with its contents. Days without contents are drawn too.
#[derive(Clone, Debug)]
pub struct Day {
    pub date: Date,
    /// Classes, such as `day-working`, `day-holiday`, `day-weekend`, `day-today`.
    pub classes: Vec<String>,
    /// What happens on the day. A month shows the first few by name.
    pub marks: Vec<DayMark>,
    /// The target of its number's link.
    pub href: Option<String>,
    /// The name of the day: "Ascension Day". A month shows it; a year has it as a description.
    pub title: Option<String>,
}

/// Something that happens on a day.
#[derive(Clone, Debug)]
pub struct DayMark {
    pub label: String,
    /// A class for its state, such as `is-ok`.
    pub state: String,
    /// The target of its link.
    pub href: Option<String>,
}

/// How many marks of a day are shown by name.
const WRITTEN: usize = 3;

const WEEKDAYS: [(&str, &str); 7] = [
    ("Mo", "Monday"),
    ("Tu", "Tuesday"),
    ("We", "Wednesday"),
    ("Th", "Thursday"),
    ("Fr", "Friday"),
    ("Sa", "Saturday"),
    ("Su", "Sunday"),
];

/// Draws the month that contains a date.
pub fn month(of: Date, days: &[Day]) -> Markup {
    let days = by_date(days);
    html! {
        div class="drawing drawing-month" { (table(of, &days, Form::Month)) }
    }
}

/// Draws the twelve months of a year.
pub fn year(year: i16, days: &[Day]) -> Markup {
    let days = by_date(days);
    let months = (1..=12).filter_map(|month| Date::new(year, month, 1).ok());
    html! {
        div class="drawing drawing-year" {
            @for month in months { (table(month, &days, Form::Year)) }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Month,
    Year,
}

fn by_date(days: &[Day]) -> BTreeMap<Date, &Day> {
    days.iter().map(|day| (day.date, day)).collect()
}

fn table(of: Date, days: &BTreeMap<Date, &Day>, form: Form) -> Markup {
    html! {
        table class="days" {
            caption { (of.strftime("%B %Y").to_string()) }
            thead {
                tr {
                    th scope="col" class="week" { abbr title="Week" { "Wk" } }
                    @for (short, long) in WEEKDAYS {
                        th scope="col" { abbr title=(long) { (short) } }
                    }
                }
            }
            tbody {
                @for week in weeks(of) {
                    tr {
                        @let first = week.iter().flatten().next();
                        th scope="row" class="week" {
                            @if let Some(date) = first { (date.iso_week_date().week()) }
                        }
                        @for date in week {
                            @match date {
                                Some(date) => (cell(date, days.get(&date).copied(), form)),
                                None => td class="day-outside" {},
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The weeks of a month, each from Monday to Sunday; days of other months are `None`.
fn weeks(of: Date) -> Vec<[Option<Date>; 7]> {
    let mut weeks = Vec::new();
    let mut week = [None; 7];
    let dates =
        (1..=of.days_in_month()).filter_map(|day| Date::new(of.year(), of.month(), day).ok());
    for date in dates {
        week[date.weekday().to_monday_zero_offset() as usize] = Some(date);
        if date.weekday() == Weekday::Sunday {
            weeks.push(std::mem::take(&mut week));
        }
    }
    if week[0].is_some() {
        weeks.push(week);
    }
    weeks
}

fn cell(date: Date, day: Option<&Day>, form: Form) -> Markup {
    let number = html! { time datetime=(date.to_string()) { (date.day()) } };
    let Some(day) = day else { return html! { td { (number) } } };
    let href = day.href.as_deref();
    let mut class = day.classes.join(" ");
    if !day.marks.is_empty() {
        class.push_str(" day-marked");
    }
    let said = said(day);
    html! {
        td class=(class.trim()) title=[said.as_deref().filter(|_| form == Form::Year)] {
            @if let Some(href) = href { a href=(href) { (number) } } @else { (number) }
            @match form {
                Form::Month => (written(day)),
                Form::Year => @if let Some(said) = &said {
                    span class="drawing-unseen" { ": " (said) }
                },
            }
        }
    }
}

/// The description of a day in a year: its title, and how much happens.
fn said(day: &Day) -> Option<String> {
    let marks = match day.marks.as_slice() {
        [] => None,
        [one] => Some(one.label.clone()),
        [first, rest @ ..] => Some(format!("{} and {} more", first.label, rest.len())),
    };
    match (&day.title, marks) {
        (Some(title), Some(marks)) => Some(format!("{title}; {marks}")),
        (Some(title), None) => Some(title.clone()),
        (None, marks) => marks,
    }
}

fn written(day: &Day) -> Markup {
    html! {
        @if let Some(title) = &day.title { span class="day-title" { (title) } }
        @if !day.marks.is_empty() {
            ul class="day-marks" {
                @for mark in day.marks.iter().take(WRITTEN) {
                    li class=(mark.state) title=(mark.label) {
                        @if let Some(href) = &mark.href { a href=(href) { (mark.label) } }
                        @else { span { (mark.label) } }
                    }
                }
                @if day.marks.len() > WRITTEN {
                    li class="day-more" { (day.marks.len() - WRITTEN) " more" }
                }
            }
            // Where there is no room for names, only the number is shown.
            span class="day-count" {
                (day.marks.len())
                span class="drawing-unseen" {
                    @if day.marks.len() == 1 { " mark" } @else { " marks" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::check;

    fn day(text: &str, marks: usize) -> Day {
        let mark =
            |n| DayMark { label: format!("run <{n}>"), state: "is-ok".to_owned(), href: None };
        Day {
            date: text.parse().unwrap(),
            classes: vec!["day-holiday".to_owned()],
            marks: (0..marks).map(mark).collect(),
            href: Some("/days".to_owned()),
            title: Some("A day off".to_owned()),
        }
    }

    #[test]
    fn weeks_begin_on_monday() {
        let cases = [
            ("2026-02-01", 5, 1, "2026-02-01"),
            ("2027-02-01", 4, 7, "2027-02-07"),
            ("2024-02-01", 5, 4, "2024-02-04"),
            ("2026-08-01", 6, 2, "2026-08-02"),
        ];
        for (of, count, first_week, sunday) in cases {
            let weeks = weeks(of.parse().unwrap());
            assert_eq!(weeks.len(), count, "{of}");
            assert_eq!(weeks[0].iter().flatten().count(), first_week, "{of}");
            assert_eq!(weeks[0][6], Some(sunday.parse().unwrap()), "{of}");
        }
    }

    #[test]
    fn a_month_has_every_day_once() {
        let drawn = check(&month("2026-02-17".parse().unwrap(), &[day("2026-02-03", 5)]));
        assert_eq!(drawn.matches("<time datetime=\"2026-02-").count(), 28);
        assert!(drawn.contains("<caption>February 2026</caption>"), "{drawn}");
        assert!(drawn.contains("run &lt;2&gt;") && !drawn.contains("run &lt;3&gt;"), "{drawn}");
        assert!(drawn.contains(">2 more</li>") && drawn.contains("day-count\">5"), "{drawn}");
    }

    #[test]
    fn weeks_have_their_numbers() {
        let drawn = check(&month("2027-01-01".parse().unwrap(), &[]));
        let numbers: Vec<&str> = drawn
            .split("<th scope=\"row\" class=\"week\">")
            .skip(1)
            .filter_map(|piece| piece.split('<').next())
            .collect();
        assert_eq!(numbers, ["53", "1", "2", "3", "4"]);
    }

    #[test]
    fn a_year_is_twelve_months() {
        let drawn = check(&year(2028, &[day("2028-02-29", 2), day("2029-01-01", 1)]));
        assert_eq!(drawn.matches("<table").count(), 12);
        assert_eq!(drawn.matches("<time").count(), 366);
        assert!(drawn.contains("A day off; run &lt;0&gt; and 1 more"), "{drawn}");
    }
}
