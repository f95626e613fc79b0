//! The zone database and the known calendars, with which declarations are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use calendar::holidays::Region;
use calendar::{
    Calendar, CalendarSpec, Context, Mistake, Timing, TimingContext, TimingSpec, Zone, Zones,
};
use jiff::Timestamp;

/// Zones and calendars. A new value is made when either changes.
pub struct Rules {
    zones: Arc<Zones>,
    calendars: HashMap<String, Calendar>,
    /// Calendars of regions, by name and zone, so that their years are computed once.
    regions: Mutex<HashMap<(String, String), Calendar>>,
}

impl Rules {
    /// Rules with only the calendars of regions.
    pub fn new(zones: impl Into<Arc<Zones>>) -> Rules {
        Rules { zones: zones.into(), calendars: HashMap::new(), regions: Mutex::default() }
    }

    pub fn zones(&self) -> &Arc<Zones> {
        &self.zones
    }

    /// The calendar with this id, if it was declared.
    pub fn calendar(&self, id: &str) -> Option<&Calendar> {
        self.calendars.get(id)
    }

    /// Builds a calendar that may be composed of known ones.
    pub fn build_calendar(&self, spec: &CalendarSpec) -> Result<Calendar, Vec<Mistake>> {
        let find = |id: &str| self.calendars.get(id).cloned();
        let utc = Zone::utc();
        let context = Context {
            zones: &self.zones,
            default_zone: Some(&utc),
            read_ics: &|_| Err("files are not read here; list the dates".to_owned()),
            find: &find,
        };
        spec.build(&context)
    }

    /// Adds or replaces a calendar.
    pub fn declare(&mut self, calendar: Calendar) {
        self.calendars.insert(calendar.id().to_owned(), calendar);
    }

    pub fn withdraw(&mut self, id: &str) {
        self.calendars.remove(id);
    }

    /// Builds a timing whose intervals begin at `anchor`.
    pub fn timing(&self, spec: &TimingSpec, anchor: Timestamp) -> Result<Timing, Vec<Mistake>> {
        let zone = spec.timezone.as_deref().unwrap_or("UTC");
        let find = |id: &str| self.calendars.get(id).cloned().or_else(|| self.region(id, zone));
        let context = TimingContext {
            zones: &self.zones,
            created: anchor,
            default_zone: None,
            find_calendar: &find,
        };
        spec.build(&context)
    }

    /// A calendar by its id: a known one, one of a definition's own, or a region's.
    pub fn find_calendar(&self, id: &str, zone: &str, own: &[CalendarSpec]) -> Option<Calendar> {
        if let Some(known) = self.calendars.get(id) {
            return Some(known.clone());
        }
        self.with(own).calendars.get(id).cloned().or_else(|| self.region(id, zone))
    }

    /// These rules after a definition with these calendars has been published. A calendar that
    /// cannot be built is left out, since reading the definition has already refused it.
    #[must_use]
    pub fn with(&self, own: &[CalendarSpec]) -> Rules {
        let mut rules =
            Rules { calendars: self.calendars.clone(), ..Rules::new(self.zones.clone()) };
        for spec in own {
            if let Ok(calendar) = rules.build_calendar(spec) {
                rules.declare(calendar);
            }
        }
        rules
    }

    fn region(&self, id: &str, zone: &str) -> Option<Calendar> {
        let key = (id.to_owned(), zone.to_owned());
        let mut regions = self.regions.lock().ok()?;
        if let Some(calendar) = regions.get(&key) {
            return Some(calendar.clone());
        }
        let region = Region::parse(id).ok()?;
        let calendar = Calendar::for_region(&region, self.zones.get(zone).ok()?);
        regions.insert(key, calendar.clone());
        Some(calendar)
    }
}
