//! Measures how fast each crate reads cron expressions.

use calendar::Cron;

use crate::measure::{Contender, Effort, race};
use crate::peers;
use crate::report::{OURS, Report};

pub(crate) const CASES: [&str; 3] =
    ["0 9 * * *", "0,30 9-17/2 1-15 JAN-JUN MON-FRI", "a list of 200 characters"];

pub(crate) fn run(effort: Effort, report: &mut Report) {
    for name in CASES {
        let expression = if name == CASES[2] { list_of_200_characters() } else { name.to_owned() };
        assert!(Cron::parse(&expression).is_ok(), "the cases are well-formed: {expression}");
        let inputs = vec![expression.clone(); 256];
        let mut contenders =
            vec![Contender::unchecked(OURS, effort, inputs.clone(), |text| Cron::parse(text))];
        if peers::parse_croner(&expression).is_ok() {
            let call = |text: &String| peers::parse_croner(text);
            contenders.push(Contender::unchecked(peers::CRONER, effort, inputs.clone(), call));
        }
        if peers::parse_cron(&expression).is_ok() {
            // Its seconds are put in front beforehand, not while the clock runs.
            let inputs = vec![format!("0 {expression}"); 256];
            let call = |text: &String| text.parse::<cron::Schedule>();
            contenders.push(Contender::unchecked(peers::CRON, effort, inputs, call));
        }
        let with_zone = format!("{expression} UTC");
        if peers::parse_cronexpr(&with_zone).is_ok() {
            let call = |text: &String| peers::parse_cronexpr(text);
            let inputs = vec![with_zone; 256];
            contenders.push(Contender::unchecked(peers::CRONEXPR, effort, inputs, call));
        }
        report.add("parse", name, race(contenders, effort));
    }
}

fn list_of_200_characters() -> String {
    let minutes: Vec<String> = (0..60).map(|minute| minute.to_string()).collect();
    format!("{} 0,1,2,3,4,5,6,7,10,11,12 * * *", minutes.join(","))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_long_list_is_what_its_name_says() {
        assert_eq!(super::list_of_200_characters().len(), 200);
    }
}
