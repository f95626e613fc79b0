//! Zones, instants and calendars that inputs choose from.

use std::sync::OnceLock;

use calendar::holidays::Region;
use calendar::{Calendar, CalendarSpec, Context, Mistake, TimingContext, Zone, Zones};
use jiff::Timestamp;

/// Ordinary zones, and those with the strangest histories.
const ZONES: [&str; 24] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "Africa/Cairo",
    "America/Havana",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Vancouver",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "Africa/Monrovia",
];

const REGIONS: [&str; 8] = ["US", "DE-BY", "GB-SCT", "JP", "CN", "IN", "SA", "NZ"];

/// The edges of what can be said, and the neighbourhood of changes of the clock.
const INSTANTS: [&str; 16] = [
    "-009999-01-02T01:59:59Z",
    "-000001-06-01T00:00:00Z",
    "1883-11-18T16:59:59Z",
    "1899-12-31T23:59:59.999Z",
    "1969-12-31T23:59:59.999999999Z",
    "1970-01-01T00:00:00Z",
    "2011-12-29T23:59:59.5Z",
    "2026-03-08T06:59:59.001Z",
    "2026-03-29T00:30:00Z",
    "2026-11-01T05:59:59Z",
    "2027-02-28T23:59:59Z",
    "2099-12-31T23:59:59Z",
    "2100-02-28T12:00:00Z",
    "2299-12-30T23:00:00Z",
    "9998-12-31T23:59:59Z",
    "9999-12-30T22:00:00.999999999Z",
];

/// The zone database, loaded once.
pub fn zones() -> &'static Zones {
    static ZONES: OnceLock<Zones> = OnceLock::new();
    ZONES.get_or_init(Zones::bundled)
}

/// One of the zones.
pub fn zone(choice: u8) -> Zone {
    let name = ZONES[usize::from(choice) % ZONES.len()];
    zones().get(name).expect("the listed zones exist")
}

/// The name of one of the zones.
pub fn zone_name(choice: u8) -> &'static str {
    ZONES[usize::from(choice) % ZONES.len()]
}

/// The code of one of the regions.
pub fn region_code(choice: u8) -> &'static str {
    REGIONS[usize::from(choice) % REGIONS.len()]
}

/// One of the listed instants, or one of this century.
pub fn instant(choice: u8) -> Timestamp {
    if let Some(text) = INSTANTS.get(usize::from(choice)) {
        return text.parse().expect("the listed instants are well-formed");
    }
    let days = i64::from(choice) * 13;
    let seconds = 1_577_836_800 + days * 86_400 + i64::from(choice) * 977;
    Timestamp::from_second(seconds).expect("this century is in range")
}

/// An instant in the years 1960 to 2140, to the nanosecond.
pub fn instant_from(choice: u32, nanos: u32) -> Timestamp {
    let year_1960 = -315_619_200_i64;
    let second = year_1960 + i64::from(choice) * 13 / 10;
    let nanos = i64::from(second > 0) * i64::from(nanos % 1_000_000_000);
    Timestamp::new(second, nanos as i32).expect("these centuries are in range")
}

/// The calendar of a declaration; it may name any region as another calendar, and every file it
/// names holds `ics`.
pub fn build_calendar(
    spec: &CalendarSpec,
    zone: &Zone,
    ics: &str,
) -> Result<Calendar, Vec<Mistake>> {
    let find = |id: &str| Some(Calendar::for_region(&Region::parse(id).ok()?, zone.clone()));
    spec.build(&Context {
        zones: zones(),
        default_zone: Some(zone),
        read_ics: &|_| Ok(ics.to_owned()),
        find: &find,
    })
}

/// What a timing is read with: `zone` where none is named, `calendar` under its id.
pub fn with_context<T>(
    zone: &Zone,
    created: Timestamp,
    calendar: Option<&Calendar>,
    read: impl FnOnce(&TimingContext<'_>) -> T,
) -> T {
    let find = |id: &str| calendar.filter(|calendar| calendar.id() == id).cloned();
    read(&TimingContext {
        zones: zones(),
        created,
        default_zone: Some(zone.clone()),
        find_calendar: &find,
    })
}
