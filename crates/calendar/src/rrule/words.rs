//! Describes a recurrence in English: `every 2 weeks on Monday and Friday at 09:00, New York time`.

use super::expand::fill_in;
use super::{End, Frequency, NthWeekday, Recurrence, Rrule};
use crate::english::{self, MONTHS, WEEKDAYS};

/// Up to this many times of day are listed one by one; with more, hours and minutes are described.
const TIMES_LISTED: usize = 6;

impl Recurrence {
    /// Describes the rule in words, for people who check what they wrote.
    pub fn words(&self) -> String {
        // The parts taken from the start are described too: "every month" means "on the 15th".
        let rule = fill_in(&self.rrule, self.start);
        let mut words = format!("{}{}", period_and_days(&rule), clock(&rule));
        if !rule.positions.is_empty() {
            let places = and(from_start_first(&rule.positions).map(place));
            words += &format!(", only the {places} of each {}", unit(rule.frequency));
        }
        match rule.end {
            End::Never => {}
            End::Count(1) => words += ", once",
            End::Count(count) => words += &format!(", {count} times"),
            End::UntilDate(date) => words += &format!(", until {date}"),
            End::UntilWall(wall) => words += &format!(", until {} {}", wall.date(), wall.time()),
            End::UntilUtc(utc) => words += &format!(", until {} {} UTC", utc.date(), utc.time()),
        }
        words += &dates(", except ", self.exceptions.len());
        words += &dates(", and on ", self.additions.len());
        format!("{words}, {}", english::zone(&self.zone))
    }
}

fn dates(lead: &str, count: usize) -> String {
    if count == 0 { String::new() } else { lead.to_owned() + &english::count(count as i64, "date") }
}

fn unit(frequency: Frequency) -> &'static str {
    match frequency {
        Frequency::Secondly => "second",
        Frequency::Minutely => "minute",
        Frequency::Hourly => "hour",
        Frequency::Daily => "day",
        Frequency::Weekly => "week",
        Frequency::Monthly => "month",
        Frequency::Yearly => "year",
    }
}

fn period_and_days(rule: &Rrule) -> String {
    let period = match rule.interval {
        1 => format!("every {}", unit(rule.frequency)),
        n => format!("every {n} {}s", unit(rule.frequency)),
    };
    let mut filters: Vec<String> = Vec::new();
    let named_days = dated(rule);
    let plain = rule.frequency == Frequency::Daily && rule.interval == 1;
    let only_weekdays = named_days.is_none() && !rule.weekdays.is_empty();
    let period = if plain && only_weekdays {
        format!("every {}", weekday_words(rule))
    } else {
        if only_weekdays {
            filters.push(format!("on {}", weekday_words(rule)));
        } else if !rule.weekdays.is_empty() {
            filters.push(format!("on {} if it is", weekday_words(rule)));
        }
        period
    };
    if let Some(days) = named_days {
        filters.push(if rule.weekdays.is_empty() { format!("on {days}") } else { days });
    }
    if !rule.week_numbers.is_empty() {
        filters.push(week_words(&rule.week_numbers));
    }
    if !rule.months.is_empty() {
        let months = and(rule.months.iter().map(|&m| MONTHS[m as usize - 1].to_owned()));
        let of = !rule.month_days.is_empty() && rule.year_days.is_empty();
        let of = of && rule.week_numbers.is_empty();
        filters.push(format!("{} {months}", if of { "of" } else { "in" }));
    } else if rule.frequency == Frequency::Yearly && !rule.month_days.is_empty() {
        filters.push("of every month".to_owned());
    }
    let filters: String = filters.iter().map(|filter| format!(" {filter}")).collect();
    period + &filters
}

/// Describes days by their position in a month or year.
fn dated(rule: &Rrule) -> Option<String> {
    let month_days = (!rule.month_days.is_empty())
        .then(|| format!("the {}", and(from_start_first(&rule.month_days).map(day_place))));
    let year_days = (!rule.year_days.is_empty()).then(|| {
        let places = and(from_start_first(&rule.year_days).map(place));
        format!("the {places} day of the year")
    });
    match (month_days, year_days) {
        (Some(month), Some(year)) => Some(format!("{month} if it is {year}")),
        (month, year) => month.or(year),
    }
}

fn weekday_words(rule: &Rrule) -> String {
    let numbered = rule.frequency >= Frequency::Monthly;
    let bare: Vec<u8> =
        rule.weekdays.iter().filter(|d| d.nth == 0 || !numbered).map(|d| d.weekday).collect();
    let mut words = match bare.as_slice() {
        [1, 2, 3, 4, 5] => vec!["weekdays".to_owned()],
        [0, 6] => vec!["weekends".to_owned()],
        // The week begins on Monday.
        days => {
            let mut days = days.to_vec();
            days.sort_unstable_by_key(|day| (day + 6) % 7);
            days.dedup();
            days.iter().map(|&day| WEEKDAYS[day as usize].to_owned()).collect()
        }
    };
    if numbered {
        let of_year = rule.frequency == Frequency::Yearly && rule.months.is_empty();
        let nth = |day: &NthWeekday| {
            format!("the {} {}", place(day.nth.into()), WEEKDAYS[day.weekday as usize])
        };
        words.extend(rule.weekdays.iter().filter(|d| d.nth > 0).map(nth));
        words.extend(rule.weekdays.iter().filter(|d| d.nth < 0).map(nth));
        if of_year && words.len() > bare.len() && bare.is_empty() {
            return format!("{} of the year", and(words));
        }
    }
    if rule.frequency == Frequency::Daily && rule.interval == 1 && words.len() == 1 {
        // Gives "every weekday" instead of "every weekdays".
        return words.concat().trim_end_matches('s').to_owned();
    }
    and(words)
}

fn week_words(numbers: &[i16]) -> String {
    match numbers {
        [n] if *n > 0 => format!("in week {n}"),
        _ if numbers.iter().all(|&n| n > 0) => format!("in weeks {}", and(numbers)),
        _ => format!("in the {} week of the year", and(from_start_first(numbers).map(place))),
    }
}

fn clock(rule: &Rrule) -> String {
    let times = rule.hours.len() * rule.minutes.len() * rule.seconds.len();
    if rule.frequency >= Frequency::Daily && times <= TIMES_LISTED {
        return format!(" at {}", and(times_of_day(rule)));
    }
    let mut parts = Vec::new();
    let all_zero = |list: &[i16]| matches!(list, [0]);
    if !rule.seconds.is_empty() && !all_zero(&rule.seconds) {
        parts.push(numbered("second", &rule.seconds));
    }
    let minutes_matter = !all_zero(&rule.minutes) || rule.frequency >= Frequency::Hourly;
    if !rule.minutes.is_empty() && minutes_matter {
        parts.push(numbered("minute", &rule.minutes));
    }
    let at = if parts.is_empty() { String::new() } else { format!(" at {}", parts.join(" of ")) };
    if rule.hours.is_empty() { at } else { format!("{at} in {}", numbered("hour", &rule.hours)) }
}

fn times_of_day(rule: &Rrule) -> Vec<String> {
    let mut times = Vec::new();
    for &hour in &rule.hours {
        for &minute in &rule.minutes {
            for &second in &rule.seconds {
                let second = i32::from(hour) * 3600 + i32::from(minute) * 60 + i32::from(second);
                times.push(english::clock(second.unsigned_abs()));
            }
        }
    }
    times
}

/// `minute 5`, `minutes 0 and 30`, `hours 9 to 17`.
fn numbered(unit: &str, numbers: &[i16]) -> String {
    match numbers {
        [one] => format!("{unit} {one}"),
        [first, .., last] if numbers.len() > 2 && (last - first) as usize == numbers.len() - 1 => {
            format!("{unit}s {first} to {last}")
        }
        _ => format!("{unit}s {}", and(numbers)),
    }
}

/// Puts negative numbers last: `1, 15, -1` for a sorted `-1, 1, 15`.
fn from_start_first(numbers: &[i16]) -> impl Iterator<Item = i16> {
    let split = numbers.partition_point(|&n| n < 0);
    numbers[split..].iter().chain(&numbers[..split]).copied()
}

/// `first`, `last`, `second to last`.
fn place(n: i16) -> String {
    let word = english::ordinal_word(n.unsigned_abs().into());
    match n {
        -1 => "last".to_owned(),
        n if n < 0 => format!("{word} to last"),
        _ => word,
    }
}

/// `1st`, `last day`, `second to last day`.
fn day_place(n: i16) -> String {
    if n > 0 { english::ordinal(n.unsigned_abs().into()) } else { format!("{} day", place(n)) }
}

fn and(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    english::list(&items, "and")
}

#[cfg(test)]
mod tests {
    use crate::{Recurrence, Rrule, Zone};

    #[test]
    fn rules_read_as_english() {
        for (rule, words) in [
            ("FREQ=DAILY", "every day at 09:00"),
            ("FREQ=DAILY;INTERVAL=3;COUNT=1", "every 3 days at 09:00, once"),
            ("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR", "every weekday at 09:00"),
            ("FREQ=WEEKLY", "every week on Tuesday at 09:00"),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR,MO", "every 2 weeks on Monday and Friday at 09:00"),
            ("FREQ=MONTHLY", "every month on the 15th at 09:00"),
            ("FREQ=MONTHLY;BYMONTHDAY=1,-1", "every month on the 1st and last day at 09:00"),
            (
                "FREQ=MONTHLY;BYDAY=2MO,-1FR;BYHOUR=8,17",
                "every month on the second Monday and the last Friday at 08:00 and 17:00",
            ),
            (
                "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
                "every month on Friday if it is the 13th at 09:00",
            ),
            (
                "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
                "every month on weekdays at 09:00, only the last of each month",
            ),
            ("FREQ=YEARLY", "every year on the 15th of September at 09:00"),
            ("FREQ=YEARLY;BYMONTHDAY=1", "every year on the 1st of every month at 09:00"),
            ("FREQ=YEARLY;BYDAY=20MO", "every year on the 20th Monday of the year at 09:00"),
            ("FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", "every year on the last Sunday in March at 09:00"),
            ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "every year on Monday in week 20 at 09:00"),
            (
                "FREQ=YEARLY;BYYEARDAY=-2,100",
                "every year on the 100th and second to last day of the year at 09:00",
            ),
            ("FREQ=HOURLY;INTERVAL=2", "every 2 hours at minute 0"),
            ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11", "every 20 minutes in hours 9 to 11"),
            ("FREQ=SECONDLY;BYMINUTE=0,30", "every second at minutes 0 and 30"),
            (
                "FREQ=DAILY;BYHOUR=9,10,11;BYMINUTE=0,20,40",
                "every day at minutes 0, 20 and 40 in hours 9 to 11",
            ),
            ("FREQ=DAILY;BYSECOND=5", "every day at 09:00:05"),
            ("FREQ=DAILY;UNTIL=20270101", "every day at 09:00, until 2027-01-01"),
            (
                "FREQ=DAILY;UNTIL=20270101T100000Z",
                "every day at 09:00, until 2027-01-01 10:00:00 UTC",
            ),
        ] {
            let start = "2026-09-15T09:00".parse().unwrap();
            let recurrence = Recurrence::new(Rrule::parse(rule).unwrap(), start, Zone::utc());
            assert_eq!(recurrence.words(), format!("{words}, UTC"), "{rule}");
        }
    }
}
