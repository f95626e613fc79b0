//! Tests of `punctual calendar …`.

use serde_json::Value;

use crate::node::Home;
use crate::{file, refused, run, shown};

const OFFICE: &str = "\
id: us-business
timezone: America/New_York
hours: { mon-fri: [\"09:00-17:00\"] }
holidays:
  - { country: US }
  - { date: 2026-12-24, name: Company day, hours: [\"09:00-12:00\"] }
  - { ics: closed.ics }
exceptions:
  - { date: 2026-12-19, working: true }
";
const CLOSED: &str = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260601\n\
                      DTEND;VALUE=DATE:20260603\nSUMMARY:Move\nEND:VEVENT\nEND:VCALENDAR\n";

fn office() -> String {
    file("closed.ics", CLOSED);
    file("office.yaml", OFFICE)
}

fn reason(calendar: &str, date: &str) -> (bool, String) {
    let out = shown(&["calendar", "show", calendar, "--date", date, "--json"]);
    let day: Value = serde_json::from_str(&out).expect("JSON");
    (day["working"].as_bool().expect("a bool"), day["reason"].as_str().expect("text").to_owned())
}

#[test]
fn a_date_has_a_reason() {
    let office = office();
    for (date, working, expected) in [
        ("2026-12-18", true, "working day"),
        ("2026-12-19", true, "exception: working day"),
        ("2026-12-20", false, "Sunday"),
        ("2026-12-24", true, "holiday: Company day"),
        ("2026-12-25", false, "holiday: Christmas Day"),
        ("2026-07-03", false, "holiday: Independence Day (observed)"),
        ("2026-06-01", false, "holiday: Move"),
        ("2026-06-02", false, "holiday: Move"),
        ("2026-06-03", true, "working day"),
    ] {
        assert_eq!(reason(&office, date), (working, expected.to_owned()), "{date}");
    }
}

#[test]
fn working_time_is_added() {
    let office = office();
    for (start, amount, expected) in [
        ("2026-02-28T14:00", "2d", "Tue 2026-03-03 17:00"),
        ("2026-02-27T14:00", "2 working days", "Tue 2026-03-03 14:00"),
        ("2026-02-27T17:00", "16h", "Tue 2026-03-03 17:00"),
        ("2026-03-01T09:00", "0h", "Mon 2026-03-02 09:00"),
        ("2026-03-03T14:00", "-2d", "Fri 2026-02-27 14:00"),
        ("2026-12-23T16:00", "4h", "Thu 2026-12-24 12:00"),
    ] {
        let out = shown(&["calendar", "add", &office, start, amount]);
        assert!(out.starts_with(expected), "{start} + {amount}: {out}");
    }
}

#[test]
fn working_time_is_measured() {
    let out = shown(&[
        "calendar",
        "between",
        &office(),
        "2026-07-02T12:00",
        "2026-07-06T12:00",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["working_minutes"], 8 * 60);
    assert_eq!(json["working_days"], 2);
    assert_eq!(json["weekend_days"], 1);
    // The holiday is Saturday the 4th; it is observed on Friday the 3rd.
    assert_eq!(json["holidays"], 2);
}

#[test]
fn a_year_is_drawn() {
    let out = shown(&["calendar", "show", "DE-BY", "--year", "2026"]);
    insta::assert_snapshot!(out, @r#"
    DE-BY 2026: 252 working days

           January                 February                 March
     Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su
               1* 2  3  4                       1                       1
      5  6* 7  8  9 10 11     2  3  4  5  6  7  8     2  3  4  5  6  7  8
     12 13 14 15 16 17 18     9 10 11 12 13 14 15     9 10 11 12 13 14 15
     19 20 21 22 23 24 25    16 17 18 19 20 21 22    16 17 18 19 20 21 22
     26 27 28 29 30 31       23 24 25 26 27 28       23 24 25 26 27 28 29
                                                     30 31

            April                    May                     June
     Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su
            1  2  3* 4  5                 1* 2  3     1  2  3  4* 5  6  7
      6* 7  8  9 10 11 12     4  5  6  7  8  9 10     8  9 10 11 12 13 14
     13 14 15 16 17 18 19    11 12 13 14*15 16 17    15 16 17 18 19 20 21
     20 21 22 23 24 25 26    18 19 20 21 22 23 24    22 23 24 25 26 27 28
     27 28 29 30             25*26 27 28 29 30 31    29 30

             July                   August                September
     Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su
            1  2  3  4  5                    1  2        1  2  3  4  5  6
      6  7  8  9 10 11 12     3  4  5  6  7  8  9     7  8  9 10 11 12 13
     13 14 15 16 17 18 19    10 11 12 13 14 15 16    14 15 16 17 18 19 20
     20 21 22 23 24 25 26    17 18 19 20 21 22 23    21 22 23 24 25 26 27
     27 28 29 30 31          24 25 26 27 28 29 30    28 29 30
                             31

           October                 November                December
     Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su    Mo Tu We Th Fr Sa Su
               1  2  3* 4                       1*       1  2  3  4  5  6
      5  6  7  8  9 10 11     2  3  4  5  6  7  8     7  8  9 10 11 12 13
     12 13 14 15 16 17 18     9 10 11 12 13 14 15    14 15 16 17 18 19 20
     19 20 21 22 23 24 25    16 17 18 19 20 21 22    21 22 23 24 25*26*27
     26 27 28 29 30 31       23 24 25 26 27 28 29    28 29 30 31
                             30

      Thu 2026-01-01  closed  holiday: New Year's Day
      Tue 2026-01-06  closed  holiday: Epiphany
      Fri 2026-04-03  closed  holiday: Good Friday
      Mon 2026-04-06  closed  holiday: Easter Monday
      Fri 2026-05-01  closed  holiday: Labor Day
      Thu 2026-05-14  closed  holiday: Ascension Day
      Mon 2026-05-25  closed  holiday: Pentecost Monday
      Thu 2026-06-04  closed  holiday: Corpus Christi
      Sat 2026-10-03  closed  holiday: German Unity Day
      Sun 2026-11-01  closed  holiday: All Saints' Day
      Fri 2026-12-25  closed  holiday: Christmas Day
      Sat 2026-12-26  closed  holiday: Second Day of Christmas

      12 working   12 weekend   12* holiday   12+ other hours
    "#);
}

#[test]
fn all_mistakes_of_a_file_are_told_with_their_lines() {
    let path = file(
        "wrong.yaml",
        "id: x\ntimezone: Europe/Berlin\nhours:\n  mon-fri: [\"09:00-12:00\", \"11:00-17:00\"]\n  \
         sat: \"25:00-26:00\"\nholidays:\n  - { country: DE-ZZ }\n  - { date: 2026-13-01 }\n  \
         - { ics: nope.ics }\n",
    );
    let err = refused(&["calendar", "check", &path]);
    let places: Vec<&str> = err
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{path}:"))?.split(": ").next())
        .collect();
    assert_eq!(places, ["4:12", "5:8", "7:5", "8:5", "9:12"], "{err}");
    assert!(err.contains("try: 09:00-17:00"), "{err}");
    let (code, out, _) = run(&["calendar", "check", &office()]);
    assert_eq!(code, 0);
    assert!(out.ends_with("office.yaml: us-business ok\n"), "{out}");
    let never = file("never.yaml", "id: never\ntimezone: UTC\nhours: {}\n");
    let told = shown(&["calendar", "check", &never]);
    assert!(told.contains("never.yaml: the calendar never has no working time at all\n"), "{told}");
    let told: Value =
        serde_json::from_str(&shown(&["calendar", "check", &never, "--json"])).expect("JSON");
    assert_eq!(told[0]["warnings"][0], "the calendar never has no working time at all");
}

#[test]
fn a_calendar_is_put_on_a_node() {
    let home = Home::new().with("nothing.yaml", "name: nothing\nsteps: [{id: a, type: noop}]\n");
    let node = home.serve();
    let office = file("put.yaml", "id: office\ntimezone: UTC\nhours: { mon: \"09:00-17:00\" }\n");
    let said = node.shown(&["calendar", "put", &office]);
    assert_eq!(said, "calendar office is declared; schedules recomputed: 0\n");
    let unnamed = file("unnamed.yaml", "timezone: Europe/Berlin\n");
    let put = node.json(&["calendar", "put", &unnamed, "--id", "berlin"]);
    assert_eq!((put["id"].as_str(), put["recomputed"].as_u64()), (Some("berlin"), Some(0)));
    let err = node.refused(&["calendar", "put", &unnamed]);
    assert!(err.contains("try: id: NAME in the file, or --id NAME"), "{err}");
    let wrong = file("mars.yaml", "id: mars\ntimezone: Mars/X\n");
    let err = node.refused(&["calendar", "put", &wrong]);
    assert!(err.contains("mars.yaml") && err.contains("timezone"), "{err}");
    let list = file("list.yaml", "calendars: [{id: a, timezone: UTC}]\n");
    let err = node.refused(&["calendar", "put", &list]);
    assert!(err.contains("try: a file for each"), "{err}");
}

#[test]
fn hostile_calendars_are_refused() {
    let bomb: String = (0..9).fold("a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, i| {
        let (this, last) = ((b'b' + i) as char, (b'a' + i) as char);
        let aliases = vec![format!("*{last}"); 9].join(",");
        text + &format!("{this}: &{this} [{aliases}]\n")
    });
    let many: Vec<String> = (0..20_000).map(|i| format!("\"{}-01-01\"", 1900 + i % 200)).collect();
    for (name, text) in [
        ("bomb.yaml", bomb),
        ("many.yaml", format!("timezone: UTC\nholidays: [{}]\n", many.join(","))),
        ("deep.yaml", "[".repeat(50_000)),
        ("twice.yaml", "id: a\nid: b\n".into()),
        ("typo.yaml", "id: a\ntimezone: UTC\nhollidays: []\n".into()),
    ] {
        refused(&["calendar", "check", &file(name, &text)]);
    }
}

#[test]
fn composed_calendars() {
    let path = file(
        "composed.yaml",
        "calendars:\n\
         - { id: de, timezone: Europe/Berlin, holidays: [ { country: DE } ] }\n\
         - { id: fr, timezone: Europe/Berlin, holidays: [ { country: FR } ] }\n\
         - { id: maintenance, timezone: Europe/Berlin, hours: { wed: \"00:00-24:00\" } }\n\
         - { id: both, timezone: Europe/Berlin, intersection: [de, fr] }\n\
         - { id: either, timezone: Europe/Berlin, union: [de, fr] }\n\
         - { id: open, timezone: Europe/Berlin, base: de, all_but: [maintenance] }\n",
    );
    let at = |id: &str, date: &str| reason(&format!("{path}#{id}"), date);
    assert_eq!(at("both", "2026-07-14"), (false, "holiday: National Day".into()));
    assert_eq!(at("either", "2026-07-14"), (true, "working day".into()));
    assert_eq!(at("either", "2026-05-01"), (false, "holiday: Labor Day".into()));
    assert_eq!(at("open", "2026-07-15"), (false, "exception: taken by maintenance".into()));
    assert_eq!(at("open", "2026-07-16"), (true, "working day".into()));
    let zones = file(
        "zones.yaml",
        "calendars:\n\
         - { id: ny, timezone: America/New_York }\n\
         - { id: bad, timezone: Europe/Berlin, union: [ny, DE] }\n",
    );
    assert!(refused(&["calendar", "check", &zones]).contains("ny is in America/New_York"));
}

#[test]
fn days_off_go_out_and_come_back_as_ics() {
    let text = shown(&["calendar", "ics", "GB-SCT", "--year", "2026"]);
    let path = file("scotland.ics", &text);
    let out = shown(&["calendar", "ics", &path, "--json"]);
    let read: Value = serde_json::from_str(&out).expect("JSON");
    let out = shown(&["calendar", "holidays", "GB-SCT", "2026", "--json"]);
    let known: Value = serde_json::from_str(&out).expect("JSON");
    let pairs = |rows: &Value, date: &str| -> Vec<(Value, Value)> {
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|row| (row[date].clone(), row["name"].clone())).collect()
    };
    assert!(pairs(&known, "date").len() > 7);
    assert_eq!(pairs(&read, "from"), pairs(&known, "date"));
}

#[test]
fn regions_are_listed_and_suggested() {
    let out = shown(&["calendar", "holidays"]);
    for code in ["US", "GB", "DE", "JP", "ZA"] {
        assert!(out.lines().any(|line| line.trim_start().starts_with(code)), "{code}");
    }
    assert!(refused(&["calendar", "holidays", "DE-ZZ"]).contains("DE-BY"));
    assert!(refused(&["calendar", "show", "Germany"]).contains("try: DE"));
}
