//! Any text as a calendar file that a calendar takes its holidays from.
#![no_main]

use calendar::{CalendarSpec, IcsEvent, IcsTime, write_ics};
use jiff::Timestamp;
use jiff::civil::date;
use libfuzzer_sys::fuzz_target;
use punctual_fuzz::invariants::{bounded, check_calendar, check_mistakes};
use punctual_fuzz::world;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let zone = world::zone(1);
    let spec: CalendarSpec =
        serde_json::from_str(r#"{"id": "from-file", "holidays": [{"ics": "holidays.ics"}]}"#)
            .expect("the declaration is well-formed");
    match bounded("CalendarSpec::build", &text, || world::build_calendar(&spec, &zone, &text)) {
        Ok(calendar) => {
            for choice in [4, 7, 9, 11, 13, 15] {
                check_calendar(&calendar, &text, world::instant(choice));
            }
        }
        Err(mistakes) => check_mistakes(&mistakes),
    }
    let event = IcsEvent {
        time: IcsTime::Day(date(2026, 12, 24)),
        summary: text.chars().take(200).collect(),
        uid: text.chars().take(40).collect(),
    };
    let written = write_ics(&text, &[event], Timestamp::UNIX_EPOCH);
    let read = world::build_calendar(&spec, &zone, &written).expect("what is written can be read");
    assert!(!read.day(date(2026, 12, 24)).is_working());
});
