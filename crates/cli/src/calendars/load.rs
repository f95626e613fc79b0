//! Loads the calendar that `--calendar DE-BY` or `--calendar work.yaml#night` names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use calendar::holidays::Region;
use calendar::{Calendar, CalendarSpec, Context, Problem, Zone, Zones, nearest};
use serde::Deserialize;

use crate::document::Document;
use crate::failure::Failure;

/// A file that holds a list of calendars. A file may also hold a single one.
#[derive(Deserialize)]
struct Listed {
    calendars: Vec<CalendarSpec>,
}

/// Loads the calendar with this name: a region, a file, or `FILE#ID`.
pub(crate) fn calendar(
    named: &str,
    zones: &Zones,
    zone: Option<&Zone>,
) -> Result<Calendar, Failure> {
    let Some((path, id)) = file(named) else {
        let zone = zone.cloned().unwrap_or_else(Zone::utc);
        return Ok(Calendar::for_region(&Region::parse(named).map_err(Problem::from)?, zone));
    };
    let mut all = calendars(&path, zones, zone)?;
    match id {
        None if all.len() == 1 => Ok(all.remove(0)),
        _ => {
            let ids: Vec<String> = all.iter().map(|calendar| calendar.id().to_owned()).collect();
            let wanted = id.unwrap_or("");
            let found = all.into_iter().find(|calendar| calendar.id() == wanted);
            Ok(found.ok_or_else(|| {
                let message = format!("{} has no calendar of that id", path.display());
                let problem = Problem::whole("calendar-unknown", named, message);
                let problem = problem.allow(ids.join(", "));
                let close = nearest(wanted, ids.iter().map(String::as_str));
                let first = close.first().copied().or(ids.first().map(String::as_str));
                problem.suggest(format!("{}#{}", path.display(), first.unwrap_or("ID")))
            })?)
        }
    }
}

/// Whether a name refers to a file, and not to a region.
pub(crate) fn is_file(named: &str) -> bool {
    file(named).is_some()
}

/// The path and the optional calendar id, if the name looks like a path.
fn file(named: &str) -> Option<(PathBuf, Option<&str>)> {
    let (path, id) = match named.split_once('#') {
        Some((path, id)) => (path, Some(id)),
        None => (named, None),
    };
    let is_path = id.is_some() || path.contains(['.', '/']) || Path::new(path).is_file();
    is_path.then(|| (PathBuf::from(path), id))
}

/// Loads all calendars of a file, in order. Later calendars may be composed of earlier ones.
pub(crate) fn calendars(
    path: &Path,
    zones: &Zones,
    zone: Option<&Zone>,
) -> Result<Vec<Calendar>, Failure> {
    let document = Document::read(path)?;
    let listed = document.has_field("calendars");
    let specs = if listed {
        document.parse::<Listed>()?.calendars
    } else {
        vec![document.parse::<CalendarSpec>()?]
    };
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let read_ics = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let built: RefCell<BTreeMap<String, Calendar>> = RefCell::default();
    let mut calendars = Vec::new();
    let mut mistakes = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        let own_zone = spec.timezone.as_deref().and_then(|name| zones.get(name).ok());
        let find = |id: &str| {
            let zone = own_zone.clone().or_else(|| zone.cloned());
            built.borrow().get(id).cloned().or_else(|| {
                Some(Calendar::for_region(&Region::parse(id).ok()?, zone.unwrap_or_else(Zone::utc)))
            })
        };
        let context = Context { zones, default_zone: zone, read_ics: &read_ics, find: &find };
        match spec.build(&context) {
            Ok(calendar) => {
                built.borrow_mut().insert(spec.id.clone(), calendar.clone());
                calendars.push(calendar);
            }
            Err(found) if listed => {
                let under = format!("calendars[{at}]");
                mistakes.extend(found.into_iter().map(|mistake| mistake.under(&under)));
            }
            Err(found) => mistakes.extend(found),
        }
    }
    if mistakes.is_empty() { Ok(calendars) } else { Err(document.explain(&mistakes)) }
}
