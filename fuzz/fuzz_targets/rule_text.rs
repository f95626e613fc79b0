//! Any text, read as everything that people may write. The first two bytes choose zone and instant.
#![no_main]

use calendar::{
    CalendarSpec, CatchUpSpec, Cron, Recurrence, Rrule, Rule, TimingSpec, Zone, format_duration,
    parse_duration,
};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use punctual_fuzz::invariants::{
    Written, bounded, check_calendar, check_mistakes, check_problem, check_rule, check_timing,
};
use punctual_fuzz::world;

fuzz_target!(|data: &[u8]| {
    let [zone, instant, text @ ..] = data else { return };
    let (zone, at) = (world::zone(*zone), world::instant(*instant));
    let text = String::from_utf8_lossy(text);
    read_cron(&text, &zone, at);
    read_rrule(&text, &zone, at);
    read_duration(&text);
    for spec in declarations(&text) {
        read_timing(&spec, &zone, at);
    }
    for spec in declarations(&text) {
        read_calendar(&spec, &zone, at);
    }
    for spec in declarations::<CatchUpSpec>(&text) {
        if let Err(mistakes) = spec.build() {
            check_mistakes(&mistakes);
        }
    }
    // Whatever else is no zone costs a comparison with every zone's name.
    if text.len() <= 32
        && !text.contains(char::is_whitespace)
        && let Err(problem) = world::zones().get(&text)
    {
        check_problem(&problem);
    }
});

fn declarations<T: serde::de::DeserializeOwned>(text: &str) -> impl Iterator<Item = T> {
    let json = serde_json::from_str(text).ok();
    let yaml = serde_saphyr::from_str(text).ok();
    json.into_iter().chain(yaml)
}

fn read_cron(text: &str, zone: &Zone, at: Timestamp) {
    match bounded("Cron::parse", &text, || Cron::parse(text)) {
        Ok(cron) => {
            assert_eq!(Cron::parse(&cron.to_string()).as_ref(), Ok(&cron), "{text:?}");
            check_rule(&Rule::cron(cron, zone.clone()), &(text, zone), at);
        }
        Err(problem) => check_problem(&problem),
    }
}

fn read_rrule(text: &str, zone: &Zone, at: Timestamp) {
    match bounded("Rrule::parse", &text, || Rrule::parse(text)) {
        Ok(rrule) => {
            assert_eq!(Rrule::parse(&rrule.to_string()).as_ref(), Ok(&rrule), "{text:?}");
            let recurrence = bounded("Recurrence::new", &text, || {
                Recurrence::new(rrule.clone(), zone.wall(at), zone.clone())
            });
            check_rule(&Rule::Recurrence(Box::new(recurrence)), &(text, zone, at), at);
        }
        Err(problem) => check_problem(&problem),
    }
}

fn read_duration(text: &str) {
    match parse_duration(text) {
        Ok(duration) => {
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{text:?}");
        }
        Err(problem) => check_problem(&problem),
    }
}

fn read_timing(spec: &TimingSpec, zone: &Zone, at: Timestamp) {
    let written = (Written(spec), zone);
    let built = bounded("TimingSpec::build", &written, || {
        world::with_context(zone, at, None, |context| spec.build(context))
    });
    match built {
        Ok(timing) => check_timing(&timing.for_schedule("fuzz"), &written, at),
        Err(mistakes) => check_mistakes(&mistakes),
    }
}

fn read_calendar(spec: &CalendarSpec, zone: &Zone, at: Timestamp) {
    let written = (Written(spec), zone);
    let built = bounded("CalendarSpec::build", &written, || world::build_calendar(spec, zone, ""));
    match built {
        Ok(calendar) => check_calendar(&calendar, &written, at),
        Err(mistakes) => check_mistakes(&mistakes),
    }
}
