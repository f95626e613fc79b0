//! Removes line wraps from texts: programs that write base64 or hexadecimal break it into lines,
//! and any secret in it too.

/// A line break after at least this many characters without a space may be a wrap: base64 wraps at
/// 76 or 64 columns, `xxd -p` at 60.
const COLUMNS: usize = 60;
/// Line breaks, plain and as JSON escapes them.
const BREAKS: [&str; 6] = ["\r\n", "\n", "\r", "\\r\\n", "\\n", "\\r"];

/// A text with its wraps removed.
pub(super) struct Unwrapped {
    pub(super) text: String,
    /// Where wraps were removed: the offset in `text`, and how many bytes are missing up to there.
    removed: Vec<(usize, usize)>,
}

impl Unwrapped {
    /// Removes the wraps from a text that continues a line with `columns` characters since its last
    /// space. `None` if there are no wraps.
    pub(super) fn of(text: &str, mut columns: usize) -> Option<Unwrapped> {
        if !text.contains(['\r', '\n', '\\']) {
            return None;
        }
        let mut unwrapped = Unwrapped { text: String::new(), removed: Vec::new() };
        let (mut copied, mut at, mut missing) = (0, 0, 0);
        while let Some(letter) = text[at..].chars().next() {
            if columns >= COLUMNS && matches!(letter, '\r' | '\n' | '\\') {
                let found = BREAKS.iter().find(|one| text[at..].starts_with(**one));
                if let Some(found) = found {
                    unwrapped.text.push_str(&text[copied..at]);
                    missing += found.len();
                    unwrapped.removed.push((unwrapped.text.len(), missing));
                    at += found.len();
                    (copied, columns) = (at, 0);
                    continue;
                }
            }
            columns = if letter.is_whitespace() { 0 } else { columns + 1 };
            at += letter.len_utf8();
        }
        if unwrapped.removed.is_empty() {
            return None;
        }
        unwrapped.text.push_str(&text[copied..]);
        Some(unwrapped)
    }

    /// The range in the original text, if the range `start..end` of this text contains a wrap.
    pub(super) fn across(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let first = self.removed.partition_point(|(at, _)| *at <= start);
        let is_across = self.removed.get(first).is_some_and(|(at, _)| *at < end);
        is_across.then(|| (self.original(start), self.original_end(end)))
    }

    /// The offset in the original text, if a wrap follows the offset `at`.
    pub(super) fn before_wrap(&self, at: usize) -> Option<usize> {
        let is_before = self.removed.last().is_some_and(|(removed, _)| *removed > at);
        is_before.then(|| self.original(at))
    }

    /// The offset in the original text: after a wrap, if there is one at `at`.
    fn original(&self, at: usize) -> usize {
        let before = self.removed.partition_point(|(removed, _)| *removed <= at);
        at + before.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }

    /// The offset in the original text of the end of a range: before a wrap, if there is one at
    /// `at`.
    fn original_end(&self, at: usize) -> usize {
        let before = self.removed.partition_point(|(removed, _)| *removed < at);
        at + before.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }
}

/// The number of characters since the last space, after a text that continues a line with
/// `columns`.
pub(crate) fn columns_after(text: &str, columns: usize) -> usize {
    match text.char_indices().rev().find(|(_, letter)| letter.is_whitespace()) {
        Some((at, letter)) => text[at + letter.len_utf8()..].chars().count(),
        None => columns + text.chars().count(),
    }
}
