//! A newer zone database moves schedules, which keep their wall times and zones; no occurrence is
//! lost or doubled.

use std::path::Path;

use calendar::{TimingContext, TimingSpec, Zone, ZoneSource, Zones};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::at;
use super::walked_clock::nanosecond_before;
use super::zone_tables::shared_rows;

const OLD_DATABASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tzdb-2025b");

/// Zone, wall time, and its instants with 2025b and with 2026f.
const MOVES: [[&str; 4]; 15] = [
    ["Africa/Casablanca", "2026-09-23T09:00", "2026-09-23T08:00Z", "2026-09-23T09:00Z"],
    ["Africa/El_Aaiun", "2026-09-23T09:00", "2026-09-23T08:00Z", "2026-09-23T09:00Z"],
    ["America/Edmonton", "2026-11-04T09:00", "2026-11-04T16:00Z", "2026-11-04T15:00Z"],
    ["America/Havana", "2026-11-04T09:00", "2026-11-04T14:00Z", "2026-11-04T13:00Z"],
    ["America/Inuvik", "2026-11-04T09:00", "2026-11-04T16:00Z", "2026-11-04T15:00Z"],
    ["America/Rainy_River", "2026-11-04T09:00", "2026-11-04T15:00Z", "2026-11-04T14:00Z"],
    ["America/Vancouver", "2026-11-04T09:00", "2026-11-04T17:00Z", "2026-11-04T16:00Z"],
    ["America/Winnipeg", "2026-11-04T09:00", "2026-11-04T15:00Z", "2026-11-04T14:00Z"],
    ["America/Yellowknife", "2026-11-04T09:00", "2026-11-04T16:00Z", "2026-11-04T15:00Z"],
    ["Canada/Central", "2026-11-04T09:00", "2026-11-04T15:00Z", "2026-11-04T14:00Z"],
    ["Canada/Mountain", "2026-11-04T09:00", "2026-11-04T16:00Z", "2026-11-04T15:00Z"],
    ["Canada/Pacific", "2026-11-04T09:00", "2026-11-04T17:00Z", "2026-11-04T16:00Z"],
    ["Cuba", "2026-11-04T09:00", "2026-11-04T14:00Z", "2026-11-04T13:00Z"],
    ["Europe/Chisinau", "2024-03-31T03:00", "2024-03-31T00:00Z", "2024-03-31T01:00Z"],
    ["Europe/Tiraspol", "2024-03-31T03:00", "2024-03-31T00:00Z", "2024-03-31T01:00Z"],
];

struct OldDatabase;

impl ZoneSource for OldDatabase {
    fn version(&self) -> &str {
        "2025b"
    }

    fn origin(&self) -> &str {
        OLD_DATABASE
    }

    fn tzif(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(Path::new(OLD_DATABASE).join(name)).ok()
    }

    fn names(&self) -> Vec<String> {
        MOVES.iter().map(|[zone, ..]| (*zone).to_owned()).collect()
    }
}

fn specs(zone: &str, wall: DateTime) -> Vec<TimingSpec> {
    let clock = wall.strftime("%H:%M").to_string();
    let (minute, hour) = (wall.minute(), wall.hour());
    let written = [
        json!({"cron": format!("{minute} {hour} * * *"), "timezone": zone}),
        json!({"daily": {"at": clock}, "timezone": zone}),
        json!({"at": wall.to_string(), "timezone": zone}),
        json!({
            "cron": format!("{minute} {hour} * * *"), "timezone": zone, "calendar": "every-day",
        }),
    ];
    written.into_iter().map(|spec| serde_json::from_value(spec).unwrap()).collect()
}

/// The occurrences of some days around the wall time.
fn occurrences(zones: &Zones, spec: &TimingSpec, mark: Timestamp) -> (Zone, Vec<Timestamp>) {
    let zone = zones.get(spec.timezone.as_deref().unwrap()).unwrap();
    let every_day = serde_json::from_value::<calendar::CalendarSpec>(json!({
        "id": "every-day", "timezone": zone.name(), "hours": {"mon-sun": "00:00-24:00"},
    }));
    let calendar = every_day.unwrap().build(&calendar::Context {
        zones,
        default_zone: None,
        read_ics: &|name| Err(name.to_owned()),
        find: &|_| None,
    });
    let calendar = calendar.unwrap();
    let context = TimingContext {
        find_calendar: &|_| Some(calendar.clone()),
        ..TimingContext::new(zones, mark)
    };
    let timing = spec.build(&context).unwrap();
    let until = mark + SignedDuration::from_hours(24 * 40);
    let found = timing.after(mark).map(|o| o.effective).take_while(|at| *at < until);
    (zone.clone(), found.collect())
}

#[test]
fn schedules_move_with_the_zone_database() {
    let (old_zones, new_zones) = (Zones::from_source(OldDatabase), Zones::bundled());
    assert!(new_zones.version() >= "2026f", "{}", new_zones.version());
    for [zone, wall, old_instant, new_instant] in MOVES {
        let wall: DateTime = wall.parse().unwrap();
        let (old_instant, new_instant) = (at(old_instant), at(new_instant));
        let mark = old_instant.min(new_instant) - SignedDuration::from_hours(24 * 20);
        for spec in specs(zone, wall) {
            let (_, old) = occurrences(&old_zones, &spec, mark);
            let (new_zone, new) = occurrences(&new_zones, &spec, mark);
            assert!(old.contains(&old_instant), "{zone} {spec:?}: {old:?}");
            assert!(new.contains(&new_instant), "{zone} {spec:?}: {new:?}");
            assert!(!new.contains(&old_instant), "{zone} {spec:?}: still at {old_instant}");
            let date = |at: &Timestamp| new_zone.wall(*at).date();
            for pair in new.windows(2) {
                let next_day = date(&pair[0]).tomorrow().unwrap();
                assert_eq!(date(&pair[1]), next_day, "{zone} {spec:?}: once every day");
            }
        }
    }
}

#[test]
fn what_ran_before_the_update_does_not_run_again() {
    let (old_zones, new_zones) = (Zones::from_source(OldDatabase), Zones::bundled());
    for [zone, wall, old_instant, _] in MOVES {
        let wall: DateTime = wall.parse().unwrap();
        let begin = at(old_instant) - SignedDuration::from_hours(24 * 20);
        for spec in specs(zone, wall) {
            let (_, with_old) = occurrences(&old_zones, &spec, begin);
            let (_, with_new) = occurrences(&new_zones, &spec, begin);
            let agreeing = with_old.iter().zip(&with_new).take_while(|(old, new)| old == new);
            for (n, (&ran, _)) in agreeing.enumerate() {
                let (_, rest) = occurrences(&new_zones, &spec, ran);
                let expected = &with_new[n + 1..];
                assert_eq!(&rest[..expected.len()], expected, "{zone} after {ran}");
                let (_, again) = occurrences(&new_zones, &spec, nanosecond_before(ran));
                assert_eq!(again[0], ran, "{zone}: not lost either");
            }
        }
    }
}

#[test]
fn the_table_is_that_of_the_shared_vectors() {
    for row in shared_rows("tz_update_2025b_to_2026f.jsonl") {
        let zone = row["zone"].as_str().unwrap();
        let known = MOVES.iter().find(|known| known[0] == zone);
        let [_, wall, old, new] = known.unwrap_or_else(|| panic!("{zone} is not in the table"));
        let wall: DateTime = wall.parse().unwrap();
        assert_eq!(wall, row["wall"].as_str().unwrap().parse().unwrap(), "{zone}");
        assert_eq!(at(old), at(row["old_instant"].as_str().unwrap()), "{zone}");
        assert_eq!(at(new), at(row["new_instant"].as_str().unwrap()), "{zone}");
    }
}
