//! A rule of a holiday: the days of a year on which it falls.
//!
//! | written | means |
//! |---|---|
//! | `12-25` | that day of the year |
//! | `easter-2`, `orthodox+1` | days before or after western or orthodox Easter Sunday |
//! | `vernal`, `autumnal` | the equinoxes of Japan |
//! | `Mon>=01-15`, `Mon<=05-31` | the first Monday on or after, the last on or before that day |
//! | `04-27 Sun-1` | that day; if it is a Sunday, one day before |
//! | `07-04 only Sat-1 Sun+1` | moved as said if it is a Saturday or Sunday; else no holiday |
//! | `2022-06-03 2025-01-28..30` | listed days; a stretch stays within one month |
//!
//! All but listed days may be followed by the years they hold in, in this order: `every 4`
//! (counted from the year after `from`), `from 2021`, `to 2030`, `except 2024 2025`. The years are
//! those of the day named in the rule: New Year's Day of 2022 may be observed in 2021.

use std::num::NonZeroU16;
use std::str::{FromStr, SplitAsciiWhitespace};

use jiff::ToSpan;
use jiff::civil::Date;

use super::astronomy;

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The days of a year on which a holiday falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Days that follow no known rule.
    Listed(Vec<Date>),
    /// One day in each of the years.
    Yearly { anchor: Anchor, shift: Shift, years: Years },
}

/// The day of a year that a rule counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    MonthDay { month: i8, day: i8 },
    WesternEaster,
    OrthodoxEaster,
    VernalEquinox,
    AutumnalEquinox,
}

/// The number of days between a holiday and its anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Days(i16),
    /// By the weekday of the anchor, from Monday; `None` if there is no holiday then.
    ByWeekday([Option<i16>; 7]),
}

/// The years in which a rule holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Years {
    every: Option<NonZeroU16>,
    from: Option<i16>,
    to: Option<i16>,
    except: Vec<i16>,
}

impl Rule {
    /// The days of the year on which the holiday falls.
    pub(super) fn days_in(&self, year: i16) -> impl Iterator<Item = Date> {
        let listed = match self {
            Rule::Listed(days) => days.as_slice(),
            Rule::Yearly { .. } => &[],
        };
        let anchored_in = match self {
            Rule::Listed(_) => None,
            Rule::Yearly { anchor, .. } => Some(anchor.years_reaching(year)),
        };
        let yearly = anchored_in.into_iter().flatten().filter_map(|year| self.anchored_in(year));
        listed.iter().copied().chain(yearly).filter(move |day| day.year() == year)
    }

    fn anchored_in(&self, year: i16) -> Option<Date> {
        match self {
            Rule::Yearly { anchor, shift, years } if years.contain(year) => {
                shift.applied_to(anchor.day_in(year)?)
            }
            _ => None,
        }
    }
}

impl Anchor {
    fn day_in(self, year: i16) -> Option<Date> {
        match self {
            Anchor::MonthDay { month, day } => Date::new(year, month, day).ok(),
            Anchor::WesternEaster => astronomy::western_easter(year),
            Anchor::OrthodoxEaster => astronomy::orthodox_easter(year),
            Anchor::VernalEquinox => astronomy::vernal_equinox(year),
            Anchor::AutumnalEquinox => astronomy::autumnal_equinox(year),
        }
    }

    /// The years whose anchor may give a holiday in this year. Near New Year, this includes the
    /// neighbouring year.
    fn years_reaching(self, year: i16) -> std::ops::RangeInclusive<i16> {
        match self {
            Anchor::MonthDay { month: 1, .. } => year..=year.saturating_add(1),
            Anchor::MonthDay { month: 12, .. } => year.saturating_sub(1)..=year,
            _ => year..=year,
        }
    }
}

impl Shift {
    fn applied_to(self, anchor: Date) -> Option<Date> {
        let days = match self {
            Shift::Days(days) => days,
            Shift::ByWeekday(days) => days[weekday_index(anchor)]?,
        };
        if days == 0 { Some(anchor) } else { anchor.checked_add(days.days()).ok() }
    }

    /// To this weekday, at most six days forward.
    fn onwards_to(weekday: usize) -> Shift {
        Shift::ByWeekday(std::array::from_fn(|from| Some(days_between(from, weekday))))
    }

    /// To this weekday, at most six days back.
    fn back_to(weekday: usize) -> Shift {
        Shift::ByWeekday(std::array::from_fn(|from| Some(-days_between(weekday, from))))
    }
}

fn days_between(from: usize, to: usize) -> i16 {
    ((to + 7 - from) % 7) as i16
}

fn weekday_index(day: Date) -> usize {
    day.weekday().to_monday_zero_offset() as usize
}

impl Years {
    fn contain(&self, year: i16) -> bool {
        let from = self.from.unwrap_or(i16::MIN);
        let in_step = self.every.is_none_or(|every| {
            (i32::from(year) - i32::from(from)).rem_euclid(i32::from(every.get())) == 0
        });
        year >= from
            && self.to.is_none_or(|to| year <= to)
            && in_step
            && !self.except.contains(&year)
    }
}

/// The text is not a rule. The rule texts are part of the program, so this error appears in tests
/// only.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotARule;

impl FromStr for Rule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Rule, NotARule> {
        let mut words = Words(text.split_ascii_whitespace());
        let first = words.next().ok_or(NotARule)?;
        if let Some(days) = listed_days(first) {
            let rest = words.0.map(|word| listed_days(word).ok_or(NotARule));
            let rest = rest.collect::<Result<Vec<_>, _>>()?;
            return Ok(Rule::Listed(std::iter::once(days).chain(rest).flatten().collect()));
        }
        let (anchor, shift) = anchor_and_shift(first).ok_or(NotARule)?;
        let shift = words.weekday_moves().unwrap_or(shift);
        let years = words.years();
        if words.next().is_some() {
            return Err(NotARule);
        }
        Ok(Rule::Yearly { anchor, shift, years })
    }
}

/// Parses `2025-01-28` or `2025-01-28..30`.
fn listed_days(word: &str) -> Option<Vec<Date>> {
    let (first, last) = word.split_once("..").unwrap_or((word, ""));
    let first: Date = first.parse().ok()?;
    let last = if last.is_empty() { first.day() } else { last.parse().ok()? };
    (first.day()..=last).map(|day| Date::new(first.year(), first.month(), day).ok()).collect()
}

fn anchor_and_shift(word: &str) -> Option<(Anchor, Shift)> {
    if let Some((weekday, day)) = word.split_once(">=") {
        return Some((month_day(day)?, Shift::onwards_to(weekday_named(weekday)?)));
    }
    if let Some((weekday, day)) = word.split_once("<=") {
        return Some((month_day(day)?, Shift::back_to(weekday_named(weekday)?)));
    }
    let (name, days) = name_and_days(word)?;
    let anchor = match name {
        "easter" => Anchor::WesternEaster,
        "orthodox" => Anchor::OrthodoxEaster,
        "vernal" => Anchor::VernalEquinox,
        "autumnal" => Anchor::AutumnalEquinox,
        _ => return Some((month_day(word)?, Shift::Days(0))),
    };
    Some((anchor, Shift::Days(days)))
}

fn month_day(text: &str) -> Option<Anchor> {
    let (month, day) = text.split_once('-')?;
    let (month, day) = (month.parse().ok()?, day.parse().ok()?);
    const LEAP_YEAR: i16 = 2000;
    Date::new(LEAP_YEAR, month, day).ok().map(|_| Anchor::MonthDay { month, day })
}

/// Parses `easter-2` or `Sun+1` into a name and a number of days, which may be absent.
fn name_and_days(word: &str) -> Option<(&str, i16)> {
    match word.find(['+', '-']) {
        Some(sign) => Some((&word[..sign], word[sign..].parse().ok()?)),
        None => Some((word, 0)),
    }
}

fn weekday_move(word: &str) -> Option<(usize, i16)> {
    let (name, days) = name_and_days(word)?;
    Some((weekday_named(name)?, days))
}

fn weekday_named(name: &str) -> Option<usize> {
    WEEKDAYS.iter().position(|weekday| *weekday == name)
}

/// The words of a rule that are not parsed yet.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// Takes the next word if `read` accepts it.
    fn next_if<T>(&mut self, read: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let mut ahead = self.0.clone();
        let value = read(ahead.next()?)?;
        self.0 = ahead;
        Some(value)
    }

    fn weekday_moves(&mut self) -> Option<Shift> {
        let mut ahead = Words(self.0.clone());
        let only = ahead.next_if(|word| (word == "only").then_some(())).is_some();
        let mut moves = [if only { None } else { Some(0) }; 7];
        let mut found = false;
        while let Some((weekday, days)) = ahead.next_if(weekday_move) {
            moves[weekday] = Some(days);
            found = true;
        }
        found.then(|| {
            *self = ahead;
            Shift::ByWeekday(moves)
        })
    }

    fn years(&mut self) -> Years {
        Years {
            every: self.number_after("every"),
            from: self.number_after("from"),
            to: self.number_after("to"),
            except: self.number_after("except").map_or_else(Vec::new, |first| {
                let rest = std::iter::from_fn(|| self.next_if(|word| word.parse().ok()));
                std::iter::once(first).chain(rest).collect()
            }),
        }
    }

    fn number_after<N: FromStr>(&mut self, keyword: &str) -> Option<N> {
        let mut ahead = Words(self.0.clone());
        ahead.next_if(|word| (word == keyword).then_some(()))?;
        let number = ahead.next_if(|word| word.parse().ok())?;
        *self = ahead;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, year: i16, expected: &[&str]) {
        let rule: Rule = rule.parse().unwrap();
        let days: Vec<String> = rule.days_in(year).map(|day| day.to_string()).collect();
        assert_eq!(days, expected);
    }

    #[test]
    fn fixed_days() {
        check("12-25", 2024, &["2024-12-25"]);
        check("02-29", 2024, &["2024-02-29"]);
        check("02-29", 2025, &[]);
    }

    #[test]
    fn days_around_easter_and_the_equinoxes() {
        check("easter-2", 2024, &["2024-03-29"]);
        check("easter", 2024, &["2024-03-31"]);
        check("easter+60", 2024, &["2024-05-30"]);
        check("orthodox+1", 2024, &["2024-05-06"]);
        check("vernal", 2024, &["2024-03-20"]);
        check("autumnal only Sun+1", 2024, &["2024-09-23"]);
        check("autumnal only Sun+1", 2025, &[]);
    }

    #[test]
    fn weekdays_on_or_after_and_on_or_before() {
        check("Mon>=01-15", 2024, &["2024-01-15"]);
        check("Mon>=01-15", 2025, &["2025-01-20"]);
        check("Mon<=05-31", 2021, &["2021-05-31"]);
        check("Mon<=05-31", 2024, &["2024-05-27"]);
        check("Wed<=11-22", 2023, &["2023-11-22"]);
        check("Sat>=06-20", 2026, &["2026-06-20"]);
    }

    #[test]
    fn days_moved_by_their_weekday() {
        check("04-27 Sun-1", 2025, &["2025-04-26"]);
        check("04-27 Sun-1", 2026, &["2026-04-27"]);
        check("07-04 only Sat-1 Sun+1", 2026, &["2026-07-03"]);
        check("07-04 only Sat-1 Sun+1", 2027, &["2027-07-05"]);
        check("07-04 only Sat-1 Sun+1", 2028, &[]);
    }

    #[test]
    fn days_moved_over_new_year_belong_to_the_year_they_fall_in() {
        check("01-01 only Sat-1", 2021, &["2021-12-31"]);
        check("01-01 only Sat-1", 2022, &[]);
        check("12-31 Sat+2", 2023, &["2023-01-02", "2023-12-31"]);
        check("01-01 only Sat-1 from 2022", 2021, &["2021-12-31"]);
        check("01-01 only Sat-1 to 2021", 2021, &[]);
    }

    #[test]
    fn years_a_rule_holds_in() {
        for (year, holds) in [(2020, false), (2021, true), (2024, false), (2025, true)] {
            let expected = format!("{year}-06-19");
            let expected: &[&str] = if holds { &[&expected] } else { &[] };
            check("06-19 from 2021 except 2024 2026", year, expected);
        }
        check("06-19 to 2020", 2020, &["2020-06-19"]);
        check("06-19 to 2020", 2021, &[]);
        check("01-20 every 4 from 2013", 2025, &["2025-01-20"]);
        check("01-20 every 4 from 2013", 2026, &[]);
        check("01-20 every 4 from 2013", 2009, &[]);
    }

    #[test]
    fn listed_days_of_the_year() {
        let rule = "2022-06-03 2025-01-28..30";
        check(rule, 2022, &["2022-06-03"]);
        check(rule, 2025, &["2025-01-28", "2025-01-29", "2025-01-30"]);
        check(rule, 2026, &[]);
    }

    #[test]
    fn days_outside_the_known_years_of_dates_are_dropped() {
        check("12-31 Fri+3", 9999, &[]);
        check("01-01 Mon-3", -9999, &[]);
        check("12-25", i16::MAX, &[]);
        check("01-01", i16::MIN, &[]);
        check("easter", 9999, &["9999-03-28"]);
    }

    #[test]
    fn other_texts_are_no_rules() {
        for text in [
            "",
            "13-01",
            "02-30",
            "1-",
            "easter*2",
            "Mon>01-15",
            "Foo>=01-15",
            "12-25 Foo+1",
            "12-25 only",
            "12-25 every 0",
            "12-25 from",
            "12-25 to x",
            "2025-01-30..32",
            "2025-02-30",
            "2025-01-01 easter",
            "12-25 to 2020 from 2010",
        ] {
            assert_eq!(text.parse::<Rule>(), Err(NotARule), "{text:?}");
        }
    }
}
