//! Cursors of pages as opaque texts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::Cursor;

/// The text of a cursor.
pub fn write(cursor: &Cursor) -> String {
    let text = match cursor {
        Cursor::Number(number) => format!("n{number}"),
        Cursor::Name(name) => format!("t{name}"),
        Cursor::Step(run, step) => format!("s{}.{step}", run.0),
        Cursor::Instant(at, key) => format!("i{at}.{key}"),
        Cursor::Decided(at, schedule, n) => format!("d{}.{}.{n}", at.as_millisecond(), schedule.0),
    };
    URL_SAFE_NO_PAD.encode(text)
}

/// The cursor that [`write()`] gave as `text`.
pub fn read(text: &str) -> Option<Cursor> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let kind = text.get(..1)?;
    let rest = text.get(1..)?;
    match kind {
        "n" => rest.parse().ok().map(Cursor::Number),
        "t" => Some(Cursor::Name(rest.to_owned())),
        "s" => {
            let (run, step) = rest.split_once('.')?;
            Some(Cursor::Step(engine::RunKey(run.parse().ok()?), step.parse().ok()?))
        }
        "i" => {
            let (at, key) = rest.split_once('.')?;
            Some(Cursor::Instant(at.parse().ok()?, key.parse().ok()?))
        }
        "d" => {
            let (at, rest) = rest.split_once('.')?;
            let (schedule, n) = rest.split_once('.')?;
            let at = jiff::Timestamp::from_millisecond(at.parse().ok()?).ok()?;
            let schedule = engine::ScheduleId(schedule.parse().ok()?);
            Some(Cursor::Decided(at, schedule, n.parse().ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_nothing_else() {
        for cursor in [
            Cursor::Number(-5),
            Cursor::Number(i64::MAX),
            Cursor::Name("ä/7".into()),
            Cursor::Step(engine::RunKey(i64::MAX), 7),
            Cursor::Instant(-5, i64::MAX),
            Cursor::Decided(jiff::Timestamp::UNIX_EPOCH, engine::ScheduleId(7), u64::MAX),
        ] {
            assert_eq!(read(&write(&cursor)), Some(cursor));
        }
        for text in ["", "x", "5", "bjU=", "bm4", "_____w", "'; DROP TABLE runs;--"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
