//! Random calendars, and which of their minutes are working time by the plain meaning of the
//! declaration.

use calendar::{Calendar, CalendarSpec, Context, DayPlan, Zones};
use jiff::ToSpan;
use jiff::civil::Date;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::walked_clock::Walk;

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const PLANS: [&[&str]; 10] = [
    &[],
    &["09:00-17:00"],
    &["09:00-12:00", "13:00-17:30"],
    &["22:00-06:00"],
    &["00:00-24:00"],
    &["00:00-02:30"],
    &["01:15-01:45", "02:15-03:45"],
    &["20:00-19:00"],
    &["05:00-06:00", "18:30-19:30"],
    &["23:30-00:30"],
];

/// A declaration with dates around the first day.
fn declaration(first: Date) -> impl Strategy<Value = Value> {
    let regular = prop_oneof![
        2 => vec(hours(), 7),
        1 => (hours(), hours()).prop_map(|(week, weekend)| {
            let days = [week, weekend];
            (0..7).map(|day| days[usize::from(day > 4)].clone()).collect()
        }),
    ];
    let date = move || (0..50i64).prop_map(move |n| (first + n.days()).to_string());
    let holiday = prop_oneof![
        date().prop_map(|date| json!({"date": date})),
        (date(), hours()).prop_map(|(date, hours)| json!({"date": date, "hours": hours})),
        (0..50i64, 0..9i64).prop_map(move |(n, long)| {
            let (from, to) = (first + n.days(), first + (n + long).days());
            json!({"from": from.to_string(), "to": to.to_string()})
        }),
    ];
    let exception = (date(), any::<bool>())
        .prop_map(|(date, working)| json!({"date": date, "working": working}));
    (regular, vec(holiday, 0..4), vec(exception, 0..3)).prop_map(
        |(regular, holidays, exceptions)| {
            let week = WEEKDAYS.iter().map(|day| (*day).to_owned()).zip(regular);
            let hours: Map<String, Value> = week.collect();
            json!({"hours": hours, "holidays": holidays, "exceptions": exceptions})
        },
    )
}

fn hours() -> impl Strategy<Value = Value> {
    let written = (0..PLANS.len()).prop_map(|plan| json!(PLANS[plan]));
    let random = (btree_set(0..1440u32, 2..7), 0..1440u32).prop_map(|(edges, overnight)| {
        let edges: Vec<u32> = edges.into_iter().collect();
        let shift = |pair: &[u32]| match *pair {
            [from, to] => Some(format!("{}-{}", clock(from), clock(to))),
            [from] if overnight < from => Some(format!("{}-{}", clock(from), clock(overnight))),
            _ => None,
        };
        json!(edges.chunks(2).filter_map(shift).collect::<Vec<_>>())
    });
    prop_oneof![2 => written, 1 => random]
}

fn clock(minute: u32) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

pub(super) fn some_calendar(walk: &Walk) -> impl Strategy<Value = Value> + use<> {
    declaration(walk.moments[0].date)
}

pub(super) fn build(zones: &Zones, walk: &Walk, id: &str, declaration: &Value) -> Calendar {
    compose(zones, walk, id, declaration, &[])
}

pub(super) fn compose(
    zones: &Zones,
    walk: &Walk,
    id: &str,
    declaration: &Value,
    others: &[&Calendar],
) -> Calendar {
    let mut spec: CalendarSpec = serde_json::from_value(declaration.clone()).unwrap();
    spec.id = id.to_owned();
    spec.timezone = Some(walk.zone.to_owned());
    let context = Context {
        zones,
        default_zone: None,
        read_ics: &|name| Err(format!("no {name}")),
        find: &|id| others.iter().find(|other| other.id() == id).map(|&other| other.clone()),
    };
    spec.build(&context).unwrap_or_else(|mistakes| panic!("{declaration}: {mistakes:?}"))
}

/// For every minute of the walk, whether its wall time lies in a shift of its day or in an
/// overnight shift of the day before.
pub(super) fn worked(walk: &Walk, calendar: &Calendar) -> Vec<bool> {
    let mut plans: Option<(Date, DayPlan, DayPlan)> = None;
    let mut is_worked = |date: Date, second: u32| {
        if plans.as_ref().is_none_or(|(of, ..)| *of != date) {
            plans = Some((date, calendar.day(date), calendar.day(date.yesterday().unwrap())));
        }
        let (_, today, before) = plans.as_ref().unwrap();
        let covers = |plan: &DayPlan, second: u32| {
            plan.shifts.iter().any(|shift| shift.start <= second && second < shift.end)
        };
        covers(today, second) || covers(before, second + 86_400)
    };
    walk.moments.iter().map(|moment| is_worked(moment.date, moment.second_of_day)).collect()
}
