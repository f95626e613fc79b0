//! Reads the whole-day events of iCalendar files.
//!
//! This is our own parser, because the grammar of content lines is small and a mistake must be
//! reported with its line, which existing parsers do not offer.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use crate::civil::{self, Day};
use crate::problem::Problem;
use crate::rrule::{Recurrence, Rrule};
use crate::zone::Zone;

/// The longest file that is read.
const LENGTH_LIMIT: usize = 4 << 20;
/// The most dates of a file, including repeated ones.
const DATE_LIMIT: usize = 10_000;
/// Repeated holidays are expanded up to this year.
const LAST_YEAR: i16 = 2099;

/// A holiday of an ICS file: a range of whole days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayEvent {
    pub(crate) first: Day,
    pub(crate) last: Day,
    pub(crate) name: String,
}

/// A range of whole days in a calendar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcsDays {
    pub first: Date,
    pub last: Date,
    pub name: String,
}

/// Reads the events of a calendar file as whole days. Repeated events are expanded until 2099.
pub fn read_ics(text: &str) -> Result<Vec<IcsDays>, Problem> {
    let days = read(text)?.into_iter().filter_map(|event| {
        let (first, last) = (civil::date_from_day(event.first)?, civil::date_from_day(event.last)?);
        Some(IcsDays { first, last, name: event.name })
    });
    Ok(days.collect())
}

/// One unfolded line: `NAME;PARAM=VALUE:VALUE`.
struct ContentLine {
    number: usize,
    name: String,
    value: String,
}

/// Reads the events of a calendar file as whole days. An event with a time counts for its date.
pub(crate) fn read(text: &str) -> Result<Vec<DayEvent>, Problem> {
    if text.len() > LENGTH_LIMIT {
        let message = format!("the file has {} bytes", text.len());
        return Err(Problem::new("ics-length", text, 0..1, message)
            .allow(format!("at most {LENGTH_LIMIT} bytes")));
    }
    let first = text.trim_start_matches('\u{feff}').lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.trim().eq_ignore_ascii_case("BEGIN:VCALENDAR")) {
        let message = "not an iCalendar file";
        return Err(Problem::whole("ics-format", first.unwrap_or(""), message)
            .allow("a file that begins with BEGIN:VCALENDAR"));
    }
    let lines = unfold(text)?;
    let mut events = Vec::new();
    let mut open: Option<Pending> = None;
    // Components inside an event, such as alarms, have properties of the same names.
    let mut inner = 0;
    for line in &lines {
        match (line.name.as_str(), line.value.to_ascii_uppercase().as_str()) {
            ("BEGIN", "VEVENT") => open = Some(Pending::new(line.number)),
            ("END", "VEVENT") => {
                if let Some(pending) = open.take() {
                    pending.finish(&mut events)?;
                }
            }
            ("BEGIN", _) => inner += usize::from(open.is_some()),
            ("END", _) if inner > 0 => inner -= 1,
            _ if inner == 0 => {
                if let Some(pending) = &mut open {
                    pending.property(line)?;
                }
            }
            _ => {}
        }
        if events.len() > DATE_LIMIT {
            return Err(Problem::whole("ics-size", "", format!("more than {DATE_LIMIT} dates")));
        }
    }
    match open {
        Some(pending) => {
            Err(at_line(pending.line, "BEGIN:VEVENT", "the event does not end")
                .suggest("END:VEVENT"))
        }
        None => Ok(events),
    }
}

fn at_line(number: usize, text: &str, message: &str) -> Problem {
    Problem::whole("ics-event", text, format!("line {number}: {message}"))
}

/// Joins folded lines: a line that begins with a blank continues the previous one.
fn unfold(text: &str) -> Result<Vec<ContentLine>, Problem> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), joined.last_mut()) {
            (Some(rest), Some((_, last))) => last.push_str(rest),
            _ if line.trim().is_empty() => {}
            _ => joined.push((at + 1, line.to_owned())),
        }
    }
    joined.into_iter().map(|(number, line)| content_line(number, &line)).collect()
}

fn content_line(number: usize, line: &str) -> Result<ContentLine, Problem> {
    // A colon inside a quoted parameter does not end the name.
    let mut quoted = false;
    let colon = line.bytes().position(|b| {
        quoted ^= b == b'"';
        b == b':' && !quoted
    });
    let colon = colon.ok_or_else(|| {
        at_line(number, line, "not a line of an iCalendar file").allow("NAME:value")
    })?;
    let name = line[..colon].split(';').next().unwrap_or("").to_ascii_uppercase();
    Ok(ContentLine { number, name, value: line[colon + 1..].trim().to_owned() })
}

/// An event whose lines are being read.
struct Pending {
    line: usize,
    start: Option<(DateTime, bool)>,
    end: Option<(DateTime, bool)>,
    days: Option<i32>,
    name: String,
    rrule: Option<Rrule>,
    excluded: Vec<DateTime>,
}

impl Pending {
    fn new(line: usize) -> Pending {
        Pending {
            line,
            start: None,
            end: None,
            days: None,
            name: String::new(),
            rrule: None,
            excluded: Vec::new(),
        }
    }

    fn property(&mut self, line: &ContentLine) -> Result<(), Problem> {
        let numbered = |problem: Problem| {
            let message = format!("line {}: {}", line.number, problem.message);
            Problem { message, ..problem }
        };
        match line.name.as_str() {
            "DTSTART" => self.start = Some(moment(&line.value).map_err(numbered)?),
            "DTEND" => self.end = Some(moment(&line.value).map_err(numbered)?),
            "DURATION" => self.days = whole_days(&line.value),
            "SUMMARY" => self.name = unescape(&line.value),
            "RRULE" => self.rrule = Some(Rrule::parse(&line.value).map_err(numbered)?),
            "EXDATE" => {
                for value in line.value.split(',') {
                    self.excluded.push(moment(value).map_err(numbered)?.0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self, events: &mut Vec<DayEvent>) -> Result<(), Problem> {
        let Some((start, _)) = self.start else {
            return Err(at_line(self.line, "BEGIN:VEVENT", "the event has no DTSTART"));
        };
        let first = civil::day_from_date(start.date());
        let length = match (self.end, self.days) {
            // DTEND is exclusive; an event that ends at midnight does not touch that day.
            (Some((end, _)), _) => {
                let midnight = end.time() == jiff::civil::Time::midnight();
                civil::day_from_date(end.date()) - i32::from(midnight) - first
            }
            (None, Some(days)) => days - 1,
            (None, None) => 0,
        };
        let length = length.max(0);
        let name = if self.name.is_empty() { "holiday" } else { &self.name };
        let mut push = |first: Day| {
            events.push(DayEvent { first, last: first + length, name: name.to_owned() });
        };
        let Some(rrule) = self.rrule else {
            push(first);
            return Ok(());
        };
        let recurrence = Recurrence::new(rrule, start, Zone::utc()).exclude(self.excluded);
        let mut after = Timestamp::MIN;
        for _ in 0..=DATE_LIMIT {
            let Some(at) = recurrence.next_after(after) else { break };
            let date = Zone::utc().wall(at).date();
            if date.year() > LAST_YEAR {
                break;
            }
            push(civil::day_from_date(date));
            after = at;
        }
        Ok(())
    }
}

/// Parses `20261224` or `20261224T090000`, with or without `Z`. Also returns whether it is a whole
/// day.
fn moment(text: &str) -> Result<(DateTime, bool), Problem> {
    let bad =
        || Problem::whole("ics-date", text, "not a date").allow("20261224, or 20261224T090000");
    let (date, time) = text.split_once('T').map_or((text, None), |(d, t)| (d, Some(t)));
    let numbers = |digits: &str, width: &[usize]| -> Option<Vec<i16>> {
        if digits.len() != width.iter().sum::<usize>()
            || !digits.bytes().all(|b| b.is_ascii_digit())
        {
            return None;
        }
        let mut at = 0;
        let mut take = |w: &usize| {
            at += w;
            digits[at - w..at].parse().ok()
        };
        width.iter().map(&mut take).collect()
    };
    let parts = numbers(date, &[4, 2, 2]).ok_or_else(bad)?;
    let date = Date::new(parts[0], parts[1] as i8, parts[2] as i8).map_err(|_| bad())?;
    let Some(time) = time else { return Ok((date.at(0, 0, 0, 0), true)) };
    let parts = numbers(time.trim_end_matches('Z'), &[2, 2, 2]).ok_or_else(bad)?;
    let time = jiff::civil::Time::new(parts[0] as i8, parts[1] as i8, parts[2] as i8, 0);
    Ok((date.to_datetime(time.map_err(|_| bad())?), false))
}

/// The number of days of `P1D` or `P2W`; other durations are within one day.
fn whole_days(text: &str) -> Option<i32> {
    let body = text.strip_prefix('P')?;
    let (number, days) = match body.strip_suffix('D') {
        Some(number) => (number, 1),
        None => (body.strip_suffix('W')?, 7),
    };
    number.parse::<u16>().ok().map(|n| i32::from(n) * days)
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => plain.push(c),
            (_, true) => match chars.next() {
                Some('n' | 'N') => plain.push(' '),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event_lines: &str) -> Result<Vec<(String, String, String)>, Problem> {
        let text =
            format!("BEGIN:VCALENDAR\nBEGIN:VEVENT\n{event_lines}\nEND:VEVENT\nEND:VCALENDAR\n");
        let date = |day| civil::date_from_day(day).unwrap().to_string();
        let events = read(&text)?;
        Ok(events.into_iter().map(|e| (date(e.first), date(e.last), e.name)).collect())
    }

    fn day(first: &str, last: &str, name: &str) -> (String, String, String) {
        (first.into(), last.into(), name.into())
    }

    #[test]
    fn whole_days_and_spans() {
        let read = check("DTSTART;VALUE=DATE:20261224\nSUMMARY:Company\\, day\nX-A;B=\"x:y\":z");
        assert_eq!(read.unwrap(), [day("2026-12-24", "2026-12-24", "Company, day")]);
        let read = check("DTSTART:20261224\nDTEND:20261227\nSUMMARY:Long\n  weekend");
        assert_eq!(read.unwrap(), [day("2026-12-24", "2026-12-26", "Long weekend")]);
        let read = check("DTSTART:20261224T220000Z\nDURATION:P2D");
        assert_eq!(read.unwrap(), [day("2026-12-24", "2026-12-25", "holiday")]);
    }

    #[test]
    fn repeated_holidays_and_alarms() {
        let read = check(
            "DTSTART:20960101\nRRULE:FREQ=YEARLY\nEXDATE:20970101\nSUMMARY:New Year\n\
             BEGIN:VALARM\nSUMMARY:wake up\nEND:VALARM",
        );
        assert_eq!(
            read.unwrap(),
            ["2096-01-01", "2098-01-01", "2099-01-01"].map(|d| day(d, d, "New Year"))
        );
    }

    #[test]
    fn mistakes_have_a_line() {
        assert!(check("SUMMARY:x").unwrap_err().message.starts_with("line 2: the event has no"));
        assert!(check("DTSTART:2026-12-24").unwrap_err().message.starts_with("line 3: not a date"));
        assert!(check("gibberish").unwrap_err().message.starts_with("line 3: not a line"));
        assert!(read("hello").unwrap_err().message.contains("not an iCalendar file"));
        assert!(read("BEGIN:VCALENDAR\nBEGIN:VEVENT\n").unwrap_err().message.contains("not end"));
    }
}
