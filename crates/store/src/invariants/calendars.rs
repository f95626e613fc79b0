//! Checks that declared calendars can be built: those that can be read and have become impossible.

use super::rows::CALENDAR_REMEDY;
use super::{Checks, Finding, Listed, RowKind};
use crate::failure::Failure;
use crate::rules::unbuildable;
use crate::view::CalendarView;
use crate::views::calendars::CALENDARS;

pub(super) fn check(store: &mut impl Checks) -> Result<Vec<Finding>, Failure> {
    let stored: Vec<(String, String)> = store.select(CALENDARS, &[])?;
    let stored: Vec<_> = stored.into_iter().map(|(id, spec)| CalendarView { id, spec }).collect();
    let mut found = Listed::new(RowKind::Calendar.code());
    for (id, why) in unbuildable(&stored, store.rules().zones().clone()) {
        found.add(|| format!("calendar {id} cannot be built: {why} ({CALENDAR_REMEDY})"));
    }
    Ok(found.findings(false, false))
}
