//! Durations as people write them: `90m`, `1h30m`, `1d`.

use jiff::SignedDuration;

use crate::problem::Problem;

/// The longest text that is parsed.
const LENGTH_LIMIT: usize = 64;
/// A thousand years. Longer durations are typing errors, and sums with them would overflow.
const LONGEST_MS: u64 = 1000 * 366 * 86_400_000;

const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 7 * 86_400_000),
];

/// Parses `90s`, `5m`, `1h30m`, `1d`, `2w`, `500ms`. A day has 86 400 seconds.
///
/// ```
/// use calendar::parse_duration;
/// assert_eq!(parse_duration("1h30m").unwrap().as_secs(), 5400);
/// assert!(parse_duration("5").unwrap_err().to_string().contains("try: 5s, 5m or 5h"));
/// ```
pub fn parse_duration(text: &str) -> Result<SignedDuration, Problem> {
    let written = text.trim();
    let bad = |span: std::ops::Range<usize>, message: String| {
        Problem::new("duration", text, span, message)
            .allow("numbers with ms, s, m, h, d or w, such as 90s, 5m, 1h30m, 1d")
    };
    if written.is_empty() || written.len() > LENGTH_LIMIT {
        return Err(bad(0..text.len(), "not a duration".into()).suggest("5m"));
    }
    let offset = text.len() - text.trim_start().len();
    let (mut total, mut at) = (0u64, 0);
    while at < written.len() {
        let rest = &written[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let place = offset + at..offset + at + digits + unit;
        let (number, name) = (&rest[..digits], &rest[digits..digits + unit]);
        if digits == 0 || digits + unit == 0 {
            let message = format!("{rest} is not a duration");
            return Err(bad(offset + at..text.len(), message).suggest("5m"));
        }
        if name.is_empty() {
            return Err(bad(place, format!("{number} has no unit"))
                .suggest(format!("{number}s, {number}m or {number}h")));
        }
        let known = UNITS.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(name));
        let Some((_, unit_ms)) = known else {
            return Err(bad(place, format!("{name} is not a unit of time")));
        };
        let part = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit_ms));
        let sum = part.and_then(|part| total.checked_add(part)).filter(|sum| *sum <= LONGEST_MS);
        let too_long = || bad(place.clone(), "longer than a thousand years".into());
        total = sum.ok_or_else(too_long)?;
        at += digits + unit;
        at += written[at..].len() - written[at..].trim_start().len();
    }
    Ok(SignedDuration::from_millis(total as i64))
}

/// Formats a duration so that [`parse_duration`] can parse it: `1h30m`.
pub fn format_duration(duration: SignedDuration) -> String {
    let mut rest = duration.as_millis().unsigned_abs() as u64;
    let mut text = String::from(if duration.is_negative() { "-" } else { "" });
    for (name, size) in UNITS.iter().rev().filter(|(name, _)| *name != "w") {
        if rest >= *size {
            text.push_str(&format!("{}{name}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() || text == "-" { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, ms, again) in [
            ("5m", 300_000, "5m"),
            ("90m", 5_400_000, "1h30m"),
            ("1d", 86_400_000, "1d"),
            ("2w", 1_209_600_000, "14d"),
            (" 1h 30m ", 5_400_000, "1h30m"),
            ("500ms", 500, "500ms"),
            ("0s", 0, "0s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_millis(), ms, "{text}");
            assert_eq!(format_duration(duration), again);
        }
    }

    #[test]
    fn refuses() {
        for text in
            ["", "5", "m", "5x", "-5m", "1.5h", "99999999999999999999d", "9999999d", "５m", "5m!"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
