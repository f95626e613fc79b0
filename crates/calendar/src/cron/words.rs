//! Describes a cron expression in English.

use super::Cron;
use super::days::{DayOfMonthParts, LAST, Parts};
use super::years::Years;
use crate::english::{self, MONTHS, WEEKDAYS};

/// Up to this many times of day are listed one by one; with more, the fields are described.
const LISTED_TIMES: u32 = 6;

pub(super) fn words(cron: &Cron) -> String {
    let (time, names_times) = times(cron);
    let days = days(&cron.days.parts());
    let months = values(u64::from(cron.months));
    let mut words = time;
    match days {
        Some(days) => words = format!("{words} {days}"),
        None if names_times && months.len() == 12 => words.push_str(" every day"),
        None if names_times => words.push_str(" on every day"),
        None => {}
    }
    if months.len() < 12 {
        let names = english::runs(&months, |m| MONTHS[m as usize - 1].to_owned());
        words = format!("{words} in {}", english::list(&names, "and"));
    }
    if let Years::Only(spans) = &cron.years {
        let spans: Vec<String> = spans.iter().map(year_span).collect();
        words = format!("{words} in {}", english::list(&spans, "and"));
    }
    words
}

fn year_span(&(from, to, step): &(i32, i32, i32)) -> String {
    match (from == to, step) {
        (true, _) => from.to_string(),
        (false, 1) => format!("{from} to {to}"),
        (false, step) => {
            format!("every {} year from {from} to {to}", english::ordinal(step as u32))
        }
    }
}

fn values(bits: u64) -> Vec<u32> {
    (0..64).filter(|v| bits >> v & 1 == 1).collect()
}

/// The form of a field's values, for readers.
enum Shape {
    Every,
    One(u32),
    /// Evenly spaced from the first value to the end of the field.
    Step(u32),
    Range(u32, u32),
    List(Vec<u32>),
}

fn shape(bits: u64, size: u32) -> Shape {
    let values = values(bits);
    match values.as_slice() {
        all if all.len() == size as usize => Shape::Every,
        &[one] => Shape::One(one),
        &[0, step, ..]
            if size.is_multiple_of(step)
                && values.len() as u32 == size / step
                && values.iter().all(|v| v % step == 0) =>
        {
            Shape::Step(step)
        }
        &[first, .., last] if values.len() as u32 == last - first + 1 => Shape::Range(first, last),
        _ => Shape::List(values),
    }
}

/// Describes the time of day. Also returns whether it names times, so that "every day" can follow.
fn times(cron: &Cron) -> (String, bool) {
    let (seconds, minutes, hours) = (cron.seconds, cron.minutes, u64::from(cron.hours));
    let listed = seconds.count_ones() * minutes.count_ones() * hours.count_ones();
    if listed <= LISTED_TIMES {
        let mut clocks = Vec::new();
        for h in values(hours) {
            for m in values(minutes) {
                clocks
                    .extend(values(seconds).iter().map(|s| english::clock(h * 3600 + m * 60 + s)));
            }
        }
        return (format!("at {}", english::list(&clocks, "and")), true);
    }
    let mut words = match shape(seconds, 60) {
        Shape::One(0) => String::new(),
        Shape::One(s) => format!("at second {s} of "),
        Shape::Every => "every second of ".into(),
        Shape::Step(step) => format!("every {step} seconds of "),
        Shape::Range(a, b) => format!("every second from {a} to {b} of "),
        Shape::List(list) => format!("at seconds {} of ", numbers(&list)),
    };
    words.push_str(&minutes_and_hours(minutes, hours));
    for (long, short) in
        [("every second of every minute", "every second"), (" seconds of every minute", " seconds")]
    {
        words = words.replace(long, short);
    }
    (words, false)
}

fn minutes_and_hours(minutes: u64, hours: u64) -> String {
    let first_minute = minutes.trailing_zeros();
    let last_minute = minutes.ilog2();
    let minute_words = match shape(minutes, 60) {
        Shape::Every => "every minute".to_owned(),
        Shape::Step(step) => format!("every {step} minutes"),
        Shape::One(0) => "every hour".to_owned(),
        Shape::One(m) => format!("at minute {m} of every hour"),
        Shape::Range(a, b) => format!("every minute from {a} to {b} of every hour"),
        Shape::List(list) => format!("at minutes {} of every hour", numbers(&list)),
    };
    let at = |hour: u32, minute: u32| english::clock(hour * 3600 + minute * 60);
    match shape(hours, 24) {
        Shape::Every => minute_words,
        Shape::One(h) => {
            format!("{minute_words} from {} to {}", at(h, first_minute), at(h, last_minute))
        }
        Shape::Range(a, b) => {
            format!("{minute_words} from {} to {}", at(a, first_minute), at(b, last_minute))
        }
        Shape::Step(step) if minutes == 1 => format!("every {step} hours"),
        Shape::Step(step) => {
            minute_words.replace(" of every hour", "")
                + &format!(" of every {} hour", english::ordinal(step))
        }
        Shape::List(list) => {
            let clocks = english::runs(&list, |h| at(h, 0));
            let minute_words = minute_words.replace("of every hour", "of the hours");
            let joiner = if minute_words.ends_with("hours") { "" } else { " in the hours" };
            format!("{minute_words}{joiner} {}", english::list(&clocks, "and"))
        }
    }
}

fn numbers(values: &[u32]) -> String {
    english::list(&english::runs(values, |v| v.to_string()), "and")
}

fn days(parts: &Parts<'_>) -> Option<String> {
    let of_month = parts.days_of_month.as_ref().map(days_of_month);
    let of_week = parts.days_of_week.map(|(weekdays, nth)| days_of_week(weekdays, nth));
    Some(match (of_month, of_week) {
        (None, None) => return None,
        (Some(of_month), None) => of_month,
        (None, Some(of_week)) => of_week,
        (Some(of_month), Some(of_week)) if parts.both => {
            format!("{of_month}, if that is {}", of_week.trim_start_matches("on "))
        }
        (Some(of_month), Some(of_week)) => format!("{of_month} and {of_week}"),
    })
}

fn days_of_month(parts: &DayOfMonthParts) -> String {
    let mut words = Vec::new();
    let numbered = values(u64::from(parts.days));
    match numbered.as_slice() {
        [] => {}
        &[day] => words.push(format!("day {day}")),
        days => words.push(format!("days {}", numbers(days))),
    }
    for back in values(u64::from(parts.from_last)) {
        words.push(match back {
            0 => "the last day".into(),
            back => format!("the day {} before the last", english::count(i64::from(back), "day")),
        });
    }
    for day in values(u64::from(parts.near)) {
        words.push(format!("the weekday nearest to the {}", english::ordinal(day)));
    }
    if parts.last_workday {
        words.push("the last weekday".into());
    }
    format!("on {} of the month", english::list(&words, "and"))
}

fn days_of_week(weekdays: u8, nth: &[u8; 7]) -> String {
    let mut words = Vec::new();
    match weekdays {
        0 => {}
        0b0011_1110 => words.push("on weekdays".to_owned()),
        0b0100_0001 => words.push("on weekends".to_owned()),
        0b0111_1111 => words.push("on every day".to_owned()),
        _ => {
            // For readers, the week begins on Monday.
            let mut days: Vec<u32> =
                values(u64::from(weekdays)).iter().map(|&d| if d == 0 { 7 } else { d }).collect();
            days.sort_unstable();
            let names = english::runs(&days, |d| WEEKDAYS[d as usize % 7].to_owned());
            words.push(format!("on {}", english::list(&names, "and")));
        }
    }
    for n in 1..=LAST {
        for day in values(u64::from(nth[n as usize])) {
            let which = if n == LAST { "last".into() } else { english::ordinal_word(n) };
            words.push(format!("on the {which} {} of the month", WEEKDAYS[day as usize]));
        }
    }
    english::list(&words, "and")
}

#[cfg(test)]
mod tests {
    use super::Cron;

    #[test]
    fn reads_like_a_sentence() {
        for (expression, expected) in [
            ("* * * * *", "every minute"),
            ("*/15 * * * *", "every 15 minutes"),
            ("0 * * * *", "every hour"),
            ("15 * * * *", "at minute 15 of every hour"),
            ("0 */2 * * *", "every 2 hours"),
            ("30 */2 * * *", "at minute 30 of every 2nd hour"),
            ("0 9 * * *", "at 09:00 every day"),
            ("0 9 * * MON-FRI", "at 09:00 on weekdays"),
            ("0,30 9,17 * * SAT,SUN", "at 09:00, 09:30, 17:00 and 17:30 on weekends"),
            ("*/10 9-17 * * 1-5", "every 10 minutes from 09:00 to 17:50 on weekdays"),
            ("0 8-18 * * *", "every hour from 08:00 to 18:00"),
            ("0 0 1 * *", "at 00:00 on day 1 of the month"),
            ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"),
            ("0 0 L * *", "at 00:00 on the last day of the month"),
            ("0 0 L-3 * *", "at 00:00 on the day 3 days before the last of the month"),
            ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
            ("0 12 15W * *", "at 12:00 on the weekday nearest to the 15th of the month"),
            ("0 12 * * 5#3", "at 12:00 on the third Friday of the month"),
            ("0 12 * * FRI#L", "at 12:00 on the last Friday of the month"),
            ("0 0 13 * 5", "at 00:00 on day 13 of the month and on Friday"),
            ("0 0 1-7 * +MON", "at 00:00 on days 1 to 7 of the month, if that is Monday"),
            ("0 0 1 1,7 *", "at 00:00 on day 1 of the month in January and July"),
            ("0 0 * 6-8 *", "at 00:00 on every day in June to August"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("* * * * * *", "every second"),
            ("30 0 9 * * *", "at 09:00:30 every day"),
            ("0 30 12 1 1 * 2030", "at 12:30 on day 1 of the month in January in 2030"),
            ("@daily", "at 00:00 every day"),
            ("0 0 * * FRI-SUN", "at 00:00 on Friday to Sunday"),
            ("*/20 1,5,7 * * *", "every 20 minutes in the hours 01:00, 05:00 and 07:00"),
        ] {
            assert_eq!(Cron::parse(expression).unwrap().words(), expected, "{expression}");
        }
    }
}
