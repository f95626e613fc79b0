//! Readable forms of cron rules, such as `daily: {at: "09:00", days: [MON, WED]}`.

use serde::{Deserialize, Serialize};

use crate::calendars::{Calendar, hours};
use crate::cron::Cron;
use crate::dst::Dst;
use crate::problem::{Mistake, Problem};
use crate::rule::{Rule, WorkingDayRule};
use crate::working_day::{Period, WorkingDay};
use crate::zone::Zone;

/// The most times of day; more belong into a cron expression.
const TIME_LIMIT: usize = 48;

/// One value or a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected one text in quotes, or a list of them")]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// All values, as a slice.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// `daily: {at: "09:00", days: [MON, WED]}`; without days, every day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DailySpec {
    pub at: OneOrMany<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<OneOrMany<String>>,
}

/// `weekly: {on: MON, at: "09:00"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeeklySpec {
    #[serde(alias = "day", alias = "days")]
    pub on: OneOrMany<String>,
    pub at: OneOrMany<String>,
}

/// A day of a month: `1`, `-1`, `last`, `2nd TUE`, `last FRI`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a day such as 1, -1, last, \"2nd TUE\" or \"last FRI\"")]
pub enum MonthDay {
    /// 1 to 31, or -1 for the last day, -2 for the one before.
    Number(i32),
    /// A name or an ordinal weekday.
    Text(String),
}

/// `monthly: {day: last, at: "09:00"}` or `monthly: {working_day: -1, at: "17:00"}`. `quarterly`
/// and `yearly` allow only `working_day`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<OneOrMany<MonthDay>>,
    /// The nth working day of the period, counted from the end if negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_day: Option<i32>,
    pub at: OneOrMany<String>,
}

pub(super) fn daily(spec: &DailySpec, zone: &Zone) -> Result<Rule, Vec<Mistake>> {
    let days = match &spec.days {
        Some(days) => weekdays(days.as_slice(), "days")?,
        None => "*".into(),
    };
    crons(spec.at.as_slice(), &format!("* * {days}"), zone)
}

pub(super) fn weekly(spec: &WeeklySpec, zone: &Zone) -> Result<Rule, Vec<Mistake>> {
    let days = weekdays(spec.on.as_slice(), "on")?;
    crons(spec.at.as_slice(), &format!("* * {days}"), zone)
}

pub(super) fn period(
    spec: &PeriodSpec,
    period: Period,
    zone: &Zone,
    calendar: Option<&Calendar>,
) -> Result<Rule, Vec<Mistake>> {
    match (&spec.day, spec.working_day, period) {
        (None, Some(nth), _) => working_day(spec, nth, period, calendar),
        (Some(days), None, Period::Month) => {
            let mut rules = Vec::new();
            for (at, day) in days.as_slice().iter().enumerate() {
                let field = month_day(day)
                    .map_err(|problem| vec![Mistake::new(format!("day[{at}]"), problem)])?;
                rules.push(crons(spec.at.as_slice(), &field, zone)?);
            }
            one_or_any(rules, "day")
        }
        _ => {
            let problem = Problem::whole("pattern", "", "one of day and working_day is needed")
                .allow("day (of a month), or working_day (of a month, quarter or year)")
                .suggest("{ working_day: -1, at: \"17:00\" }");
            Err(vec![Mistake::new("working_day", problem)])
        }
    }
}

fn working_day(
    spec: &PeriodSpec,
    nth: i32,
    period: Period,
    calendar: Option<&Calendar>,
) -> Result<Rule, Vec<Mistake>> {
    let most = match period {
        Period::Month => 31,
        Period::Quarter => 92,
        Period::Year => 366,
    };
    if nth == 0 || nth.unsigned_abs() > most {
        let problem = Problem::whole("working-day", &nth.to_string(), "no such working day")
            .allow(format!("1 to {most}, or -1 to -{most} from the end"));
        return Err(vec![Mistake::new("working_day", problem)]);
    }
    let Some(calendar) = calendar else {
        let problem = Problem::whole("working-day", "", "a working day needs a calendar")
            .suggest("calendar: DE-BY, or the id of a calendar of your own");
        return Err(vec![Mistake::new("calendar", problem)]);
    };
    let day = WorkingDay::new(calendar.clone(), period, nth, times(spec.at.as_slice())?);
    Ok(Rule::WorkingDay(Box::new(WorkingDayRule { day, dst: Dst::FIXED })))
}

/// The day fields of a cron expression: `1` → `1 * *`, `2nd TUE` → `* * TUE#2`.
fn month_day(day: &MonthDay) -> Result<String, Problem> {
    let refuse = |text: &str| {
        Problem::whole("month-day", text, "not a day of a month")
            .allow("1 to 31, -1 to -31 from the end, last, 2nd TUE, last FRI")
            .suggest("last")
    };
    let text = match day {
        MonthDay::Number(-1) => return Ok("L * *".into()),
        MonthDay::Number(day @ 1..=31) => return Ok(format!("{day} * *")),
        MonthDay::Number(day @ -31..=-2) => return Ok(format!("L{} * *", day + 1)),
        MonthDay::Number(day) => return Err(refuse(&day.to_string())),
        MonthDay::Text(text) => text.trim(),
    };
    if text.eq_ignore_ascii_case("last") {
        return Ok("L * *".into());
    }
    if let Ok(number) = text.parse::<i32>() {
        return month_day(&MonthDay::Number(number));
    }
    let (which, weekday) = text.split_once(' ').ok_or_else(|| refuse(text))?;
    let nth = match which.to_ascii_lowercase().as_str() {
        "1st" | "first" => "1",
        "2nd" | "second" => "2",
        "3rd" | "third" => "3",
        "4th" | "fourth" => "4",
        "5th" | "fifth" => "5",
        "last" => "L",
        _ => return Err(refuse(text)),
    };
    let bits = hours::parse_weekdays(weekday.trim())?;
    if bits.count_ones() != 1 {
        return Err(refuse(text));
    }
    Ok(format!("* * {}#{nth}", bits.trailing_zeros()))
}

fn weekdays(days: &[String], path: &str) -> Result<String, Vec<Mistake>> {
    let mut bits = 0u8;
    for (at, day) in days.iter().enumerate() {
        let found = hours::parse_weekdays(day);
        bits |= found.map_err(|problem| vec![Mistake::new(format!("{path}[{at}]"), problem)])?;
    }
    if bits == 0 {
        let problem = Problem::whole("pattern", "", "no weekday is named").suggest("[MON, WED]");
        return Err(vec![Mistake::new(path, problem)]);
    }
    let numbers: Vec<String> =
        (0..7).filter(|day| bits >> day & 1 == 1).map(|day| day.to_string()).collect();
    Ok(numbers.join(","))
}

fn times(at: &[String]) -> Result<Vec<u32>, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut times = Vec::new();
    if at.is_empty() || at.len() > TIME_LIMIT {
        let problem = Problem::whole("pattern", "", format!("{} times of day", at.len()))
            .allow(format!("1 to {TIME_LIMIT} times"));
        mistakes.push(Mistake::new("at", problem));
    }
    for (index, text) in at.iter().enumerate().take(TIME_LIMIT) {
        match hours::parse_clock(text) {
            Ok(86_400) => {
                let problem =
                    Problem::whole("time-of-day", text, "24:00 is the next day").suggest("00:00");
                mistakes.push(Mistake::new(format!("at[{index}]"), problem));
            }
            Ok(time) => times.push(time),
            Err(problem) => mistakes.push(Mistake::new(format!("at[{index}]"), problem)),
        }
    }
    if mistakes.is_empty() { Ok(times) } else { Err(mistakes) }
}

/// One cron rule for each time of day; times with the same minute share one rule.
fn crons(at: &[String], days: &str, zone: &Zone) -> Result<Rule, Vec<Mistake>> {
    let mut by_minute: Vec<(u32, Vec<u32>)> = Vec::new();
    for time in times(at)? {
        let (hour, rest) = (time / 3600, time % 3600);
        match by_minute.iter_mut().find(|(minute, _)| *minute == rest) {
            Some((_, hours)) => hours.push(hour),
            None => by_minute.push((rest, vec![hour])),
        }
    }
    let mut rules = Vec::new();
    for (rest, hours) in by_minute {
        let hours: Vec<String> = hours.iter().map(u32::to_string).collect();
        let expression = format!("{} {} {} {days}", rest % 60, rest / 60, hours.join(","));
        let cron = Cron::parse(&expression).map_err(|problem| vec![Mistake::new("at", problem)])?;
        rules.push(Rule::cron_with(cron, zone.clone(), Dst::FIXED));
    }
    one_or_any(rules, "at")
}

fn one_or_any(mut rules: Vec<Rule>, path: &str) -> Result<Rule, Vec<Mistake>> {
    match rules.len() {
        0 => {
            let problem = Problem::whole("pattern", "", "the list is empty");
            Err(vec![Mistake::new(path, problem)])
        }
        1 => Ok(rules.remove(0)),
        _ => Ok(Rule::Any(rules)),
    }
}
