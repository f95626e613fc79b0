//! Cron expressions as a tree, which is rendered to text and matched against a date and a time by
//! the plain meaning of each part.

use std::fmt::{self, Display};

use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const MONTHS: [&str; 12] =
    ["JAN", "feb", "Mar", "APR", "may", "Jun", "JUL", "aug", "Sep", "OCT", "nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT"];

#[derive(Clone, Debug)]
pub(super) struct Expression {
    seconds: Option<Numbers>,
    minutes: Numbers,
    hours: Numbers,
    days: Field<DayOfMonth>,
    months: Numbers,
    weekdays: Field<Weekday>,
    both: bool,
    years: Option<Numbers>,
}

#[derive(Clone, Debug)]
enum Field<T> {
    Star,
    QuestionMark,
    Items(Vec<T>),
}

#[derive(Clone, Debug)]
struct Numbers {
    items: Vec<Item>,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Every { step: Option<u32> },
    One { value: u32, named: bool, step: Option<u32> },
    Range { from: u32, to: u32, named: bool, step: Option<u32> },
}

#[derive(Clone, Debug)]
enum DayOfMonth {
    Plain(Item),
    BeforeLast(u32),
    LastWorkday,
    NearestWorkday(u32),
}

#[derive(Clone, Debug)]
enum Weekday {
    Plain(Item),
    Nth(u32, u32),
    LastOfMonth(u32),
    HashLast(u32),
}

impl Expression {
    /// Whether the minute or hour field begins with `*`.
    pub(super) fn is_wildcard(&self) -> bool {
        let star = |numbers: &Numbers| matches!(numbers.items[0], Item::Every { .. });
        star(&self.minutes) || star(&self.hours)
    }

    pub(super) fn matches(&self, date: Date, second_of_day: u32) -> bool {
        self.matches_time(second_of_day) && self.matches_date(date)
    }

    pub(super) fn matches_time(&self, second_of_day: u32) -> bool {
        let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
        self.minutes.has(minute)
            && self.hours.has(hour)
            && self
                .seconds
                .as_ref()
                .map_or(second_of_day.is_multiple_of(60), |all| all.has(second_of_day % 60))
    }

    pub(super) fn matches_date(&self, date: Date) -> bool {
        self.months.has(date.month() as u32)
            && self.years.as_ref().is_none_or(|years| years.has_year(date.year()))
            && self.matches_day(date)
    }

    fn matches_day(&self, date: Date) -> bool {
        let of_month = |all: &[DayOfMonth]| all.iter().any(|day| day.matches(date));
        let of_week = |all: &[Weekday]| all.iter().any(|day| day.matches(date));
        match (&self.days, &self.weekdays) {
            (Field::Items(days), Field::Items(weekdays)) if self.both => {
                of_month(days) && of_week(weekdays)
            }
            (Field::Items(days), Field::Items(weekdays)) => of_month(days) || of_week(weekdays),
            (Field::Items(days), _) => of_month(days),
            (_, Field::Items(weekdays)) => of_week(weekdays),
            _ => true,
        }
    }
}

impl Numbers {
    /// A bare `*` means every year, including those that cannot be written.
    fn has_year(&self, year: i16) -> bool {
        matches!(self.items[..], [Item::Every { step: None }]) || self.has(year as u32)
    }

    fn has(&self, value: u32) -> bool {
        self.items.iter().any(|item| item.has(value, self.first, self.last))
    }
}

impl Item {
    fn has(self, value: u32, first: u32, last: u32) -> bool {
        let (from, to, step) = match self {
            Item::Every { step } => (first, last, step),
            Item::One { value, step: Some(step), .. } => (value, last.max(value), Some(step)),
            Item::One { value, step: None, .. } => (value, value, None),
            Item::Range { from, to, step, .. } => (from, to, step),
        };
        (from..=to).contains(&value) && (value - from).is_multiple_of(step.unwrap_or(1))
    }
}

impl DayOfMonth {
    fn matches(&self, date: Date) -> bool {
        let (day, length) = (date.day() as u32, date.days_in_month() as u32);
        let workdays = (1..=length).filter(|&day| is_monday_to_friday(date, day));
        match *self {
            DayOfMonth::Plain(item) => item.has(day, 1, 31),
            DayOfMonth::BeforeLast(back) => day + back == length,
            DayOfMonth::LastWorkday => workdays.max() == Some(day),
            DayOfMonth::NearestWorkday(to) => {
                to <= length && workdays.min_by_key(|day| day.abs_diff(to)) == Some(day)
            }
        }
    }
}

fn is_monday_to_friday(month: Date, day: u32) -> bool {
    let date = Date::new(month.year(), month.month(), day as i8).unwrap();
    date.weekday().to_monday_zero_offset() < 5
}

impl Weekday {
    fn matches(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset() as u32;
        let (day, length) = (date.day() as u32, date.days_in_month() as u32);
        match *self {
            Weekday::Plain(item) => item.has(weekday, 0, 6) || (weekday == 0 && item.has(7, 0, 6)),
            Weekday::Nth(which, n) => which % 7 == weekday && day.div_ceil(7) == n,
            Weekday::LastOfMonth(which) | Weekday::HashLast(which) => {
                which % 7 == weekday && day + 7 > length
            }
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seconds) = &self.seconds {
            write!(f, "{seconds} ")?;
        }
        write!(f, "{} {} ", self.minutes, self.hours)?;
        match &self.days {
            Field::Star => write!(f, "*")?,
            Field::QuestionMark => write!(f, "?")?,
            Field::Items(all) => list(f, all, |day| day.to_string())?,
        }
        write!(f, " {} ", self.months)?;
        match &self.weekdays {
            Field::Star => write!(f, "*")?,
            Field::QuestionMark => write!(f, "?")?,
            Field::Items(all) => {
                write!(f, "{}", if self.both { "+" } else { "" })?;
                list(f, all, |day| day.to_string())?;
            }
        }
        self.years.as_ref().map_or(Ok(()), |years| write!(f, " {years}"))
    }
}

impl Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.items, |item| item.written(self.names, self.first))
    }
}

impl Display for DayOfMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DayOfMonth::Plain(item) => f.write_str(&item.written(&[], 1)),
            DayOfMonth::BeforeLast(0) => write!(f, "L"),
            DayOfMonth::BeforeLast(back) => write!(f, "L-{back}"),
            DayOfMonth::LastWorkday => write!(f, "LW"),
            DayOfMonth::NearestWorkday(day) => write!(f, "{day}W"),
        }
    }
}

impl Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weekday::Plain(item) => f.write_str(&item.written(&WEEKDAYS, 0)),
            Weekday::Nth(which, n) => write!(f, "{which}#{n}"),
            Weekday::LastOfMonth(which) => write!(f, "{which}L"),
            Weekday::HashLast(which) => write!(f, "{}#L", WEEKDAYS[(which % 7) as usize]),
        }
    }
}

impl Item {
    fn written(self, names: &[&str], first: u32) -> String {
        let word = |value: u32, named: bool| match names.get((value - first) as usize) {
            Some(name) if named => (*name).to_owned(),
            _ => value.to_string(),
        };
        let (base, step) = match self {
            Item::Every { step } => ("*".to_owned(), step),
            Item::One { value, named, step } => (word(value, named), step),
            Item::Range { from, to, named, step } => {
                (format!("{}-{}", word(from, named), word(to, named)), step)
            }
        };
        step.map_or(base.clone(), |step| format!("{base}/{step}"))
    }
}

fn list<T>(f: &mut fmt::Formatter<'_>, all: &[T], text: impl Fn(&T) -> String) -> fmt::Result {
    f.write_str(&all.iter().map(text).collect::<Vec<_>>().join(","))
}

fn item(first: u32, last: u32, likely: std::ops::RangeInclusive<u32>) -> BoxedStrategy<Item> {
    let value = prop_oneof![3 => likely, 1 => first..=last].boxed();
    let step = || option::weighted(0.4, prop_oneof![1..=3u32, 1..=last.min(60)]);
    let one = (value.clone(), any::<bool>(), step()).prop_map(|(value, named, step)| Item::One {
        value,
        named,
        step,
    });
    let plain = value.clone().prop_map(|value| Item::One { value, named: false, step: None });
    let range = (value.clone(), value, any::<bool>(), step())
        .prop_map(|(a, b, named, step)| Item::Range { from: a.min(b), to: a.max(b), named, step });
    prop_oneof![
        2 => step().prop_map(|step| Item::Every { step }),
        1 => one,
        3 => plain,
        2 => range,
    ]
    .boxed()
}

fn numbers(
    first: u32,
    last: u32,
    likely: std::ops::RangeInclusive<u32>,
    names: &'static [&'static str],
) -> impl Strategy<Value = Numbers> {
    vec(item(first, last, likely), 1..=3).prop_map(move |items| Numbers {
        items,
        first,
        last,
        names,
    })
}

fn every(first: u32, last: u32) -> impl Strategy<Value = Numbers> {
    Just(Numbers { items: vec![Item::Every { step: None }], first, last, names: &[] })
}

fn day_of_month() -> impl Strategy<Value = DayOfMonth> {
    prop_oneof![
        4 => item(1, 31, 1..=31).prop_map(DayOfMonth::Plain),
        1 => prop_oneof![Just(0), 0..=30u32].prop_map(DayOfMonth::BeforeLast),
        1 => Just(DayOfMonth::LastWorkday),
        1 => prop_oneof![1..=31u32, 28..=31u32].prop_map(DayOfMonth::NearestWorkday),
    ]
}

fn weekday() -> impl Strategy<Value = Weekday> {
    prop_oneof![
        4 => item(0, 7, 0..=7).prop_map(Weekday::Plain),
        1 => (0..=7u32, 1..=5u32).prop_map(|(which, n)| Weekday::Nth(which, n)),
        1 => (0..=7u32).prop_map(Weekday::LastOfMonth),
        1 => (0..=7u32).prop_map(Weekday::HashLast),
    ]
}

fn field<T: Strategy>(one: T) -> impl Strategy<Value = Field<T::Value>>
where
    T::Value: Clone + Display + 'static,
{
    let items = vec(one, 1..=3).prop_map(|items| match items.as_slice() {
        [only] if only.to_string() == "*" => Field::Star,
        _ => Field::Items(items),
    });
    prop_oneof![3 => Just(Field::Star), 1 => Just(Field::QuestionMark), 3 => items]
}

/// Expressions of five, six or seven fields. The year field is mostly near `year`.
fn expression(
    seconds: impl Strategy<Value = Option<Numbers>>,
    year: u32,
) -> impl Strategy<Value = Expression> {
    let times = (
        seconds,
        numbers(0, 59, 0..=59, &[]),
        prop_oneof![every(0, 23), numbers(0, 23, 0..=3, &[])],
    );
    let months = prop_oneof![3 => every(1, 12), 1 => numbers(1, 12, 1..=12, &MONTHS)];
    let dates = (field(day_of_month()), months, field(weekday()), prop::bool::weighted(0.2));
    let years = option::weighted(0.2, numbers(1970, 9999, year - 3..=year + 3, &[]));
    (times, dates, years).prop_map(|((seconds, minutes, hours), dates, years)| {
        let (days, months, weekdays, both) = dates;
        let years = years.filter(|_| seconds.is_some());
        Expression { seconds, minutes, hours, days, months, weekdays, both, years }
    })
}

/// Expressions without seconds, or with second 0.
pub(super) fn by_minute(year: u32) -> impl Strategy<Value = Expression> {
    let zero = Numbers {
        items: vec![Item::One { value: 0, named: false, step: None }],
        first: 0,
        last: 59,
        names: &[],
    };
    expression(prop_oneof![2 => Just(None), 1 => Just(Some(zero))], year)
}

pub(super) fn by_second() -> impl Strategy<Value = Expression> {
    expression(numbers(0, 59, 0..=59, &[]).prop_map(Some), 2026)
}

pub(super) fn any_expression() -> impl Strategy<Value = Expression> {
    prop_oneof![by_minute(2026).boxed(), by_second().boxed()]
}
