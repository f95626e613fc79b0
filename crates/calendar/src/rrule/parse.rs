//! Parses RRULEs. Every mistake is reported with its position, what is allowed there and a remedy.
//!
//! RFC 5545 forbids some combinations that other programs accept and that have an obvious meaning
//! as filters: BYWEEKNO with DAILY, BYMONTHDAY with WEEKLY, and a number in BYDAY outside of months
//! and years, which is ignored. This parser accepts them, because such rules are in use.

use std::ops::Range;

use jiff::civil::{Date, DateTime};

use super::text::WEEKDAYS;
use super::{End, Frequency, NthWeekday, Rrule};
use crate::problem::{Problem, nearest};

/// The longest text: enough for every list that people write.
const TEXT_LIMIT: usize = 1024;
/// The longest interval: a million seconds are eleven days, and a million days exceed the range of
/// every search.
const INTERVAL_LIMIT: u32 = 1_000_000;
/// The largest COUNT, because building a recurrence counts its occurrences one by one.
const COUNT_LIMIT: u32 = 3_000;

const KEYS: [&str; 14] = [
    "FREQ",
    "UNTIL",
    "COUNT",
    "INTERVAL",
    "BYSECOND",
    "BYMINUTE",
    "BYHOUR",
    "BYDAY",
    "BYMONTHDAY",
    "BYYEARDAY",
    "BYWEEKNO",
    "BYMONTH",
    "BYSETPOS",
    "WKST",
];

impl Rrule {
    /// Parses a rule, with or without the prefix `RRULE:`.
    pub fn parse(text: &str) -> Result<Rrule, Problem> {
        if text.len() > TEXT_LIMIT {
            let message = format!("the rule is longer than {TEXT_LIMIT} bytes");
            return Err(Problem::whole("rrule-long", text, message).allow("a shorter list"));
        }
        Reader { text, places: [const { None }; KEYS.len()] }.read()
    }
}

/// A part of the text, with its position.
#[derive(Clone)]
struct Piece<'a> {
    text: &'a str,
    start: usize,
}

impl<'a> Piece<'a> {
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    fn split(&self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut start = self.start;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, start };
            start += text.len() + separator.len_utf8();
            piece
        })
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The position of each of [`KEYS`], including its value.
    places: [Option<Range<usize>>; KEYS.len()],
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Rrule, Problem> {
        let body = self.body()?;
        let mut rrule = Rrule {
            frequency: Frequency::Daily,
            interval: 1,
            end: End::Never,
            week_start: 1,
            months: Vec::new(),
            week_numbers: Vec::new(),
            year_days: Vec::new(),
            month_days: Vec::new(),
            weekdays: Vec::new(),
            hours: Vec::new(),
            minutes: Vec::new(),
            seconds: Vec::new(),
            positions: Vec::new(),
        };
        for part in body.split(';') {
            let (key, value) = self.key_and_value(&part)?;
            self.read_value(&mut rrule, key, &value)?;
        }
        self.check_combinations(&rrule)?;
        Ok(rrule)
    }

    /// The text without surrounding blanks and without the name of the property.
    fn body(&self) -> Result<Piece<'a>, Problem> {
        let trimmed = self.text.trim();
        let mut start = self.text.len() - self.text.trim_start().len();
        let mut text = trimmed;
        if let Some((name, rest)) = trimmed.split_once(':')
            && name.eq_ignore_ascii_case("RRULE")
        {
            start += name.len() + 1;
            text = rest;
        }
        if text.is_empty() {
            return Err(Problem::whole("rrule-empty", self.text, "the rule is empty")
                .allow("parts such as FREQ=WEEKLY;BYDAY=MO")
                .suggest("FREQ=DAILY"));
        }
        Ok(Piece { text, start })
    }

    fn key_and_value(&mut self, part: &Piece<'a>) -> Result<(&'static str, Piece<'a>), Problem> {
        let Some((written, value)) = part.text.split_once('=') else {
            let message = if part.text.is_empty() {
                "an empty part; remove the extra `;`"
            } else {
                "a part without `=`"
            };
            return Err(self.problem("rrule-part", part.span(), message).allow("NAME=value"));
        };
        let name = Piece { text: written, start: part.start };
        let Some(known) = KEYS.iter().position(|key| key.eq_ignore_ascii_case(written)) else {
            return Err(self.unknown_key(&name));
        };
        if let Some(first) = &self.places[known] {
            let message = format!("{} is given twice", KEYS[known]);
            let first = self.text.get(first.clone()).unwrap_or_default();
            return Err(self
                .problem("rrule-duplicate", part.span(), message)
                .suggest(format!("one list, or only {first}")));
        }
        self.places[known] = Some(part.span());
        Ok((KEYS[known], Piece { text: value, start: part.start + written.len() + 1 }))
    }

    fn unknown_key(&self, name: &Piece) -> Problem {
        let written = name.text.to_ascii_uppercase();
        if matches!(written.as_str(), "RSCALE" | "SKIP") {
            let message = format!("{written} (RFC 7529) is not supported");
            return self
                .problem("rrule-scale", name.span(), message)
                .allow("Gregorian rules of RFC 5545; dates that do not exist are left out")
                .suggest("BYMONTHDAY=-1 for the last day of every month");
        }
        if written == "BYEASTER" {
            let message = "BYEASTER is not part of RFC 5545";
            return self
                .problem("rrule-easter", name.span(), message)
                .suggest("the dates themselves, as rdate");
        }
        let message = format!("no such part: {}", name.text);
        let problem = self.problem("rrule-key", name.span(), message).allow(KEYS.join(", "));
        match nearest(name.text, KEYS).as_slice() {
            [] => problem,
            close => problem.suggest(close.join(" or ")),
        }
    }

    fn read_value(
        &self,
        rrule: &mut Rrule,
        key: &'static str,
        value: &Piece<'a>,
    ) -> Result<(), Problem> {
        match key {
            "FREQ" => rrule.frequency = self.frequency(value)?,
            "INTERVAL" => rrule.interval = self.interval(value)?,
            "COUNT" => rrule.end = End::Count(self.count(value)?),
            "UNTIL" => rrule.end = self.until(value)?,
            "WKST" => rrule.week_start = self.weekday(key, value)?,
            "BYDAY" => rrule.weekdays = self.list(value, |item| self.nth_weekday(item))?,
            "BYSECOND" => rrule.seconds = self.numbers(key, value, 0, 60)?,
            "BYMINUTE" => rrule.minutes = self.numbers(key, value, 0, 59)?,
            "BYHOUR" => rrule.hours = self.numbers(key, value, 0, 23)?,
            "BYMONTHDAY" => rrule.month_days = self.numbers(key, value, -31, 31)?,
            "BYYEARDAY" => rrule.year_days = self.numbers(key, value, -366, 366)?,
            "BYWEEKNO" => rrule.week_numbers = self.numbers(key, value, -53, 53)?,
            "BYMONTH" => rrule.months = self.numbers(key, value, 1, 12)?,
            _ => rrule.positions = self.numbers(key, value, -366, 366)?,
        }
        Ok(())
    }

    fn frequency(&self, value: &Piece) -> Result<Frequency, Problem> {
        let names = Frequency::ALL.map(|(name, _)| name);
        let found = names.iter().position(|name| name.eq_ignore_ascii_case(value.text));
        found.map(|place| Frequency::ALL[place].1).ok_or_else(|| {
            let message = format!("no such frequency: {}", value.text);
            let problem = self.problem("rrule-freq", value.span(), message).allow(names.join(", "));
            match nearest(value.text, names).as_slice() {
                [] => problem,
                close => problem.suggest(format!("FREQ={}", close.join(" or FREQ="))),
            }
        })
    }

    fn interval(&self, value: &Piece) -> Result<u32, Problem> {
        let number = self.number("INTERVAL", value)?;
        if (1..=i64::from(INTERVAL_LIMIT)).contains(&number) {
            return Ok(number as u32);
        }
        let message = format!("INTERVAL {} is out of range", value.text);
        let problem =
            self.problem("rrule-range", value.span(), message).allow(format!("1-{INTERVAL_LIMIT}"));
        Err(if number < 1 {
            problem.suggest("INTERVAL=1")
        } else {
            problem.suggest("a longer frequency, such as FREQ=DAILY instead of FREQ=SECONDLY")
        })
    }

    fn count(&self, value: &Piece) -> Result<u32, Problem> {
        let number = self.number("COUNT", value)?;
        if (1..=i64::from(COUNT_LIMIT)).contains(&number) {
            return Ok(number as u32);
        }
        let message = format!("COUNT {} is out of range", value.text);
        let problem =
            self.problem("rrule-range", value.span(), message).allow(format!("1-{COUNT_LIMIT}"));
        Err(if number < 1 {
            problem.suggest("COUNT=1, or no COUNT for a rule without an end")
        } else {
            problem.suggest("UNTIL with the last date, or no COUNT for a rule without an end")
        })
    }

    /// Parses `YYYYMMDD`, `YYYYMMDDTHHMMSS` or `YYYYMMDDTHHMMSSZ`.
    fn until(&self, value: &Piece) -> Result<End, Problem> {
        let upper = value.text.to_ascii_uppercase();
        let (wall, utc) = upper.strip_suffix('Z').map_or((&*upper, false), |wall| (wall, true));
        let end = match wall.split_once('T') {
            None if !utc => basic_date(wall).map(End::UntilDate),
            None => None,
            Some((date, time)) => basic_time(date, time)
                .map(|wall| if utc { End::UntilUtc(wall) } else { End::UntilWall(wall) }),
        };
        end.ok_or_else(|| {
            self.problem("rrule-until", value.span(), "UNTIL is not a date or time")
                .allow("YYYYMMDD, YYYYMMDDTHHMMSS or, in UTC, YYYYMMDDTHHMMSSZ")
                .suggest("UNTIL=20271231 for the whole of that day")
        })
    }

    fn weekday(&self, key: &str, value: &Piece) -> Result<u8, Problem> {
        let found = WEEKDAYS.iter().position(|name| name.eq_ignore_ascii_case(value.text));
        found.map(|place| place as u8).ok_or_else(|| {
            let problem = if value.text.is_empty() {
                self.problem("rrule-empty-item", value.span(), format!("{key} lacks a weekday"))
            } else {
                let message = format!("no such weekday: {}", value.text);
                self.problem("rrule-weekday", value.span(), message)
            };
            let problem = problem.allow(WEEKDAYS.join(", "));
            let start: String = value.text.chars().take(2).collect();
            match WEEKDAYS.iter().find(|name| name.eq_ignore_ascii_case(&start)) {
                Some(name) => problem.suggest(format!("{key}={name}")),
                None => problem,
            }
        })
    }

    fn nth_weekday(&self, item: &Piece) -> Result<NthWeekday, Problem> {
        let digits = item
            .text
            .find(|c: char| !(c.is_numeric() || matches!(c, '+' | '-')))
            .unwrap_or(item.text.len());
        let (nth, name) = item.text.split_at(digits);
        let nth_piece = Piece { text: nth, start: item.start };
        let nth =
            if nth.is_empty() { 0 } else { self.number_in("BYDAY", &nth_piece, -53, 53)? as i8 };
        let weekday = self.weekday("BYDAY", &Piece { text: name, start: item.start + digits })?;
        Ok(NthWeekday { nth, weekday })
    }

    fn numbers(
        &self,
        key: &str,
        value: &Piece<'a>,
        low: i16,
        high: i16,
    ) -> Result<Vec<i16>, Problem> {
        self.list(value, |item| self.number_in(key, item, low, high))
    }

    /// Parses a list, sorted and without duplicates.
    fn list<T: Ord>(
        &self,
        value: &Piece<'a>,
        item: impl Fn(&Piece<'a>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let mut items = Vec::new();
        for piece in value.split(',') {
            if piece.text.is_empty() {
                return Err(self
                    .problem("rrule-empty-item", piece.span(), "an empty item in a list")
                    .suggest("a value here, or one comma less"));
            }
            items.push(item(&piece)?);
        }
        items.sort_unstable();
        items.dedup();
        Ok(items)
    }

    fn number_in(&self, key: &str, item: &Piece, low: i16, high: i16) -> Result<i16, Problem> {
        let number = self.number(key, item)?;
        let allowed = if low < 0 {
            format!("1 to {high}, and {low} to -1 from the end")
        } else {
            format!("{low}-{high}")
        };
        if number == 0 && low != 0 {
            let message = format!("{key} counts from 1; there is no 0");
            return Err(self.problem("rrule-zero", item.span(), message).allow(allowed));
        }
        if !(i64::from(low)..=i64::from(high)).contains(&number) {
            let message = format!("{key} {} is out of range", item.text);
            return Err(self.problem("rrule-range", item.span(), message).allow(allowed));
        }
        Ok(number as i16)
    }

    /// Parses a number without checking the range of its part. A number that is too large for every
    /// part is capped.
    fn number(&self, key: &str, item: &Piece) -> Result<i64, Problem> {
        let digits = item.text.strip_prefix(['+', '-']).unwrap_or(item.text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = if digits.chars().any(|c| c.is_numeric() && !c.is_ascii()) {
                format!("{key} has digits other than 0-9")
            } else {
                format!("{key} is not a number")
            };
            return Err(self
                .problem("rrule-number", item.span(), message)
                .allow("a whole number in the digits 0-9"));
        }
        let magnitude = digits.parse().unwrap_or(i64::MAX);
        Ok(if item.text.starts_with('-') { -magnitude } else { magnitude })
    }

    fn check_combinations(&self, rrule: &Rrule) -> Result<(), Problem> {
        let Some(frequency) = self.place("FREQ") else {
            return Err(Problem::whole("rrule-missing-freq", self.text, "FREQ is missing")
                .allow(Frequency::ALL.map(|(name, _)| name).join(", "))
                .suggest(format!("FREQ=DAILY;{}", self.text.trim())));
        };
        if let (Some(count), Some(until)) = (self.place("COUNT"), self.place("UNTIL")) {
            let later = if count.start > until.start { count } else { until };
            return Err(self
                .problem("rrule-count-until", later, "COUNT and UNTIL exclude each other")
                .suggest("one of the two"));
        }
        let numbered = rrule.weekdays.iter().any(|day| day.nth != 0);
        if let (true, Frequency::Yearly, Some(_), Some(days)) =
            (numbered, rrule.frequency, self.place("BYWEEKNO"), self.place("BYDAY"))
        {
            let message = "a number in BYDAY together with BYWEEKNO: a week has each weekday once";
            return Err(self
                .problem("rrule-prefix", days, message)
                .suggest("BYDAY without numbers, or no BYWEEKNO"));
        }
        if let Some(positions) = self.place("BYSETPOS")
            && !KEYS
                .iter()
                .any(|&key| key.starts_with("BY") && key != "BYSETPOS" && self.place(key).is_some())
        {
            let message = "BYSETPOS picks from a set, but no other BY part makes one";
            return Err(self
                .problem("rrule-setpos", positions, message)
                .allow("BYSETPOS with another BY part")
                .suggest(format!(
                    "{};BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1",
                    self.text.get(frequency).unwrap_or("FREQ=MONTHLY")
                )));
        }
        Ok(())
    }

    fn place(&self, key: &str) -> Option<Range<usize>> {
        KEYS.iter().position(|&known| known == key).and_then(|i| self.places[i].clone())
    }

    fn problem(
        &self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Problem {
        Problem::new(code, self.text, span, message)
    }
}

fn digits(text: &str, length: usize) -> Option<&str> {
    (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn basic_date(text: &str) -> Option<Date> {
    let text = digits(text, 8)?;
    Date::new(text[..4].parse().ok()?, text[4..6].parse().ok()?, text[6..].parse().ok()?).ok()
}

fn basic_time(date: &str, time: &str) -> Option<DateTime> {
    let text = digits(time, 6)?;
    let second: i8 = text[4..].parse().ok()?;
    let (hour, minute) = (text[..2].parse().ok()?, text[2..4].parse().ok()?);
    // A leap second, which clocks without leap seconds show as second 59.
    let second = if second == 60 { 59 } else { second };
    jiff::civil::Time::new(hour, minute, second, 0)
        .ok()
        .and_then(|t| Some(basic_date(date)?.to_datetime(t)))
}

#[cfg(test)]
mod tests;
