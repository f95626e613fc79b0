//! Compares the holidays of regions and years with the source of the rules.

use std::path::Path;

use calendar::holidays::Region;
use serde_json::Value;

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[track_caller]
fn check(row: &str) {
    let row: Value = serde_json::from_str(row).expect("a row of JSON");
    let country = row["country"].as_str().expect("a country");
    let code = match row["subdiv"].as_str() {
        Some(subdivision) => format!("{country}-{subdivision}"),
        None => country.to_owned(),
    };
    let year = row["year"].as_i64().and_then(|year| i16::try_from(year).ok()).expect("a year");
    let region = Region::parse(&code).unwrap_or_else(|unknown| panic!("{unknown}"));
    let holidays = region.holidays(year);
    let dates: Vec<String> = holidays.iter().map(|holiday| holiday.date.to_string()).collect();
    assert_eq!(Value::from(dates), row["expected"], "{code} {year}");
    let Some(names) = row["names"].as_object() else { return };
    for holiday in &holidays {
        assert_eq!(names[&holiday.date.to_string()], *holiday.name, "{code} {year}");
    }
}

#[test]
fn the_sample_of_all_countries_is_met_exactly() {
    let sample = include_str!("data/holidays-sample.jsonl");
    assert!(sample.lines().count() >= 150);
    sample.lines().for_each(check);
}

#[test]
fn the_shared_vectors_are_met_exactly() {
    let path = Path::new(REPO).join("../shared/vectors/holidays.jsonl");
    match std::fs::read_to_string(&path) {
        Ok(rows) => rows.lines().for_each(check),
        Err(error) => eprintln!("SKIPPED: no shared vectors at {}: {error}", path.display()),
    }
}
