//! Writes iCalendar files with whole days and points in time.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::Date;

/// The time of an event in a calendar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IcsTime {
    Day(Date),
    At(Timestamp),
}

/// An event to write into a calendar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcsEvent {
    pub time: IcsTime,
    pub summary: String,
    /// The same whenever the file is written, so that readers update the event instead of adding
    /// another.
    pub uid: String,
}

/// Writes an iCalendar file with these events. `stamp` is the time of writing.
///
/// ```
/// use calendar::{IcsEvent, IcsTime, write_ics};
/// let event = IcsEvent {
///     time: IcsTime::Day("2026-12-25".parse().unwrap()),
///     summary: "Christmas Day; closed".into(),
///     uid: "US-2026-12-25@punctual".into(),
/// };
/// let text = write_ics("US holidays", &[event], "2026-01-01T00:00:00Z".parse().unwrap());
/// assert!(text.contains("DTSTART;VALUE=DATE:20261225\r\n"));
/// assert!(text.contains("SUMMARY:Christmas Day\\; closed\r\n"));
/// ```
pub fn write_ics(name: &str, events: &[IcsEvent], stamp: Timestamp) -> String {
    let mut text = String::new();
    line(&mut text, "BEGIN:VCALENDAR");
    line(&mut text, "VERSION:2.0");
    line(&mut text, "PRODID:-//Punctual//Punctual//EN");
    line(&mut text, &format!("X-WR-CALNAME:{}", escape(name)));
    for event in events {
        line(&mut text, "BEGIN:VEVENT");
        line(&mut text, &format!("UID:{}", escape(&event.uid)));
        line(&mut text, &format!("DTSTAMP:{}", stamp.strftime("%Y%m%dT%H%M%SZ")));
        match &event.time {
            IcsTime::Day(date) => {
                line(&mut text, &format!("DTSTART;VALUE=DATE:{}", date.strftime("%Y%m%d")));
                let end = date.tomorrow().unwrap_or(*date);
                line(&mut text, &format!("DTEND;VALUE=DATE:{}", end.strftime("%Y%m%d")));
                line(&mut text, "TRANSP:TRANSPARENT");
            }
            IcsTime::At(at) => {
                line(&mut text, &format!("DTSTART:{}", at.strftime("%Y%m%dT%H%M%SZ")));
            }
        }
        line(&mut text, &format!("SUMMARY:{}", escape(&event.summary)));
        line(&mut text, "END:VEVENT");
    }
    line(&mut text, "END:VCALENDAR");
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | ';' | ',' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writes a line, folded at 75 bytes between characters.
fn line(text: &mut String, content: &str) {
    let mut width = 0;
    for c in content.chars() {
        if width + c.len_utf8() > 74 {
            text.push_str("\r\n ");
            width = 1;
        }
        text.push(c);
        width += c.len_utf8();
    }
    let _ = write!(text, "\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ics::read_ics;

    #[test]
    fn what_is_written_can_be_read() {
        let events = ["2026-01-01", "2026-12-25"].map(|date| IcsEvent {
            time: IcsTime::Day(date.parse().unwrap()),
            summary: format!("Ünïcode, {} day", "very long ".repeat(12)),
            uid: format!("{date}@test"),
        });
        let text = write_ics("test", &events, Timestamp::UNIX_EPOCH);
        assert!(text.lines().all(|line| line.len() <= 75));
        let names: Vec<String> = read_ics(&text).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, events.map(|e| e.summary));
    }
}
