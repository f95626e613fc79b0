//! Removes line wraps from texts: programs that write base64 or hexadecimal break it into lines,
//! and any secret in it too.

use super::forms::SHORTEST_PART;
use super::rewritten::Rewritten;

/// A line break after at least this many characters without a space may be a wrap: base64 wraps at
/// 76 or 64 columns, `xxd -p` at 60.
const COLUMNS: usize = 60;
/// Line breaks, plain and as JSON escapes them.
const BREAKS: [&str; 6] = ["\r\n", "\n", "\r", "\\r\\n", "\\n", "\\r"];

/// Removes the wraps from a text that continues a line with `columns` characters since its last
/// space. `None` if there are no wraps.
pub(super) fn unwrap(text: &str, mut columns: usize) -> Option<Rewritten> {
    if !text.contains(['\r', '\n', '\\']) {
        return None;
    }
    let mut unwrapped = Rewritten::new(SHORTEST_PART);
    let (mut copied, mut at) = (0, 0);
    while let Some(letter) = text[at..].chars().next() {
        if columns >= COLUMNS && matches!(letter, '\r' | '\n' | '\\') {
            let found = BREAKS.iter().find(|one| text[at..].starts_with(**one));
            if let Some(found) = found {
                unwrapped.text.push_str(&text[copied..at]);
                unwrapped.removed(found.len());
                at += found.len();
                (copied, columns) = (at, 0);
                continue;
            }
        }
        columns = if letter.is_whitespace() { 0 } else { columns + 1 };
        at += letter.len_utf8();
    }
    if unwrapped.is_unchanged() {
        return None;
    }
    unwrapped.text.push_str(&text[copied..]);
    unwrapped.settled = unwrapped.text.len();
    Some(unwrapped)
}

/// The number of characters since the last space, after a text that continues a line with
/// `columns`.
pub(crate) fn columns_after(text: &str, columns: usize) -> usize {
    match text.char_indices().rev().find(|(_, letter)| letter.is_whitespace()) {
        Some((at, letter)) => text[at + letter.len_utf8()..].chars().count(),
        None => columns + text.chars().count(),
    }
}
