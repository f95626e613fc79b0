//! Compares our table of each zone with another implementation and with the shared vectors.

use std::path::Path;

use calendar::{Meaning, Zone, Zones};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::at;
use super::walked_clock::{instant, reference_zone};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors");

/// The lines of a shared file. If the folder is absent, prints a message and returns none.
pub(super) fn shared_rows(file: &str) -> Vec<Value> {
    let path = Path::new(VECTORS).join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        Err(error) => {
            eprintln!("SKIPPED: no shared vectors at {}: {error}", path.display());
            Vec::new()
        }
    }
}

/// Instants scattered over the centuries, the same in every run.
fn scattered(seed: u64, count: u64, from: &str, to: &str) -> impl Iterator<Item = Timestamp> {
    let (from, to) = (at(from).as_second(), at(to).as_second());
    (0..count).map(move |n| {
        let mixed = (seed << 20 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (u128::from(mixed ^ mixed >> 29) * (to - from) as u128) >> 64;
        instant(from + place as i64)
    })
}

/// The changes of the offset, without those of only the abbreviation.
fn reference_changes(
    zone: &TimeZone,
    from: Timestamp,
    to: Timestamp,
) -> Vec<(Timestamp, i32, i32)> {
    let mut before = zone.to_offset(from).seconds();
    let mut changes = Vec::new();
    for transition in zone.following(from).take_while(|transition| transition.timestamp() < to) {
        let after = transition.offset().seconds();
        if after != before {
            changes.push((transition.timestamp(), before, after));
        }
        before = after;
    }
    changes
}

fn reference_meaning(zone: &TimeZone, wall: DateTime) -> Meaning {
    let with = |offset: jiff::tz::Offset| offset.to_timestamp(wall).unwrap();
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => Meaning::Once(with(offset)),
        AmbiguousOffset::Fold { before, after } => {
            Meaning::Fold { first: with(before), last: with(after) }
        }
        AmbiguousOffset::Gap { before, after } => Meaning::Gap {
            end: zone.following(with(after)).next().unwrap().timestamp(),
            before: before.seconds(),
            after: after.seconds(),
        },
    }
}

fn every_zone() -> impl Iterator<Item = (u64, Zone, TimeZone)> {
    let zones = Zones::bundled();
    let names = zones.names();
    let read = move |(seed, name): (u64, String)| {
        Some((seed, zones.get(&name).ok()?, reference_zone(&name)))
    };
    (0..).zip(names).filter_map(read)
}

#[test]
fn every_zone_of_the_bundle_is_read() {
    let zones = Zones::bundled();
    let names = zones.names();
    assert!(names.len() > 550, "{} zones", names.len());
    let problems: Vec<String> =
        names.iter().filter_map(|name| Some(zones.get(name).err()?.to_string())).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Changes after the last regular ones, which a compiler of zone files may lose.
#[test]
fn listed_changes_are_in_the_bundle() {
    let zones = Zones::bundled();
    for (zone, instant, offset) in [
        ("America/Ojinaga", "2022-11-01T00:00:00Z", -6 * 3600),
        ("America/Ojinaga", "2023-07-01T00:00:00Z", -5 * 3600),
        ("Asia/Gaza", "2073-09-02T00:00:00Z", 2 * 3600),
        ("Asia/Hebron", "2085-05-01T00:00:00Z", 2 * 3600),
        ("Asia/Hebron", "2086-06-01T00:00:00Z", 3 * 3600),
    ] {
        let found = zones.get(zone).map(|zone| zone.offset_at(at(instant)));
        assert_eq!(found, Ok(offset), "{zone} at {instant}");
    }
}

#[test]
fn offsets_are_right_from_1850_to_9000() {
    for (seed, zone, reference) in every_zone() {
        for from_to in [("1850-01-01T00Z", "2100-01-01T00Z"), ("2100-01-01T00Z", "9000-01-01T00Z")]
        {
            for at in scattered(seed, 60, from_to.0, from_to.1) {
                let expected = reference.to_offset(at).seconds();
                assert_eq!(zone.offset_at(at), expected, "{} at {at}", zone.name());
            }
        }
    }
}

#[test]
fn changes_of_the_clock_are_right() {
    let year = SignedDuration::from_hours(366 * 24);
    for (seed, zone, reference) in every_zone() {
        let far = scattered(seed, 3, "2040-01-01T00Z", "8900-01-01T00Z").map(|at| (at, at + year));
        let spans = [(at("1880-01-01T00:00:00Z"), at("2045-01-01T00:00:00Z"))];
        for (from, to) in spans.into_iter().chain(far) {
            let found: Vec<_> =
                zone.transitions(from, to).map(|t| (t.at, t.before, t.after)).collect();
            assert_eq!(found, reference_changes(&reference, from, to), "{}", zone.name());
        }
    }
}

#[test]
fn wall_times_near_changes_mean_the_same() {
    let second = SignedDuration::from_secs(1);
    for (seed, zone, reference) in every_zone() {
        let far = scattered(seed, 2, "2040-01-01T00Z", "8900-01-01T00Z");
        for from in far.chain([at("1985-01-01T00:00:00Z"), at("2015-01-01T00:00:00Z")]) {
            for change in zone.transitions(from, from + SignedDuration::from_hours(20_000)) {
                for offset in [change.before, change.after] {
                    let edge =
                        jiff::tz::Offset::from_seconds(offset).unwrap().to_datetime(change.at);
                    for wall in [edge - second, edge, edge + second] {
                        let expected = reference_meaning(&reference, wall);
                        let found = zone.meaning(wall);
                        assert_eq!(found, Some(expected), "{wall} in {}", zone.name());
                    }
                }
            }
        }
    }
}

fn as_vector(meaning: Meaning) -> Value {
    match meaning {
        Meaning::Once(at) => json!({"kind": "once", "instant": at.to_string()}),
        Meaning::Gap { end, before, after } => json!({
            "kind": "gap",
            "gap_end": end.to_string(),
            "before_offset": before,
            "after_offset": after,
        }),
        Meaning::Fold { first, last } => {
            json!({"kind": "fold", "first": first.to_string(), "second": last.to_string()})
        }
    }
}

#[test]
fn the_shared_zone_vectors_are_met() {
    let zones = Zones::bundled();
    for row in shared_rows("tz.jsonl") {
        let zone = zones.get(row["zone"].as_str().unwrap()).unwrap();
        match row["kind"].as_str().unwrap() {
            "tz_resolve" => {
                let wall = row["wall"].as_str().unwrap().parse().unwrap();
                assert_eq!(as_vector(zone.meaning(wall).unwrap()), row["expected"], "{row}");
            }
            "tz_transitions" => {
                let year = |n: usize| at(&format!("{}-01-01T00:00:00Z", row["years"][n]));
                let found: Vec<Value> = zone
                    .transitions(year(0), year(1))
                    .map(|t| json!([t.at.to_string(), t.before, t.after]))
                    .collect();
                assert_eq!(json!(found), row["expected"], "{row}");
            }
            other => panic!("unknown kind {other}"),
        }
    }
}
