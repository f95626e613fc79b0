//! Parses text into a [`Cron`] in one pass over the bytes, without allocation unless there is a
//! mistake.

use std::ops::Range;

use super::days::{Days, LAST};
use super::field::{Field, MONTHS, WEEKDAYS};
use super::years::Years;
use super::{Cron, PRESETS};
use crate::problem::{Problem, nearest};

/// The longest expression. The longest useful one has about 200 characters.
const LENGTH_LIMIT: usize = 256;
const MAX_FIELDS: usize = 7;

pub(super) fn parse(text: &str) -> Result<Cron, Problem> {
    if text.len() > LENGTH_LIMIT {
        let message = format!("the expression has {} characters", text.len());
        return Err(Problem::new("cron-length", text, 0..1, message)
            .allow(format!("at most {LENGTH_LIMIT} characters"))
            .suggest("ranges and steps such as 0-30/5, or several rules in a list"));
    }
    let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
    if trimmed.is_empty() {
        return Err(Problem::whole("cron-empty", text, "the expression is empty")
            .suggest("0 9 * * MON-FRI"));
    }
    if let Some(expression) = preset(trimmed) {
        return Parser { text: expression }.expression().map(|cron| cron.written(text));
    }
    Parser { text }.expression()
}

/// The expression of a preset: `daily`, `@daily`, …
pub(super) fn preset(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix('@').unwrap_or(name);
    let found = PRESETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, expression)| *expression)
}

/// Whether the text looks like a preset's name: a single word.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A range with a step, or a single value.
#[derive(Clone, Copy)]
struct Span {
    from: u32,
    to: u32,
    step: u32,
}

struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn expression(&self) -> Result<Cron, Problem> {
        let (fields, count) = self.fields();
        if self.text[fields[0].clone()].contains('=') {
            return Err(self.zone_prefix(fields[0].clone()));
        }
        let [second, minute, hour, day, month, weekday, year] = match count {
            5 => {
                let [a, b, c, d, e, ..] = fields;
                [0..0, a, b, c, d, e, 0..0]
            }
            6 => {
                let [a, b, c, d, e, f, _] = fields;
                [a, b, c, d, e, f, 0..0]
            }
            7 => fields,
            _ => return Err(self.wrong_count(fields, count)),
        };
        let wildcard = self.starts_with_star(&minute) || self.starts_with_star(&hour);
        let seconds = if second.is_empty() { 1 } else { self.bits(Field::Second, second)? };
        let minutes = self.bits(Field::Minute, minute)?;
        let hours = self.bits(Field::Hour, hour)? as u32;
        let mut days = Days::default();
        self.days_of_month(day, &mut days)?;
        let months = self.bits(Field::Month, month)? as u16;
        self.days_of_week(weekday, &mut days)?;
        let years = if year.is_empty() { Years::Every } else { self.years(year)? };
        let days = days.complete();
        let reachable = days.reachable(months);
        let text = self.text.into();
        Ok(Cron { text, seconds, minutes, hours, days, months, reachable, years, wildcard })
    }

    /// Splits the text at blanks. `count` includes fields beyond those returned.
    fn fields(&self) -> ([Range<usize>; MAX_FIELDS], usize) {
        let bytes = self.text.as_bytes();
        let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
        let mut fields: [Range<usize>; MAX_FIELDS] = std::array::from_fn(|_| 0..0);
        let (mut count, mut at) = (0, 0);
        while at < bytes.len() {
            if blank(bytes[at]) {
                at += 1;
                continue;
            }
            let start = at;
            while at < bytes.len() && !blank(bytes[at]) {
                at += 1;
            }
            if let Some(field) = fields.get_mut(count) {
                *field = start..at;
            }
            count += 1;
        }
        (fields, count)
    }

    fn wrong_count(&self, fields: [Range<usize>; MAX_FIELDS], count: usize) -> Problem {
        let first = &self.text[fields[0].clone()];
        let word = first.trim_start_matches('@');
        if first.starts_with('@') || (count == 1 && is_word(word)) {
            let close = nearest(word, PRESETS.iter().map(|(name, _)| *name));
            let remedy = match (word, close.first()) {
                ("every", _) => "interval: 5m (a rule of its own)".to_owned(),
                (_, Some(name)) => format!("@{name}"),
                _ => "@daily".to_owned(),
            };
            let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
            return Problem::new("cron-preset", self.text, fields[0].clone(), "no such preset")
                .allow(names.join(", "))
                .suggest(remedy);
        }
        let place = if count > MAX_FIELDS {
            fields[MAX_FIELDS - 1].end..self.text.trim_end().len()
        } else {
            0..self.text.trim_end().len()
        };
        let noun = if count == 1 { "field" } else { "fields" };
        Problem::new("cron-fields", self.text, place, format!("the expression has {count} {noun}"))
            .allow(
                "5 fields (minute hour day-of-month month day-of-week), \
                 6 with leading seconds, 7 with a trailing year",
            )
            .suggest("0 9 * * MON-FRI")
    }

    fn zone_prefix(&self, place: Range<usize>) -> Problem {
        let rest = self.text[place.end..].trim();
        let rest = if rest.is_empty() { "0 9 * * *" } else { rest };
        let zone = self.text[place.clone()].split_once('=').map_or("", |(_, zone)| zone);
        let zone = if zone.is_empty() { "Europe/Berlin" } else { zone };
        Problem::new("cron-zone", self.text, place, "the zone is not part of the expression")
            .suggest(format!("{rest}  with the option timezone: {zone}"))
    }

    fn starts_with_star(&self, field: &Range<usize>) -> bool {
        self.text.as_bytes().get(field.start) == Some(&b'*')
    }

    /// Parses a field of plain numbers into a set of bits.
    fn bits(&self, field: Field, place: Range<usize>) -> Result<u64, Problem> {
        let mut bits = 0;
        for item in self.items(place) {
            bits |= bits_of(self.span(field, item?)?);
        }
        Ok(bits)
    }

    fn years(&self, place: Range<usize>) -> Result<Years, Problem> {
        let mut spans = Vec::new();
        if &self.text[place.clone()] == "*" {
            return Ok(Years::Every);
        }
        for item in self.items(place) {
            let Span { from, to, step } = self.span(Field::Year, item?)?;
            spans.push((from as i32, to as i32, step as i32));
        }
        Ok(Years::Only(spans.into()))
    }

    fn days_of_month(&self, place: Range<usize>, days: &mut Days) -> Result<(), Problem> {
        if matches!(&self.text[place.clone()], "*" | "?") {
            days.any_day_of_month();
            return Ok(());
        }
        for item in self.items(place) {
            let item = item?;
            let word = &self.text.as_bytes()[item.clone()];
            match word {
                [b'L' | b'l'] => days.before_last(0),
                [b'L' | b'l', b'W' | b'w'] => days.last_workday(),
                [b'L' | b'l', b'-', ..] => {
                    let back = item.start + 2..item.end;
                    match self.digits(&back).filter(|n| (1..=30).contains(n)) {
                        Some(back) => days.before_last(back),
                        None => {
                            let message = "L- takes the number of days before the last day";
                            return Err(Problem::new("cron-last", self.text, item, message)
                                .allow("L-1 to L-30")
                                .suggest("L-3"));
                        }
                    }
                }
                [.., b'W' | b'w'] => days.nearest_workday(self.near(item)?),
                _ => days.days_of_month(bits_of(self.span(Field::DayOfMonth, item)?) as u32),
            }
        }
        Ok(())
    }

    /// Parses the 15 of `15W`.
    fn near(&self, item: Range<usize>) -> Result<u32, Problem> {
        let number = item.start..item.end - 1;
        self.digits(&number).filter(|day| (1..=31).contains(day)).ok_or_else(|| {
            let message = "W takes one day of the month before it";
            Problem::new("cron-workday", self.text, item, message)
                .allow("1W to 31W, or LW")
                .suggest("15W (the working weekday nearest to the 15th)")
        })
    }

    fn days_of_week(&self, mut place: Range<usize>, days: &mut Days) -> Result<(), Problem> {
        if matches!(&self.text[place.clone()], "*" | "?") {
            days.any_day_of_week();
            return Ok(());
        }
        if self.text.as_bytes()[place.start] == b'+' {
            days.require_both();
            place.start += 1;
        }
        for item in self.items(place) {
            let item = item?;
            let word = &self.text.as_bytes()[item.clone()];
            if let Some(hash) = word.iter().position(|&b| b == b'#') {
                let weekday = self.weekday(item.start..item.start + hash)?;
                days.nth_weekday(weekday, self.nth(item.start + hash + 1..item.end, &item)?);
            } else if matches!(word, [_, .., b'L' | b'l']) {
                days.nth_weekday(self.weekday(item.start..item.end - 1)?, LAST);
            } else {
                // Bit 7 is Sunday too.
                let bits = bits_of(self.span(Field::DayOfWeek, item)?);
                days.weekdays(((bits | bits >> 7) & 0x7f) as u8);
            }
        }
        Ok(())
    }

    fn weekday(&self, place: Range<usize>) -> Result<u32, Problem> {
        Ok(self.value(Field::DayOfWeek, place)? % 7)
    }

    /// Parses the 3 of `5#3`, or the L of `FRI#L`.
    fn nth(&self, place: Range<usize>, item: &Range<usize>) -> Result<u32, Problem> {
        if matches!(&self.text[place.clone()], "L" | "l") {
            return Ok(LAST);
        }
        self.digits(&place).filter(|n| (1..=5).contains(n)).ok_or_else(|| {
            let message = "# takes which one of the month";
            Problem::new("cron-nth", self.text, item.clone(), message)
                .allow("#1 to #5, or #L for the last")
                .suggest(format!("{}#1", &self.text[item.start..place.start - 1]))
        })
    }

    /// The parts between commas. An empty part is an error.
    fn items(
        &self,
        place: Range<usize>,
    ) -> impl Iterator<Item = Result<Range<usize>, Problem>> + '_ {
        let mut at = Some(place.start);
        std::iter::from_fn(move || {
            let start = at?;
            let rest = &self.text.as_bytes()[start..place.end];
            let end = rest.iter().position(|&b| b == b',').map_or(place.end, |i| start + i);
            at = (end < place.end).then_some(end + 1);
            Some(if start == end { Err(self.empty_item(start, &place)) } else { Ok(start..end) })
        })
    }

    fn empty_item(&self, at: usize, field: &Range<usize>) -> Problem {
        let parts = self.text[field.clone()].split(',').filter(|part| !part.is_empty());
        let joined = parts.collect::<Vec<_>>().join(",");
        let place = at.min(self.text.len() - 1)..at + 1;
        Problem::new("cron-empty-item", self.text, place, "a list item is empty").suggest(
            self.replaced(field.clone(), if joined.is_empty() { "*" } else { joined.as_str() }),
        )
    }

    /// Parses `*`, `5` or `1-5`, each with an optional `/step`.
    fn span(&self, field: Field, item: Range<usize>) -> Result<Span, Problem> {
        let bytes = &self.text.as_bytes()[item.clone()];
        let slash = bytes.iter().position(|&b| b == b'/').map(|i| item.start + i);
        let base = item.start..slash.unwrap_or(item.end);
        let step = match slash {
            Some(slash) => self.step(field, slash + 1..item.end, &item)?,
            None => 1,
        };
        let base_bytes = &self.text.as_bytes()[base.clone()];
        if base_bytes == b"*" {
            return Ok(Span { from: field.min(), to: field.last(), step });
        }
        // A leading `-` makes a negative number, not an open range.
        let dash = base_bytes.iter().skip(1).position(|&b| b == b'-').map(|i| base.start + 1 + i);
        let Some(dash) = dash else {
            let from = self.value(field, base)?;
            let to = if slash.is_some() { field.last().max(from) } else { from };
            return Ok(Span { from, to, step });
        };
        let (low, high) = (base.start..dash, dash + 1..base.end);
        let from = self.value(field, low.clone())?;
        let mut to = self.value(field, high.clone())?;
        if field == Field::DayOfWeek && to == 0 && from > 0 {
            // FRI-SUN: a Sunday at the end of a range is 7. With the digit 0, the range is reversed
            // and refused.
            to = if self.text.as_bytes()[high.start].is_ascii_digit() { 0 } else { 7 };
        }
        if from > to {
            return Err(self.reversed(field, item, low, high));
        }
        Ok(Span { from, to, step })
    }

    fn reversed(
        &self,
        field: Field,
        item: Range<usize>,
        low: Range<usize>,
        high: Range<usize>,
    ) -> Problem {
        let (low, high) = (&self.text[low], &self.text[high]);
        let (first, last) = match field {
            Field::DayOfWeek => ("0".to_owned(), "6".to_owned()),
            _ => (field.min().to_string(), field.max().to_string()),
        };
        let step =
            self.text[item.clone()].split_once('/').map_or(String::new(), |(_, s)| format!("/{s}"));
        let two = format!("{low}-{last}{step},{first}-{high}{step}");
        let message = format!("the {} range runs backwards", field.name());
        Problem::new("cron-reversed", self.text, item.clone(), message)
            .allow("a range from the lower to the higher value")
            .suggest(format!("{} (two ranges)", self.replaced(item, &two)))
    }

    fn step(&self, field: Field, place: Range<usize>, item: &Range<usize>) -> Result<u32, Problem> {
        match self.digits(&place) {
            Some(step) if (1..=field.max()).contains(&step) => return Ok(step),
            _ => {}
        }
        let written = &self.text[place.clone()];
        let message = if written.is_empty() {
            "the step after / is missing".to_owned()
        } else {
            format!("{written} is not a step of the {} field", field.name())
        };
        let base = self.text[item.clone()].split('/').next().unwrap_or("*");
        let base = if base.is_empty() { "*" } else { base };
        Err(Problem::new("cron-step", self.text, item.clone(), message)
            .allow(format!("1-{} (longer periods: a rule such as interval: 90m)", field.max()))
            .suggest(self.replaced(item.clone(), &format!("{base}/5"))))
    }

    /// Parses a number in range, or a name.
    fn value(&self, field: Field, place: Range<usize>) -> Result<u32, Problem> {
        let word = &self.text.as_bytes()[place.clone()];
        if let Some(value) = self.digits(&place) {
            return if (field.min()..=field.max()).contains(&value) {
                Ok(value)
            } else {
                Err(self.out_of_range(field, place, value))
            };
        }
        field.named(word).ok_or_else(|| self.not_a_value(field, place))
    }

    fn out_of_range(&self, field: Field, place: Range<usize>, value: u32) -> Problem {
        let wraps = value == field.max() + 1 && field.max() >= 23 && field.min() == 0;
        let near = if wraps { 0 } else { value.clamp(field.min(), field.max()) };
        let written = &self.text[place.clone()];
        let message = format!("{} {written} is out of range", field.name());
        let remedy = self.replaced(place.clone(), &near.to_string());
        Problem::new("cron-range", self.text, place, message)
            .allow(format!("{}-{}", field.min(), field.max()))
            .suggest(remedy)
    }

    fn not_a_value(&self, field: Field, place: Range<usize>) -> Problem {
        let written = &self.text[place.clone()];
        let message = match written {
            "" => format!("a number is missing in the {} field", field.name()),
            "?" if !field.is_day() => {
                format!("? stands only for a day, not for the {}", field.name())
            }
            _ => format!("{written} is not a {}", field.name()),
        };
        let problem =
            Problem::new("cron-value", self.text, place.clone(), message).allow(field.allowed());
        let names: &[&str] = match field {
            Field::Month => &MONTHS,
            Field::DayOfWeek => &WEEKDAYS,
            _ => &[],
        };
        let long = written.get(..3).filter(|_| written.len() > 3);
        let close = names.iter().find(|name| long.is_some_and(|l| name.eq_ignore_ascii_case(l)));
        match (
            written,
            close.copied().or_else(|| nearest(written, names.iter().copied()).first().copied()),
        ) {
            (_, Some(name)) => problem.suggest(self.replaced(place, name)),
            ("H" | "R" | "~", _) => problem.suggest("0, with the option spread: 1h"),
            ("?", _) => problem.suggest(self.replaced(place, "*")),
            _ => problem,
        }
    }

    /// Parses ASCII digits. Numbers with more than nine digits are refused.
    fn digits(&self, place: &Range<usize>) -> Option<u32> {
        let bytes = &self.text.as_bytes()[place.clone()];
        if bytes.is_empty() || bytes.len() > 9 {
            return None;
        }
        bytes.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
    }

    /// The whole expression with one part replaced: a suggestion to paste.
    fn replaced(&self, place: Range<usize>, with: &str) -> String {
        format!("{}{with}{}", &self.text[..place.start], &self.text[place.end..]).trim().to_owned()
    }
}

fn bits_of(Span { from, to, step }: Span) -> u64 {
    let all = (u64::MAX >> (63 - (to - from))) << from;
    if step == 1 {
        return all;
    }
    let mut bits = 0;
    let mut value = from;
    while value <= to {
        bits |= 1 << value;
        value += step;
    }
    bits
}
