//! Number literals: kept exactly or refused, never rounded.

use serde_json::Number;

use super::flaw::Flaw;
use super::tree::cut;

/// The longest number literal. Nobody writes longer ones.
const LENGTH_LIMIT: usize = 400;

/// Whether YAML takes an unquoted text for a number (the core schema of YAML 1.2).
pub(crate) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    let (mantissa, exponent) = split_exponent(unsigned);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !digits.is_empty() && all_digits(digits)
        })
}

/// The value of a literal.
pub(crate) fn exact(literal: &str) -> Result<Number, Box<Flaw>> {
    if literal.len() > LENGTH_LIMIT {
        let flaw = Flaw::new("number", format!("a number of {} characters", literal.len()));
        return Err(Box::new(flaw.allow(format!("at most {LENGTH_LIMIT} characters"))));
    }
    if !is_decimal(literal) {
        let message = format!("{} is not a number in the usual form", cut(literal));
        let plain = literal.trim_start_matches(['+', '0']);
        let remedy = if is_decimal(plain) {
            format!("{plain}, or \"{literal}\" if it is a text")
        } else {
            format!("\"{literal}\" if it is a text")
        };
        let flaw = Flaw::new("number", message).allow("digits, such as 10 or 1.5");
        return Err(Box::new(flaw.suggest(remedy)));
    }
    let found = if literal.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        literal.parse::<i64>().map(Number::from).ok().or_else(|| {
            let large = literal.parse::<u64>().ok();
            large.map(Number::from)
        })
    } else {
        float(literal)
    };
    found.ok_or_else(|| {
        let flaw = Flaw::new("number", format!("{} would be rounded or lost", cut(literal)))
            .allow("whole numbers of 64 bits, and decimal numbers of about 15 digits")
            .suggest(format!("\"{}\", a text, which is kept as it is", cut(literal)));
        Box::new(flaw)
    })
}

fn float(literal: &str) -> Option<Number> {
    let value: f64 = literal.parse().ok()?;
    let kept = value.is_finite() && digits(literal)? == digits(&format!("{value:e}"))?;
    kept.then(|| Number::from_f64(value)).flatten()
}

/// Whether the literal has JSON's form: no leading zeros, no plus, digits on both sides of the
/// point.
fn is_decimal(literal: &str) -> bool {
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let (mantissa, _) = split_exponent(unsigned);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    is_number(literal)
        && whole.starts_with(|c: char| c.is_ascii_digit())
        && whole.bytes().all(|b| b.is_ascii_digit())
        && !leading_zero
        && !fraction.is_empty()
}

fn split_exponent(literal: &str) -> (&str, Option<&str>) {
    match literal.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (literal, None),
    }
}

/// A decimal number without insignificant zeros: its digits, and the power of ten of the last one.
fn digits(literal: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = split_exponent(literal.strip_prefix('-').unwrap_or(literal));
    let exponent: i64 = exponent.unwrap_or("0").parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let last = exponent.checked_sub(fraction.len() as i64)?;
    let significant = all.trim_end_matches('0');
    let power = last.checked_add((all.len() - significant.len()) as i64)?;
    let significant = significant.trim_start_matches('0');
    let is_zero = significant.is_empty();
    Some((significant.to_owned(), if is_zero { 0 } else { power }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_exactly_or_refused() {
        for (literal, expected) in [
            ("0", Some("0")),
            ("-12", Some("-12")),
            ("9007199254740993", Some("9007199254740993")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("18446744073709551616", None),
            ("0.1", Some("0.1")),
            ("1.50", Some("1.5")),
            ("1e3", Some("1000.0")),
            ("0.0", Some("0.0")),
            ("0e99999999999999999999", None),
            ("0.1234567890123456789", None),
            ("9007199254740993.0", None),
            ("1e400", None),
            ("1e-400", None),
            ("010", None),
            ("0x1F", None),
            ("+5", None),
            (".5", None),
            ("5.", None),
            (".inf", None),
        ] {
            assert!(is_number(literal), "{literal}");
            let found = exact(literal).ok().map(|number| number.to_string());
            assert_eq!(found.as_deref(), expected, "{literal}");
        }
    }

    #[test]
    fn texts_are_no_numbers() {
        for text in ["", "-", ".", "1_000", "09:00", "1e", "e5", "0x", "1.2.3", "５", "- 1", "inf"]
        {
            assert!(!is_number(text), "{text}");
        }
    }
}
