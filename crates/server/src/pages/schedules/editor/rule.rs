//! The fields of the rule: a fieldset for each kind, of which one is shown.

use jiff::civil::DateTime;
use maud::{Markup, html};

use super::form_state::{Field, FormState};
use super::typed::KINDS;

impl FormState<'_> {
    /// The selection of the kind of rule.
    pub(super) fn kind(&self) -> Markup {
        let chosen = self.typed.kind();
        html! {
            div.field {
                label for="rule-kind" { "When" }
                select id="rule-kind" name="_rule" {
                    @for kind in &KINDS {
                        option value=(kind.key) selected[kind.key == chosen] { (kind.name) }
                    }
                }
            }
        }
    }

    /// The fields of each kind. Those of other kinds are disabled, so browsers do not send them.
    pub(super) fn rule(&self) -> Markup {
        let chosen = self.typed.kind();
        html! {
            @for kind in &KINDS {
                fieldset.bare data-when={ "_rule=" (kind.key) } hidden[kind.key != chosen]
                    disabled[kind.key != chosen] {
                    legend.hidden { (kind.name) }
                    (self.part(kind.key))
                }
            }
        }
    }

    fn part(&self, kind: &str) -> Markup {
        match kind {
            "cron" => self.line(
                &Field::new("Cron expression", "cron").placeholder("0 9 * * MON-FRI").hint(
                    "Minute, hour, day, month, weekday; seconds in front and years behind if wanted; \
                     or @daily, @hourly, …",
                ),
            ),
            "interval" => self.interval(),
            "daily" => self.days("daily", "days", "Only on", "every day if left empty"),
            "weekly" => self.days("weekly", "on", "On", "MON-FRI, or MON, THU"),
            "monthly" => self.month(),
            "at" => self.once(),
            "rrule" => self.recurrence(),
            "rules" => self.area(
                &Field::new("Rules", "rules:json")
                    .placeholder(r#"[{"cron": "0 9 * * MON"}, {"cron": "0 12 * * FRI"}]"#)
                    .hint("A list as JSON: it is due whenever one of them is."),
                6,
            ),
            period => self.working_day(period),
        }
    }

    fn interval(&self) -> Markup {
        let from = [("", "a fixed grid"), ("completion", "the end of the run before")];
        html! {
            div.fields {
                (self.line(&Field::new("Every", "interval").placeholder("5m").hint("30s, 5m, 1h30m, 1d")))
                (self.select(&Field::new("Counted from", "from"), &from))
                (self.line(&Field::new("The grid begins at", "anchor").placeholder("now")
                    .hint("such as 2026-03-01T09:00")))
            }
        }
    }

    fn days(&self, key: &str, days: &str, label: &str, hint: &str) -> Markup {
        let (at, on) = (format!("{key}.at:parts"), format!("{key}.{days}:parts"));
        html! {
            div.fields {
                (self.line(&Field::new("At", &at).placeholder("09:00, 17:00").hint("times of day")))
                (self.line(&Field::new(label, &on).placeholder("MON-FRI").hint(hint)))
            }
        }
    }

    fn month(&self) -> Markup {
        html! {
            div.fields {
                (self.line(&Field::new("On", "monthly.day:parts").placeholder("1, 15, last")
                    .hint("1 to 31, -1 from the end, last, 2nd TUE, last FRI")))
                (self.line(&Field::new("Or on working day", "monthly.working_day:number").placeholder("-1")
                    .hint("by the calendar: 1 is the first, -1 the last")))
                (self.line(&Field::new("At", "monthly.at:parts").placeholder("09:00").hint("times of day")))
            }
        }
    }

    fn working_day(&self, period: &str) -> Markup {
        let (day, at) = (format!("{period}.working_day:number"), format!("{period}.at:parts"));
        html! {
            div.fields {
                (self.line(&Field::new("Working day", &day).placeholder("-1")
                    .hint("by the calendar: 1 is the first, -1 the last")))
                (self.line(&Field::new("At", &at).placeholder("09:00").hint("times of day")))
            }
        }
    }

    fn once(&self) -> Markup {
        let typed = self.typed.get("at");
        // A value with an offset does not fit into a field for local times.
        let is_wall =
            typed.is_empty() || (typed.parse::<DateTime>().is_ok() && !typed.ends_with('Z'));
        let field = Field::new("At", "at").hint("on the clock of its zone");
        if is_wall { self.line(&field.kind("datetime-local")) } else { self.line(&field) }
    }

    fn recurrence(&self) -> Markup {
        let dates = "One date and time in each line";
        html! {
            (self.line(&Field::new("Rule", "rrule").placeholder("FREQ=MONTHLY;BYDAY=-1FR")))
            div.fields {
                (self.line(&Field::new("It begins at", "dtstart").placeholder("2026-03-01T09:00")
                    .hint("now, if left empty")))
                (self.area(&Field::new("Without", "exdate:lines").hint(dates), 3))
                (self.area(&Field::new("And at", "rdate:lines").hint(dates), 3))
            }
        }
    }
}
