//! The fields besides the rule, the most used first.

use calendar::holidays::Region;
use language::schedule::{DEFAULT_MAX_RETRIES, DEFAULT_QUEUE_LIMIT, DEFAULT_TIMEOUT_SECONDS};
use maud::{Markup, html};

use super::form_state::{Field, FormState};

impl FormState<'_> {
    /// Time zone, calendar, and what happens on days off.
    pub(super) fn zone_and_days_off(&self) -> Markup {
        let roll = [
            ("", "as is usual: skipped, or the next day if once"),
            ("skip", "skipped"),
            ("next", "on the next working day"),
            ("previous", "on the working day before"),
            ("nearest", "on the nearest working day"),
            ("modified_next", "on the next working day of the month"),
            ("modified_previous", "on the working day before in the month"),
        ];
        let fit = [("", "the time of day stays"), ("hours", "moved into working hours")];
        html! {
            div.fields {
                (self.line(&Field::new("Zone", "timezone:null").placeholder("UTC").list("zones")))
                (self.line(&Field::new("Calendar", "calendar:null").placeholder("none").list("calendars")
                    .hint("whose days off count: DE-BY, US, or one of your own")))
                (self.select(&Field::new("On a day off", "roll:null"), &roll))
                (self.select(&Field::new("Outside of working hours", "fit:null"), &fit))
            }
        }
    }

    /// Bounds, spread and daylight saving.
    pub(super) fn finer(&self) -> Markup {
        let gap = [
            ("", "as is usual for the rule"),
            ("shift", "it happens right after"),
            ("skip", "it is skipped"),
        ];
        let fold = [
            ("", "as is usual for the rule"),
            ("first", "it happens the first time"),
            ("last", "it happens the second time"),
            ("both", "it happens both times"),
        ];
        html! {
            div.fields {
                (self.line(&Field::new("Nothing before", "start:null").placeholder("2026-03-01T09:00")))
                (self.line(&Field::new("Nothing after", "end:null").placeholder("2027-03-01T09:00")))
                (self.line(&Field::new("Spread over", "spread:null").placeholder("none")
                    .hint("such as 10m: schedules of one time do not begin all at once")))
                (self.line(&Field::new("Ends after", "total_repeats:number-or-null").placeholder("never")
                    .hint("so many that succeeded; 0 is never")))
                (self.select(&Field::new("A time that the clock jumps over", "dst.gap"), &gap))
                (self.select(&Field::new("A time that the clock shows twice", "dst.fold"), &fold))
            }
        }
    }

    /// What happens when occurrences overlap or were missed.
    pub(super) fn policies(&self) -> Markup {
        let overlap = [
            ("skip", "the new one is skipped"),
            ("queue", "one waits for its turn"),
            ("queue_all", "all wait for their turn"),
            ("cancel", "what runs is cancelled"),
            ("allow", "they run side by side"),
            ("error", "the schedule is dead"),
        ];
        let catch_up = [
            ("last", "the latest one runs, for all"),
            ("all", "all of them run"),
            ("none", "none of them runs"),
        ];
        let queue = DEFAULT_QUEUE_LIMIT.to_string();
        html! {
            div.fields {
                (self.select(&Field::new("Due while it still runs", "overlap"), &overlap))
                (self.line(&Field::new("So many wait at most", "queue_limit:number-or-null").placeholder(&queue)))
                (self.select(&Field::new("Due while nobody is awake", "catch_up.policy"), &catch_up))
                (self.line(&Field::new("If not older than", "catch_up.window").placeholder("any age")
                    .hint("such as 1d")))
                (self.line(&Field::new("At most", "catch_up.limit:number").hint("for all of them; the latest 100 if left out")))
                (self.line(&Field::new("At this pace", "catch_up.pace").placeholder("at once")
                    .hint("such as 1/10s: one every 10 s")))
            }
        }
    }

    /// What happens to runs that fail or take long.
    pub(super) fn failures(&self) -> Markup {
        let (retries, timeout) =
            (DEFAULT_MAX_RETRIES.to_string(), DEFAULT_TIMEOUT_SECONDS.to_string());
        let is_paused = self.typed.get("pause_on_failure") == "true";
        let exhausted =
            [("die", "the schedule is dead"), ("continue", "the next one comes as usual")];
        html! {
            // Sends an empty object, so that clearing all retry fields removes them.
            input type="hidden" name="retry:json" value="{}";
            input type="hidden" name="pause_on_failure:flag" value="false";
            div.fields {
                (self.line(&Field::new("Retries", "max_retries:number-or-null").placeholder(&retries)))
                (self.select(&Field::new("When they are exhausted", "on_exhausted"), &exhausted))
                (self.line(&Field::new("The first one after", "retry.delay").placeholder("60s, or the interval")))
                (self.line(&Field::new("The longest wait", "retry.max_delay").placeholder("ten times the first")))
                (self.line(&Field::new("Scattered by", "retry.jitter:json").placeholder("0")
                    .hint("a part of the wait, 0 to 1")))
                (self.line(&Field::new("A run may be performed for", "timeout_seconds:number-or-null").placeholder(&timeout)
                    .hint("seconds, waiting apart; 0 is no limit")))
                div.field {
                    div.check {
                        input type="checkbox" id="field-pause" name="pause_on_failure:flag" value="true"
                            checked[is_paused];
                        label for="field-pause" { "Paused when retries are exhausted" }
                    }
                }
            }
        }
    }

    /// Description, owner and retention.
    pub(super) fn about(&self) -> Markup {
        html! {
            div.fields {
                (self.line(&Field::new("Description", "description:null")))
                (self.line(&Field::new("Owner", "owner:null")))
                (self.line(&Field::new("History is kept", "retention:null").placeholder("as long as the node keeps it")
                    .hint("such as 90d")))
            }
        }
    }
}

/// Codes of regions, with their names.
pub(super) fn regions() -> Markup {
    html! {
        @for country in Region::countries() {
            option value=(country.code) { (country.name) }
        }
    }
}
