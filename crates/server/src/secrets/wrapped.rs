//! Texts with their wraps taken out: programs that write base64 or hexadecimal break it into lines, and a secret in it.

/// A line break behind at least so many characters without a space may be one that a program has put into something
/// long: base64 has 76 or 64 columns, `xxd -p` has 60.
const COLUMNS: usize = 60;
/// Line breaks, as they are and as JSON writes them.
const BREAKS: [&str; 6] = ["\r\n", "\n", "\r", "\\r\\n", "\\n", "\\r"];

/// A text without its wraps.
pub(super) struct Unwrapped {
    pub(super) text: String,
    /// Where wraps were taken out: the place in this text, and how many bytes are missing up to there.
    removed: Vec<(usize, usize)>,
}

impl Unwrapped {
    /// Takes the wraps out of a text that goes on in a line with so many characters since its last space. Nothing, if
    /// there are none.
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

    /// Where a stretch of this text that goes over a wrap is in the text it was made of.
    pub(super) fn across(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let first = self.removed.partition_point(|(at, _)| *at <= start);
        let is_across = self.removed.get(first).is_some_and(|(at, _)| *at < end);
        is_across.then(|| (self.original(start), self.original_end(end)))
    }

    /// Where a place that has a wrap behind it is in the text this was made of.
    pub(super) fn before_wrap(&self, at: usize) -> Option<usize> {
        let is_before = self.removed.last().is_some_and(|(removed, _)| *removed > at);
        is_before.then(|| self.original(at))
    }

    /// A place in the text this was made of: behind a wrap, if it is there.
    fn original(&self, at: usize) -> usize {
        let before = self.removed.partition_point(|(removed, _)| *removed <= at);
        at + before.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }

    /// The same for an end, which is before the wrap.
    fn original_end(&self, at: usize) -> usize {
        let before = self.removed.partition_point(|(removed, _)| *removed < at);
        at + before.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }
}

/// How many characters there are since the last space, behind a text that goes on in a line with so many.
pub(crate) fn columns_after(text: &str, columns: usize) -> usize {
    match text.char_indices().rev().find(|(_, letter)| letter.is_whitespace()) {
        Some((at, letter)) => text[at + letter.len_utf8()..].chars().count(),
        None => columns + text.chars().count(),
    }
}
