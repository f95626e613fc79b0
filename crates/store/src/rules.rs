//! Builds the engine's rules from the declared calendars; the same for every store.

use std::sync::Arc;

use calendar::{CalendarSpec, Zones};
use engine::turn::Refused;
use language::Rules;

use crate::failure::Failure;
use crate::view::CalendarView;

/// The rules with these calendars. A calendar may be composed of others, in any order. Schedules
/// that use a calendar that cannot be read or built are not decided.
pub(crate) fn load(calendars: &[CalendarView], zones: Arc<Zones>) -> Rules {
    let Built { rules, broken, unreadable } = build(calendars, zones);
    let names: Vec<&str> = broken
        .iter()
        .map(|spec| spec.id.as_str())
        .chain(unreadable.iter().map(|(id, _)| *id))
        .collect();
    if !names.is_empty() {
        tracing::error!(
            calendars = names.join(", "),
            "calendars cannot be built any more: run `punctual doctor`"
        );
    }
    rules
}

/// The calendars that can be read and not be built, and why.
pub(crate) fn unbuildable(calendars: &[CalendarView], zones: Arc<Zones>) -> Vec<(String, String)> {
    let Built { rules, broken, .. } = build(calendars, zones);
    let why = |spec: &CalendarSpec| match rules.build_calendar(spec) {
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        // Building ended when no calendar was left that could be built.
        Ok(_) => "it could not be built before, and now it can".to_owned(),
    };
    broken.iter().map(|spec| (spec.id.clone(), why(spec))).collect()
}

/// The result of building all calendars.
struct Built<'a> {
    rules: Rules,
    /// Calendars that cannot be built.
    broken: Vec<CalendarSpec>,
    /// Calendars whose declaration cannot be read, and why.
    unreadable: Vec<(&'a str, serde_json::Error)>,
}

fn build(calendars: &[CalendarView], zones: Arc<Zones>) -> Built<'_> {
    let mut rules = Rules::new(zones);
    let (mut broken, mut unreadable) = (Vec::new(), Vec::new());
    for view in calendars {
        match serde_json::from_str::<CalendarSpec>(&view.spec) {
            Ok(spec) => broken.push(CalendarSpec { id: view.id.clone(), ..spec }),
            Err(error) => unreadable.push((view.id.as_str(), error)),
        }
    }
    loop {
        let before = broken.len();
        broken.retain(|spec| match rules.build_calendar(spec) {
            Ok(calendar) => {
                rules.declare(calendar);
                false
            }
            Err(_) => true,
        });
        if broken.len() == before {
            return Built { rules, broken, unreadable };
        }
    }
}

/// A change to the calendars.
pub(crate) enum Change<'a> {
    Put(&'a str),
    Deleted(&'a str),
}

/// The rules after a change. The change is refused, naming the first calendar it breaks, if it
/// breaks one that worked before.
pub(crate) fn changed(
    before: &Rules,
    calendars: &[CalendarView],
    change: &Change<'_>,
) -> Result<Rules, Failure> {
    let Built { rules, broken, unreadable } = build(calendars, before.zones().clone());
    let is_put = |id: &str| matches!(change, Change::Put(put) if *put == id);
    if let Some((id, error)) = unreadable.iter().find(|(id, _)| is_put(id)) {
        return Err(Failure::Damaged(format!("calendar {id}: {error}")));
    }
    // Other broken calendars were broken before, by a new version of the program or of the zone
    // database.
    let is_lost = |spec: &&CalendarSpec| is_put(&spec.id) || before.calendar(&spec.id).is_some();
    match broken.iter().find(is_lost) {
        Some(lost) => Err(Failure::Refused(refused(before, change, lost))),
        None => Ok(rules),
    }
}

fn refused(before: &Rules, change: &Change<'_>, lost: &CalendarSpec) -> Refused {
    match change {
        Change::Put(id) if *id == lost.id => match before.build_calendar(lost) {
            Err(mistakes) => Refused::Invalid(vec![(0, mistakes)]),
            Ok(_) => Refused::Conflict(format!("Calendar {id} would be made of itself.")),
        },
        Change::Put(id) => Refused::Conflict(format!(
            "Calendar {} could not be made any more with this calendar {id}.",
            lost.id
        )),
        Change::Deleted(id) => {
            Refused::Conflict(format!("Calendar {id} is used by calendar {}.", lost.id))
        }
    }
}
