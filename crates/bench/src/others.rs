//! Working time, zones, recurrences and timings.

use calendar::holidays::Region;
use calendar::{Calendar, Meaning, Recurrence, Rrule, TimingContext, TimingSpec, Zone, Zones};
use jiff::civil::{DateTime, Weekday, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::inputs;
use crate::measure::{Contender, Effort, Inputs, race};
use crate::peers;
use crate::report::{OURS, Report};

pub(crate) const WORKING_DAYS: &str = "two working days later, US holidays";

pub(crate) fn run(effort: Effort, report: &mut Report) {
    let zones = Zones::bundled();
    let zone = zones.get("America/New_York").expect("New York is bundled");
    let instants = inputs::instants(effort.inputs);
    working_days(effort, &zone, &instants, report);
    resolve(effort, &zone, &instants, report);
    last_friday(effort, &zone, &instants, report);
    bavarian_mornings(effort, &zones, &instants, report);
}

/// From nine in the morning of a working day, two days of eight hours end at closing time of the
/// next one: that is easy to say without any calendar arithmetic.
fn working_days(effort: Effort, zone: &Zone, instants: &[Timestamp], report: &mut Report) {
    let region = Region::parse("US").expect("the region is known");
    let calendar = Calendar::for_region(&region, zone.clone());
    let plain_zone = peers::new_york();
    let wall = |date: jiff::civil::Date, hour: i8| at_wall(date.at(hour, 0, 0, 0), &plain_zone);
    let works = |date: &jiff::civil::Date| {
        let weekend = matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
        !weekend && region.holidays(date.year()).iter().all(|holiday| holiday.date != *date)
    };
    let mut inputs = Vec::new();
    let mut expected = Vec::new();
    for at in instants {
        let days = plain_zone.to_datetime(*at).date().series(1.day());
        let mut days = days.filter(works);
        if let (Some(first), Some(second)) = (days.next(), days.next()) {
            inputs.extend(wall(first, 9));
            expected.push(wall(second, 17));
        }
    }
    let call = move |at: &Timestamp| calendar.add_days(*at, 2.0);
    let ours = Contender::new(
        OURS,
        effort,
        Inputs::timed(inputs),
        call,
        std::convert::identity,
        &expected,
    );
    report.add("working time", WORKING_DAYS, race(vec![ours], effort));
}

fn resolve(effort: Effort, zone: &Zone, instants: &[Timestamp], report: &mut Report) {
    let plain_zone = peers::new_york();
    let walls: Vec<DateTime> = instants.iter().map(|at| plain_zone.to_datetime(*at)).collect();
    let expected: Vec<Option<Timestamp>> = walls.iter().map(|w| at_wall(*w, &plain_zone)).collect();
    let zone = zone.clone();
    let plain = |meaning: Option<Meaning>| match meaning? {
        Meaning::Once(at) | Meaning::Fold { first: at, .. } => Some(at),
        Meaning::Gap { .. } => None,
    };
    let call = move |wall: &DateTime| zone.meaning(*wall);
    let ours = Contender::new(OURS, effort, Inputs::timed(walls.clone()), call, plain, &expected);
    let call = move |wall: &DateTime| plain_zone.to_ambiguous_timestamp(*wall).earlier();
    let jiff =
        Contender::new("jiff 0.2", effort, Inputs::timed(walls), call, Result::ok, &expected);
    report.add("zone", "what a wall time means", race(vec![ours, jiff], effort));
}

fn last_friday(effort: Effort, zone: &Zone, instants: &[Timestamp], report: &mut Report) {
    let plain_zone = peers::new_york();
    let expected: Vec<Option<Timestamp>> = instants
        .iter()
        .map(|at| {
            let mut month = plain_zone.to_datetime(*at).date().first_of_month();
            loop {
                let friday = month.nth_weekday_of_month(-1, Weekday::Friday).ok()?;
                let found = at_wall(friday.to_datetime(time(17, 0, 0, 0)), &plain_zone)?;
                if found > *at {
                    return Some(found);
                }
                month = month.checked_add(1.month()).ok()?;
            }
        })
        .collect();
    let rrule = Rrule::parse("FREQ=MONTHLY;BYDAY=-1FR").expect("the rule is well-formed");
    let start = "2023-01-27T17:00".parse().expect("the start is well-formed");
    let recurrence = Recurrence::new(rrule, start, zone.clone());
    let call = move |at: &Timestamp| recurrence.next_after(*at);
    let ours = Contender::new(
        OURS,
        effort,
        Inputs::timed(instants.to_vec()),
        call,
        std::convert::identity,
        &expected,
    );
    report.add("rrule", "the last Friday of the month", race(vec![ours], effort));
}

fn bavarian_mornings(effort: Effort, zones: &Zones, instants: &[Timestamp], report: &mut Report) {
    let spec = TimingSpec {
        timezone: Some("Europe/Berlin".to_owned()),
        calendar: Some("DE-BY".to_owned()),
        ..TimingSpec::from_cron("0 9 * * *")
    };
    let context = TimingContext::new(zones, Timestamp::UNIX_EPOCH);
    let timing = spec.build(&context).expect("the declaration is well-formed");
    let region = Region::parse("DE-BY").expect("the region is known");
    let berlin = peers::zone("Europe/Berlin");
    let expected: Vec<Option<Timestamp>> = instants
        .iter()
        .map(|at| {
            let days = berlin.to_datetime(*at).date().series(1.day());
            let mut works = days.filter(|date| {
                let weekend = matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
                !weekend && region.holidays(date.year()).iter().all(|h| h.date != *date)
            });
            works.find_map(|date| at_wall(date.at(9, 0, 0, 0), &berlin).filter(|found| found > at))
        })
        .collect();
    let call = move |at: &Timestamp| timing.next_after(*at);
    let plain = |found: Option<calendar::Occurrence>| found.map(|found| found.effective);
    let ours =
        Contender::new(OURS, effort, Inputs::timed(instants.to_vec()), call, plain, &expected);
    report.add("timing", "0 9 * * * on working days of DE-BY", race(vec![ours], effort));
}

fn at_wall(wall: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(wall).earlier().ok()
}
