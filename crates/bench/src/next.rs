//! The next occurrence of cron expressions in New York, from many different instants.

use calendar::{Cron, Rule, Zones};
use jiff::Timestamp;

use crate::inputs;
use crate::measure::{Contender, Effort, race};
use crate::peers;
use crate::reference::{
    HALF_PAST_TWO, MIDNIGHT, NINE, NOON, Reference, every_day, leap_day, near_15th, weekday,
};
use crate::report::{OURS, Report};

/// The two that the goal of "five times the fastest right peer" is about.
pub(crate) const HEADLINES: [&str; 2] = ["0 9 * * *", "0 0 29 2 *"];

pub(crate) fn run(effort: Effort, report: &mut Report) {
    let zone = Zones::bundled().get("America/New_York").expect("New York is bundled");
    let plain_zone = peers::new_york();
    let instants = inputs::instants_and_changes(effort.inputs, &plain_zone);
    let cases = [
        (HEADLINES[0], Reference::Days(NINE, every_day)),
        (HEADLINES[1], Reference::Days(MIDNIGHT, leap_day)),
        ("*/15 * * * *", Reference::QuarterHours),
        ("0 9 * * MON-FRI", Reference::Days(NINE, weekday)),
        ("30 2 * * *", Reference::Days(HALF_PAST_TWO, every_day)),
        ("0 12 15W * *", Reference::Days(NOON, near_15th)),
        ("0 0 31 2 *", Reference::Never),
    ];
    for (expression, reference) in cases {
        let expected: Vec<Option<Timestamp>> =
            instants.all.iter().map(|at| reference.next_after(*at, &plain_zone)).collect();
        let cron = Cron::parse(expression).expect("the cases are well-formed");
        let rule = Rule::cron(cron, zone.clone());
        let call = move |at: &Timestamp| rule.next_after(*at);
        let ours =
            Contender::new(OURS, effort, instants.clone(), call, std::convert::identity, &expected);
        let mut contenders = vec![ours];
        contenders.extend(peers::contenders(expression, &instants, &expected, effort));
        report.add("next", expression, race(contenders, effort));
    }
}
