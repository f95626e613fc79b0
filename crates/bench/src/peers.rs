//! The other crates, each called the way its documentation shows, with inputs of its own types.

use calendar::{BundledZones, ZoneSource as _};
use chrono::DateTime;
use chrono_tz::Tz;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::measure::{Contender, Effort, Inputs};

pub(crate) const CRONER: &str = "croner 4.0.2 (chrono)";
pub(crate) const CRONER_JIFF: &str = "croner 4.0.2 (jiff)";
pub(crate) const CRON: &str = "cron 0.17.0";
pub(crate) const CRONEXPR: &str = "cronexpr 1.7.0";

/// A zone for jiff, from the database that ours is compiled with.
pub(crate) fn zone(name: &str) -> TimeZone {
    let bytes = BundledZones.tzif(name).expect("the zone is bundled");
    TimeZone::tzif(name, &bytes).expect("the bundled zones are well-formed")
}

pub(crate) fn new_york() -> TimeZone {
    zone("America/New_York")
}

/// All peers that read the expression.
pub(crate) fn contenders(
    expression: &str,
    instants: &Inputs<Timestamp>,
    expected: &[Option<Timestamp>],
    effort: Effort,
) -> Vec<Contender<'static>> {
    let chrono = instants.map(|at| to_chrono(*at));
    let mut contenders = Vec::new();
    if let Ok(cron) = parse_croner(expression) {
        let call = move |at: &DateTime<Tz>| cron.find_next_occurrence(at, false);
        let plain = |answer: Result<DateTime<Tz>, _>| answer.ok().and_then(from_chrono);
        contenders.push(Contender::new(CRONER, effort, chrono.clone(), call, plain, expected));
    }
    if let Ok(cron) = parse_croner(expression) {
        let zone = new_york();
        let inputs = instants.map(|at| at.to_zoned(zone.clone()));
        let call = move |at: &Zoned| cron.find_next_occurrence(at, false);
        let plain = |answer: Result<Zoned, _>| answer.ok().map(|zoned| zoned.timestamp());
        contenders.push(Contender::new(CRONER_JIFF, effort, inputs, call, plain, expected));
    }
    if let Ok(cron) = parse_cron(expression) {
        let call = move |at: &DateTime<Tz>| cron.after(at).next();
        let plain = |answer: Option<DateTime<Tz>>| answer.and_then(from_chrono);
        contenders.push(Contender::new(CRON, effort, chrono, call, plain, expected));
    }
    if let Ok(cron) = parse_cronexpr(&format!("{expression} America/New_York")) {
        let inputs = instants.map(|at| at.as_second());
        let call = move |at: &i64| {
            cronexpr::MakeTimestamp::from_second(*at).and_then(|at| cron.find_next(at))
        };
        let plain = |answer: Result<Zoned, _>| answer.ok().map(|zoned| zoned.timestamp());
        contenders.push(Contender::new(CRONEXPR, effort, inputs, call, plain, expected));
    }
    contenders
}

pub(crate) fn parse_croner(expression: &str) -> Result<croner::Cron, croner::errors::CronError> {
    expression.parse()
}

/// This one wants seconds.
pub(crate) fn parse_cron(expression: &str) -> Result<cron::Schedule, cron::error::Error> {
    format!("0 {expression}").parse()
}

pub(crate) fn parse_cronexpr(expression: &str) -> Result<cronexpr::Crontab, cronexpr::Error> {
    cronexpr::parse_crontab(expression)
}

fn to_chrono(at: Timestamp) -> DateTime<Tz> {
    let utc = DateTime::from_timestamp(at.as_second(), 0).unwrap_or_default();
    utc.with_timezone(&Tz::America__New_York)
}

fn from_chrono(at: DateTime<Tz>) -> Option<Timestamp> {
    Timestamp::from_second(at.timestamp()).ok()
}
