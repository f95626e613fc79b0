//! The calendars that a definition declares.

use std::cell::RefCell;
use std::collections::BTreeMap;

use calendar::holidays::Region;
use calendar::{Calendar, CalendarSpec, Context, DetailedHoliday, Mistake, Problem, Zone};
use serde_json::{Map, Value};

use crate::definition::reading::{Field, Fields, Ids, Reading, json, shape};
use crate::definition::{ReadContext, limits};

/// The keys of [`CalendarSpec`].
const KEYS: [&str; 11] = [
    "id",
    "timezone",
    "tz",
    "hours",
    "holidays",
    "exceptions",
    "hours_per_day",
    "union",
    "intersection",
    "base",
    "all_but",
];

/// Calendars as declared and as built.
#[derive(Default)]
pub(crate) struct Calendars {
    specs: Vec<CalendarSpec>,
    built: BTreeMap<String, Calendar>,
}

impl Calendars {
    /// Reads and builds the entries of `calendars`.
    pub(crate) fn read(
        reading: &mut Reading<'_>,
        declared: Option<&Field<'_>>,
        zone: Option<&str>,
        context: &ReadContext<'_>,
    ) -> Calendars {
        let items = declared.and_then(|field| reading.list(field, limits::CALENDARS));
        let items = items.unwrap_or_default();
        let mut ids = Ids::default();
        let specs: Vec<(Field<'_>, CalendarSpec)> = items
            .into_iter()
            .filter_map(|item| spec(reading, &item, &mut ids).map(|spec| (item, spec)))
            .collect();
        let (items, specs): (Vec<Field<'_>>, Vec<CalendarSpec>) = specs.into_iter().unzip();
        let (calendars, mistakes) = Calendars::build(specs, zone, context);
        for (at, mistake) in mistakes {
            reading.mistake(&items[at], mistake);
        }
        calendars
    }

    /// Builds the calendars in order; a later one may be composed of earlier ones. Each mistake has
    /// the index of its calendar.
    pub(crate) fn build(
        specs: Vec<CalendarSpec>,
        zone: Option<&str>,
        context: &ReadContext<'_>,
    ) -> (Calendars, Vec<(usize, Mistake)>) {
        let default_zone = zone.and_then(|name| context.zones.get(name).ok());
        let built: RefCell<BTreeMap<String, Calendar>> = RefCell::default();
        let mut mistakes = Vec::new();
        for (at, spec) in specs.iter().enumerate() {
            let own_zone = spec.timezone.as_deref().and_then(|name| context.zones.get(name).ok());
            let zone = own_zone.or_else(|| default_zone.clone()).unwrap_or_else(Zone::utc);
            let find = |id: &str| {
                let earlier = built.borrow().get(id).cloned();
                earlier.or_else(|| (context.known_calendar)(id)).or_else(|| region(id, &zone))
            };
            let around = Context {
                zones: context.zones,
                default_zone: default_zone.as_ref(),
                read_ics: &|_| Err("a definition does not read files; list the dates".to_owned()),
                find: &find,
            };
            let calendar = spec.build(&around).or_else(|found| {
                mistakes.extend(found.into_iter().map(|mistake| (at, mistake)));
                // Replaces the broken calendar, so that references to it are not reported as
                // unknown.
                let stand_in = CalendarSpec { id: spec.id.clone(), ..CalendarSpec::default() };
                stand_in.build(&Context { default_zone: Some(&zone), ..around })
            });
            if let Ok(calendar) = calendar {
                built.borrow_mut().insert(spec.id.clone(), calendar);
            }
        }
        (Calendars { specs, built: built.into_inner() }, mistakes)
    }

    /// A calendar by its id: one of these, or one from outside.
    pub(crate) fn find(&self, id: &str, context: &ReadContext<'_>) -> Option<Calendar> {
        self.built.get(id).cloned().or_else(|| (context.known_calendar)(id))
    }

    /// Adds the nearest known id to the problem of an unknown calendar.
    pub(crate) fn improve(&self, problem: Problem) -> Problem {
        if problem.code != "calendar-unknown" {
            return problem;
        }
        match calendar::nearest(&problem.text.clone(), self.built.keys().map(String::as_str))
            .first()
        {
            Some(close) => problem.suggest(*close),
            None => problem,
        }
    }

    pub(crate) fn into_specs(self) -> Vec<CalendarSpec> {
        self.specs
    }
}

/// The default calendar of a definition: one of its own, one from outside, or a region.
pub(crate) fn named(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    calendars: &Calendars,
    context: &ReadContext<'_>,
) -> Option<String> {
    let id = reading.text_such_as(field, "a text, the id of a calendar")?;
    if calendars.find(id, context).is_none()
        && let Err(unknown) = Region::parse(id)
    {
        reading.problem(field, calendars.improve(unknown.into()));
        return None;
    }
    Some(id.to_owned())
}

fn region(id: &str, zone: &Zone) -> Option<Calendar> {
    Some(Calendar::for_region(&Region::parse(id).ok()?, zone.clone()))
}

fn spec(reading: &mut Reading<'_>, item: &Field<'_>, ids: &mut Ids) -> Option<CalendarSpec> {
    let remedy = "{ id: work, timezone: Europe/Berlin, hours: { mon-fri: \"09:00-17:00\" } }";
    let mut fields = Fields::of(reading, item, remedy)?;
    ids.take(reading, &mut fields, "id: work");
    fields.rest(reading);
    let Value::Object(map) = json::value(reading, item) else { return None };
    let mut mistakes = Vec::new();
    mistakes.extend(misshapen_holidays(&map));
    let spec: CalendarSpec = if mistakes.is_empty() {
        shape::read(&map, &KEYS, &[], &mut mistakes)
    } else {
        shape::read(&without_holidays(map), &KEYS, &[], &mut mistakes)
    };
    mistakes.into_iter().for_each(|mistake| reading.mistake(item, mistake));
    Some(spec)
}

/// Finds the wrong key in an entry of `holidays` that is a mapping. Entries have several forms, so
/// the error for the whole entry would not name it.
fn misshapen_holidays(map: &Map<String, Value>) -> Vec<Mistake> {
    let Some(Value::Array(items)) = map.get("holidays") else { return Vec::new() };
    let detailed = items.iter().enumerate().filter(|(_, item)| item.is_object());
    detailed
        .filter_map(|(at, item)| {
            let error = serde_json::from_value::<DetailedHoliday>(item.clone()).err()?;
            Some(shape::mistake(&format!("holidays[{at}]"), item, &error.to_string()))
        })
        .collect()
}

fn without_holidays(mut map: Map<String, Value>) -> Map<String, Value> {
    map.remove("holidays");
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that is added to calendars must be added here as well.
    #[test]
    fn all_keys_of_a_calendar_are_known() {
        let error = serde_json::from_str::<CalendarSpec>(r#"{"nonsense": 1}"#).unwrap_err();
        let error = error.to_string();
        for key in error.split('`').skip(3).step_by(2) {
            assert!(KEYS.contains(&key), "{key} is missing");
        }
    }
}
