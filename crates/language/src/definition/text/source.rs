//! The text of a definition: converts byte offsets to line, column and excerpt.

use std::ops::Range;

use calendar::Problem;

/// A range of the text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start, end: end.max(start) }
    }
}

/// The text, with the offsets at which its lines begin.
pub(crate) struct Source<'t> {
    text: &'t str,
    lines: Vec<usize>,
}

impl<'t> Source<'t> {
    pub(crate) fn new(text: &'t str) -> Source<'t> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Source { text, lines }
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    pub(crate) fn slice(&self, span: Span) -> &'t str {
        self.text.get(span.start..span.end.min(self.text.len())).unwrap_or("")
    }

    /// The line and column of an offset, both counted from 1.
    pub(crate) fn position(&self, at: usize) -> (u32, u32) {
        let line = self.line_of(at);
        let before = self.text.get(self.lines[line]..at.min(self.text.len())).unwrap_or("");
        (line as u32 + 1, before.chars().count() as u32 + 1)
    }

    /// The character at a line and column, both counted from 1, if there is one.
    pub(crate) fn character(&self, line: u64, column: u64) -> Option<Span> {
        let line = usize::try_from(line.checked_sub(1)?).ok()?;
        let range = self.line_range(*self.lines.get(line)?);
        let column = usize::try_from(column.checked_sub(1)?).ok()?;
        let (at, found) = self.text[range.clone()].char_indices().nth(column)?;
        let start = range.start + at;
        Some(Span::new(start, start + found.len_utf8()))
    }

    /// The line of a span, cut if it is long, and the span's part of it.
    pub(crate) fn excerpt(&self, span: Span) -> (String, Range<usize>) {
        let range = self.line_range(span.start);
        let line = &self.text[range.clone()];
        let within = |at: usize| at.clamp(range.start, range.end) - range.start;
        let problem = Problem::new("", line, within(span.start)..within(span.end), "");
        (problem.text.into(), problem.span)
    }

    /// The line around an offset, without its line ending.
    pub(crate) fn line_range(&self, at: usize) -> Range<usize> {
        let line = self.line_of(at);
        let start = self.lines[line];
        let end = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        start..start + self.text[start..end].trim_end_matches('\r').len()
    }

    fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let source = Source::new("a: é!\r\n\nb: x");
        for (at, expected) in [(0, (1, 1)), (5, (1, 5)), (8, (2, 1)), (12, (3, 4)), (99, (3, 5))] {
            assert_eq!(source.position(at), expected, "{at}");
        }
        assert_eq!(source.excerpt(Span::new(3, 5)), ("a: é!".to_owned(), 3..5));
        assert_eq!(source.excerpt(Span::new(12, 40)), ("b: x".to_owned(), 3..4));
        assert_eq!(source.excerpt(Span::new(8, 12)), (String::new(), 0..0));
    }

    #[test]
    fn characters_are_found_by_line_and_column() {
        let source = Source::new("a: é!\r\n\nb: x");
        let expected = [
            ((1, 1), Some(Span::new(0, 1))),
            ((1, 4), Some(Span::new(3, 5))),
            ((3, 4), Some(Span::new(12, 13))),
        ];
        let nowhere = [(0, 1), (1, 0), (1, 6), (2, 1), (4, 1), (u64::MAX, u64::MAX)];
        for ((line, column), expected) in expected.into_iter().chain(nowhere.map(|at| (at, None))) {
            assert_eq!(source.character(line, column), expected, "{line}:{column}");
        }
    }
}
