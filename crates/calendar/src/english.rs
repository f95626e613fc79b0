//! Pieces of English sentences that describe rules.

use crate::zone::Zone;

pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Joins items: `a`, `a and b`, `a, b and c`.
pub(crate) fn list<S: AsRef<str>>(items: &[S], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [rest @ .., end] => {
            let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
            format!("{} {last} {}", rest.join(", "), end.as_ref())
        }
    }
}

/// A number as an ordinal: `1st`, `2nd`, `23rd`.
pub(crate) fn ordinal(n: u32) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// `first` to `fifth`, then `6th` and so on.
pub(crate) fn ordinal_word(n: u32) -> String {
    match n {
        1 => "first".into(),
        2 => "second".into(),
        3 => "third".into(),
        4 => "fourth".into(),
        5 => "fifth".into(),
        _ => ordinal(n),
    }
}

/// `1 day`, `3 days`.
pub(crate) fn count(n: i64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `09:00`, or `09:00:30` if the seconds are not 0.
pub(crate) fn clock(second_of_day: u32) -> String {
    let (h, m, s) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    if s == 0 { format!("{h:02}:{m:02}") } else { format!("{h:02}:{m:02}:{s:02}") }
}

/// `New York time`, `UTC`.
pub(crate) fn zone(zone: &Zone) -> String {
    match zone.name() {
        utc @ ("UTC" | "Etc/UTC") => utc.trim_start_matches("Etc/").to_owned(),
        name => {
            let city = name.rsplit('/').next().unwrap_or(name).replace('_', " ");
            format!("{city} time")
        }
    }
}

/// Describes values; runs of three or more consecutive ones become `a to b`.
pub(crate) fn runs(values: &[u32], name: impl Fn(u32) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < values.len() {
        let mut end = at;
        while end + 1 < values.len() && values[end + 1] == values[end] + 1 {
            end += 1;
        }
        if end - at >= 2 {
            parts.push(format!("{} to {}", name(values[at]), name(values[end])));
        } else {
            parts.extend(values[at..=end].iter().map(|&v| name(v)));
        }
        at = end + 1;
    }
    parts
}
