//! The mappings inside a schedule or a calendar: days and times, catch-up, retries, daylight
//! saving, days off.

use calendar::MOST_CAUGHT_UP;

use super::keys::{Key, Shape, may, must};

/// A text, or a whole number of seconds.
pub(super) const SECONDS: Shape = Shape::Seconds;
/// One text, or several.
pub(super) const TEXTS: Shape = Shape::OneOrMany(&Shape::Text);
const TIMES: Key = must("at", TEXTS, "Times of day, such as \"09:00\"");

pub(super) const DAILY: Shape = Shape::Object(&[
    TIMES,
    may("days", TEXTS, "Days of the week, such as MON or MON-FRI; all of them if left out"),
]);

/// One of the keys for days is required. Only the reader checks which.
pub(super) const WEEKLY: Shape = Shape::Object(&[
    may("on", TEXTS, "Days of the week, such as MON"),
    may("day", TEXTS, "The same as on"),
    may("days", TEXTS, "The same as on"),
    TIMES,
]);

const WORKING_DAY: Key = may(
    "working_day",
    Shape::Integer(-366, 366),
    "The nth working day of the period; counted from its end if negative",
);
const MONTH_DAY: Shape = Shape::Either(&[Shape::Integer(-31, 31), Shape::Text]);

/// Some days of the month, or a working day of it.
pub(super) const MONTHLY: Shape = Shape::Object(&[
    may(
        "day",
        Shape::OneOrMany(&MONTH_DAY),
        "1 to 31, -1 for the last day, last, \"2nd TUE\", \"last FRI\"",
    ),
    WORKING_DAY,
    TIMES,
]);

/// A working day of a quarter or a year.
pub(super) const PERIOD: Shape = Shape::Object(&[
    must(
        "working_day",
        Shape::Integer(-366, 366),
        "The nth working day of the period; counted from its end if negative",
    ),
    TIMES,
]);

pub(super) const DST: Shape = Shape::Object(&[
    may(
        "gap",
        Shape::Choice("What becomes of a time that the clock jumps over", &["shift", "skip"]),
        "What becomes of a time that the clock jumps over",
    ),
    may(
        "fold",
        Shape::Choice(
            "What becomes of a time that the clock shows twice",
            &["first", "last", "both"],
        ),
        "What becomes of a time that the clock shows twice",
    ),
]);

const POLICY: Shape = Shape::Choice("Which missed occurrences run", &["none", "last", "all"]);

pub(super) const CATCH_UP: Shape = Shape::Either(&[
    POLICY,
    Shape::Object(&[
        may("policy", POLICY, "none, last (the default) or all"),
        may("window", Shape::Text, "What is older than this, such as 1d, does not run"),
        may(
            "limit",
            Shape::Whole(1, MOST_CAUGHT_UP as u64),
            "Runs at most, the latest ones; 100 if left out",
        ),
        may("pace", Shape::Text, "Runs per time, such as 1/10s"),
    ]),
]);

pub(super) const RETRY: Shape = Shape::Object(&[
    may("delay", SECONDS, "The wait before the first retry; the interval, or 60s, if left out"),
    may("max_delay", SECONDS, "The longest wait; ten times the first if left out"),
    may("jitter", Shape::Number(0.0, 1.0), "The part of the wait that is added by a stable hash"),
]);

const INTERVAL: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);
const HOURS_OF_DAY: Shape = Shape::Either(&[Shape::Text, Shape::List(&INTERVAL)]);
const HOURS_KEY: Key = may("hours", HOURS_OF_DAY, "Hours that are worked all the same");

/// Working hours by days of the week.
pub(super) const HOURS: Shape = Shape::Named(".", &HOURS_OF_DAY);

pub(super) const HOLIDAYS: Shape = Shape::List(&Shape::Either(&[
    Shape::Text,
    Shape::Object(&[
        may("country", Shape::Text, "The holidays of a country or a region, such as DE-BY"),
        may("subdivision", Shape::Text, "The region, if country is only DE"),
        may("subdiv", Shape::Text, "The same, shorter"),
        may("ics", Shape::Text, "The name of an iCalendar file"),
        may("date", Shape::Text, "2026-12-24, or 12-24 for every year"),
        may("from", Shape::Text, "The first date of several"),
        may("to", Shape::Text, "The last date of several"),
        may("name", Shape::Text, "What the day is called"),
        HOURS_KEY,
    ]),
]));

pub(super) const EXCEPTIONS: Shape = Shape::List(&Shape::Object(&[
    must("date", Shape::Text, "2026-12-19, or 12-19 for every year"),
    must("working", Shape::Bool, "Whether it is worked"),
    HOURS_KEY,
    may("name", Shape::Text, "Why"),
]));
