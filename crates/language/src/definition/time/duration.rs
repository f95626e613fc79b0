//! Durations of a definition: `30s`, `1h30m`, `PT5M`, or a number of seconds.

use calendar::{Problem, parse_duration};
use jiff::{SignedDuration, Span, SpanRelativeTo};

use crate::definition::limits;

/// The longest ISO 8601 text that is read.
const LENGTH_LIMIT: usize = 64;

/// The duration of a text or of a number literal: not negative, at most ten years.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, Problem> {
    let written = text.trim();
    let found = if !written.is_empty() && written.bytes().all(|b| b.is_ascii_digit()) {
        seconds(text, written)?
    } else if written.starts_with(['P', 'p']) {
        iso(text, written)?
    } else if written.contains("working") {
        return Err(Problem::whole("duration", text, "working time is not possible here")
            .allow("elapsed time, such as 30s, 5m, 1h30m or 1d"));
    } else {
        parse_duration(text)?
    };
    if found > limits::DURATION {
        return Err(too_long(text));
    }
    Ok(found)
}

fn seconds(text: &str, digits: &str) -> Result<SignedDuration, Problem> {
    let octal = digits.len() > 1 && digits.starts_with('0');
    if octal {
        return Err(Problem::whole("duration", text, "a number with a leading zero")
            .suggest(format!("{}s", digits.trim_start_matches('0'))));
    }
    // More digits than this exceed the limit in any case.
    let seconds = digits.parse::<i64>().ok().filter(|_| digits.len() <= 15);
    seconds.map(SignedDuration::from_secs).ok_or_else(|| too_long(text))
}

/// Reads ISO 8601. Weeks and days have a fixed length here, as in `1d`; months and years have none
/// and are refused.
fn iso(text: &str, written: &str) -> Result<SignedDuration, Problem> {
    let bad = || {
        Problem::whole("duration", text, "not a duration")
            .allow("ISO 8601 with weeks, days, hours, minutes and seconds, such as PT5M or P1DT12H")
            .suggest("PT5M, or 5m")
    };
    let span: Span = Some(written)
        .filter(|w| w.len() <= LENGTH_LIMIT)
        .and_then(|w| w.parse().ok())
        .ok_or_else(bad)?;
    let calendar_units = span.get_years() != 0 || span.get_months() != 0;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| bad())?;
    if calendar_units || duration.is_negative() { Err(bad()) } else { Ok(duration) }
}

fn too_long(text: &str) -> Problem {
    Problem::whole("duration", text, "longer than ten years").allow("at most 3660d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        for (text, ms) in [
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("300", 300_000),
            ("0", 0),
            ("PT5M", 300_000),
            ("P1DT12H", 129_600_000),
            ("P2W", 1_209_600_000),
            ("3660d", 316_224_000_000),
        ] {
            assert_eq!(parse(text).map(|d| d.as_millis()), Ok(ms), "{text}");
        }
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "5x",
            "-5m",
            "-5",
            "PT",
            "P1M",
            "P1Y",
            "-PT5M",
            "PT-5M",
            "3661d",
            "P9999999999D",
            "99999999999999999999d",
            "99999999999999999999",
            "2 working hours",
            "010",
            "1.5",
            "1e3",
            "P",
            "５",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
