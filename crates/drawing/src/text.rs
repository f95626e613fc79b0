//! Text in drawings: estimates its width, and cuts it to fit.
//!
//! A server has no fonts. Widths are estimated for a common sans-serif face, rather too wide than
//! too narrow, so that text that fits here fits on the page.

use std::borrow::Cow;
use std::fmt;

use maud::Render;

/// The size of names and labels, in pixels. The stylesheet contains the same number.
pub(crate) const NAME_SIZE: f64 = 13.0;
/// The size of all other text: kinds, notes, scales.
pub(crate) const NOTE_SIZE: f64 = 11.0;

/// The width of a text at a size, in pixels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// The text, or as much of its beginning as fits, followed by `…`.
pub(crate) fn cut(text: &str, size: f64, limit: f64) -> Cow<'_, str> {
    if width(text, size) <= limit {
        return Cow::Borrowed(text);
    }
    let mut left = limit / size - advance('…');
    let mut kept = String::new();
    for letter in text.chars() {
        left -= advance(letter);
        if left < 0.0 {
            break;
        }
        kept.push(letter);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    Cow::Owned(kept)
}

/// The width of a letter, relative to the size.
fn advance(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '|' | '!'
        | '\'' | '(' | ')' | '[' | ']' | '/' | '\\' | '-' => 0.36,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '—' => 0.96,
        'A'..='Z' | '&' | '<' | '>' | '+' | '=' | '~' => 0.74,
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        // Scripts and symbols whose letters are as wide as high.
        '\u{1100}'..='\u{11ff}' | '\u{2190}'..='\u{2bff}' | '\u{2e80}'.. => 1.1,
        _ => 0.6,
    }
}

/// "1 run", "2 runs".
pub(crate) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A coordinate: at most two decimals, without trailing zeros.
#[derive(Clone, Copy)]
pub(crate) struct Num(pub(crate) f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0 * 100.0).round() as i64;
        let sign = if hundredths < 0 { "-" } else { "" };
        let (whole, rest) = (hundredths.abs() / 100, hundredths.abs() % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{sign}{whole}"),
            (_, 0) => write!(f, "{sign}{whole}.{}", rest / 10),
            _ => write!(f, "{sign}{whole}.{rest:02}"),
        }
    }
}

impl Render for Num {
    fn render_to(&self, buffer: &mut String) {
        use fmt::Write;
        let _ = write!(buffer, "{self}");
    }
}

/// A position between 0 and 1 as a percentage of the width, so that a drawing grows with its page
/// while its letters keep their size.
#[derive(Clone, Copy)]
pub(crate) struct Percent(pub(crate) f64);

impl Render for Percent {
    fn render_to(&self, buffer: &mut String) {
        Num(self.0 * 100.0).render_to(buffer);
        buffer.push('%');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_to_fit() {
        let cases = [
            ("fetch", 100.0, "fetch"),
            ("", 100.0, ""),
            ("a name that is far too long", 80.0, "a name th…"),
            ("wide 漢字漢字漢字漢字", 80.0, "wide 漢字…"),
            ("anything", 1.0, "…"),
        ];
        for (text, limit, expected) in cases {
            assert_eq!(cut(text, 13.0, limit), expected, "{text}");
        }
    }

    #[test]
    fn what_is_cut_fits() {
        let text = "Wire — <the> amounts & “all” of them, 100 % ünïcödé";
        for limit in 14..400 {
            let limit = f64::from(limit);
            let kept = cut(text, 13.0, limit);
            assert!(width(&kept, 13.0) <= limit, "{kept} is wider than {limit}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (1.0, "1"),
            (-0.001, "0"),
            (1.5, "1.5"),
            (1.005_1, "1.01"),
            (-2.25, "-2.25"),
            (-0.5, "-0.5"),
            (100.0, "100"),
        ];
        for (number, expected) in cases {
            assert_eq!(Num(number).to_string(), expected);
        }
    }
}
