//! Random declarations of rules, and of the options that all rules share.

use calendar::{Calendar, Timing, TimingContext, TimingSpec, Zone, Zones};
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cron_expression::{any_expression, by_minute};

const ZONES: [&str; 8] = [
    "UTC",
    "America/New_York",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Pacific/Apia",
];
const RECURRENCES: [&str; 5] = [
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=WEEKLY;BYDAY=MO,SU;COUNT=40",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=HOURLY;INTERVAL=7",
];
pub(super) const ROLLS: [&str; 6] =
    ["skip", "next", "previous", "nearest", "modified_next", "modified_previous"];
const WEEKDAYS: [&str; 7] = ["mon", "TUE", "Wed", "thu", "FRI", "sat", "sunday"];
const MONTH_DAYS: [&str; 8] = ["1", "-1", "last", "2nd TUE", "last FRI", "31", "5th SUN", "-30"];

/// How dense rules may be. A walk over weeks cannot check every second.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Density {
    Minutes,
    Seconds,
}

fn clock() -> impl Strategy<Value = String> {
    (prop_oneof![0..4u32, 0..24u32], 0..60u32).prop_map(|(h, m)| format!("{h:02}:{m:02}"))
}

fn weekdays() -> impl Strategy<Value = Vec<&'static str>> {
    vec(prop::sample::select(&WEEKDAYS[..]), 1..3)
}

fn dst() -> impl Strategy<Value = Option<Value>> {
    let gap = prop::sample::select(vec!["shift", "skip"]);
    let fold = prop::sample::select(vec!["first", "last", "both"]);
    option::weighted(0.4, (gap, fold).prop_map(|(gap, fold)| json!({"gap": gap, "fold": fold})))
}

/// One rule near the instant. Working-day rules need a calendar.
fn one_rule(near: Timestamp, density: Density, calendar: bool) -> BoxedStrategy<Value> {
    let instant = move || {
        (-40 * 86_400..40 * 86_400i64).prop_map(move |off| {
            let at = near.checked_add(jiff::SignedDuration::from_secs(off)).unwrap_or(near);
            at.to_string()
        })
    };
    let year = jiff::tz::Offset::UTC.to_datetime(near).year().clamp(1973, 9900) as u32;
    let minutes = by_minute(year).prop_map(|cron| json!({"cron": cron.to_string()}));
    let cron = match density {
        Density::Minutes => minutes.boxed(),
        Density::Seconds => {
            any_expression().prop_map(|cron| json!({"cron": cron.to_string()})).boxed()
        }
    };
    let least = if density == Density::Minutes { 600 } else { 1 };
    let interval = (least..300_000u64, instant())
        .prop_map(|(every, anchor)| json!({"interval_seconds": every, "anchor": anchor}));
    let once = instant().prop_map(|at| json!({"at": at}));
    let daily = (vec(clock(), 1..4), option::of(weekdays())).prop_map(|(at, days)| match days {
        Some(days) => json!({"daily": {"at": at, "days": days}}),
        None => json!({"daily": {"at": at}}),
    });
    let weekly = (vec(clock(), 1..3), weekdays())
        .prop_map(|(at, on)| json!({"weekly": {"at": at, "on": on}}));
    let monthly = (vec(prop::sample::select(&MONTH_DAYS[..]), 1..3), clock())
        .prop_map(|(day, at)| json!({"monthly": {"day": day, "at": at}}));
    let recurrence = (prop::sample::select(&RECURRENCES[..]), instant())
        .prop_map(|(rule, start)| json!({"rrule": rule, "dtstart": start.trim_end_matches('Z')}));
    let period = prop::sample::select(vec!["monthly", "quarterly", "yearly"]);
    let nth = prop_oneof![-9..=-1i32, 1..=9i32];
    let working = (period, nth, vec(clock(), 1..3))
        .prop_map(|(period, nth, at)| json!({period: {"working_day": nth, "at": at}}));
    let with_dst = prop_oneof![
        4 => cron,
        2 => daily,
        1 => weekly,
        1 => monthly,
        u32::from(calendar) * 2 => working,
    ];
    let with_dst = (with_dst, dst()).prop_map(|(mut rule, dst)| {
        if let Some(dst) = dst {
            rule["dst"] = dst;
        }
        rule
    });
    prop_oneof![8 => with_dst, 2 => interval, 1 => once, 1 => recurrence].boxed()
}

/// A rule, or a union of several, in a zone.
pub(super) fn some_rule(
    near: Timestamp,
    density: Density,
    calendar: bool,
) -> impl Strategy<Value = Value> {
    let one = one_rule(near, density, calendar);
    let union = vec(one.clone(), 2..4).prop_map(|rules| json!({"rules": rules}));
    let rule = prop_oneof![5 => one, 1 => union];
    (rule, prop::sample::select(&ZONES[..])).prop_map(|(mut rule, zone)| {
        rule["timezone"] = json!(zone);
        rule
    })
}

/// Adds a calendar with a roll, fit, bounds and a spread.
pub(super) fn with_options(rule: Value, near: Timestamp) -> impl Strategy<Value = Value> {
    let roll = prop::sample::select(&ROLLS[..]);
    let bound = || option::weighted(0.2, 0..30 * 86_400i64);
    (roll, any::<bool>(), bound(), bound(), option::weighted(0.3, 1..7200u32)).prop_map(
        move |(roll, fit, start, end, spread)| {
            let mut spec = rule.clone();
            let moved = |by: i64| near.checked_add(jiff::SignedDuration::from_secs(by)).unwrap();
            spec["calendar"] = json!("cal");
            spec["roll"] = json!(roll);
            if fit {
                spec["fit"] = json!("hours");
            }
            if let Some(start) = start {
                spec["start"] = json!(moved(-start).to_string());
            }
            if let Some(end) = end {
                spec["end"] = json!(moved(end + 1).to_string());
            }
            if let Some(spread) = spread {
                spec["spread"] = json!(format!("{spread}s"));
            }
            spec
        },
    )
}

pub(super) fn build(
    zones: &Zones,
    created: Timestamp,
    calendar: Option<&Calendar>,
    spec: &Value,
) -> Timing {
    let parsed: TimingSpec =
        serde_json::from_value(spec.clone()).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let context = TimingContext {
        zones,
        created,
        default_zone: Some(Zone::utc()),
        find_calendar: &|_| calendar.cloned(),
    };
    parsed.build(&context).unwrap_or_else(|mistakes| panic!("{spec}: {mistakes:?}"))
}
