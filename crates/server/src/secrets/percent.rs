//! Undoes percent escapes, so that a secret is found whichever of its characters an encoder left
//! as they were.

use super::rewritten::Rewritten;

/// What a `%` begins.
struct Escape {
    /// The character it stands for, and how many bytes it is written with. `None` for a mere `%`.
    letter: Option<(char, usize)>,
    /// Whether more text could make another character of it.
    is_cut: bool,
}

/// The number that an escape holds.
enum Number {
    Is(u32),
    /// The text ends inside the escape.
    Cut,
    Not,
}

/// Replaces percent escapes by their characters: `%e9` as UTF-8, or as Latin-1 where it is no
/// UTF-8, and `%u20AC` as JavaScript's `escape` writes it. `None` if there is nothing like an
/// escape.
pub(super) fn unescape(text: &str) -> Option<Rewritten> {
    let mut rewritten = Rewritten::new(0);
    let mut settled = None;
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = text[at..].find('%') {
        let start = at + next;
        let escape = read(&text[start..]);
        if escape.is_cut {
            settled.get_or_insert(rewritten.text.len() + start - copied);
        }
        at = start + 1;
        if let Some((letter, written)) = escape.letter {
            rewritten.text.push_str(&text[copied..start]);
            rewritten.push(letter, written);
            at = start + written;
            copied = at;
        }
    }
    if rewritten.is_unchanged() && settled.is_none() {
        return None;
    }
    rewritten.text.push_str(&text[copied..]);
    rewritten.settled = settled.unwrap_or(rewritten.text.len());
    Some(rewritten)
}

fn read(text: &str) -> Escape {
    match number(text, "%", 2) {
        Number::Is(first) => read_bytes(text, first as u8),
        Number::Cut => Escape { letter: None, is_cut: true },
        Number::Not => read_utf16(text),
    }
}

/// Reads the escapes of the bytes of one character.
fn read_bytes(text: &str, first: u8) -> Escape {
    let width = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let mut bytes = vec![first];
    let mut is_cut = false;
    while bytes.len() < width {
        match number(&text[bytes.len() * 3..], "%", 2) {
            Number::Is(byte) => bytes.push(byte as u8),
            other => {
                is_cut = matches!(other, Number::Cut);
                break;
            }
        }
    }
    let letter = str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
    let letter = letter.map_or((char::from(first), 3), |letter| (letter, bytes.len() * 3));
    Escape { letter: Some(letter), is_cut }
}

/// Reads an escape like `%u20AC`, or two of them for a character that UTF-16 writes with two units.
fn read_utf16(text: &str) -> Escape {
    let units = [number(text, "%u", 4), number(text.get(6..).unwrap_or("%"), "%u", 4)];
    let (letter, is_cut) = match units {
        [Number::Is(high @ 0xd800..0xdc00), Number::Is(low @ 0xdc00..0xe000)] => {
            let number = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(number).map(|letter| (letter, 12)), false)
        }
        [Number::Is(0xd800..0xdc00), second] => (None, matches!(second, Number::Cut)),
        [Number::Is(unit), _] => (char::from_u32(unit).map(|letter| (letter, 6)), false),
        [first, _] => (None, matches!(first, Number::Cut)),
    };
    Escape { letter, is_cut }
}

/// Reads a prefix and a hexadecimal number of so many digits.
fn number(text: &str, prefix: &str, digits: usize) -> Number {
    let Some(rest) = text.strip_prefix(prefix) else {
        return if prefix.starts_with(text) { Number::Cut } else { Number::Not };
    };
    let mut value = 0;
    let mut letters = rest.chars();
    for _ in 0..digits {
        let Some(letter) = letters.next() else { return Number::Cut };
        let Some(digit) = letter.to_digit(16) else { return Number::Not };
        value = value * 16 + digit;
    }
    Number::Is(value)
}
