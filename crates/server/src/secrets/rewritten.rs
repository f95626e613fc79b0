//! A text that was rewritten to find secrets in it, and where its parts stand in the original.

/// A text without its wraps or escapes.
#[derive(Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    changes: Vec<Change>,
    /// The offset in `text` of what may change once more text follows, such as half an escape.
    pub(super) settled: usize,
    /// Shorter secrets are not looked for here.
    pub(super) shortest: usize,
}

/// A place where the original is longer.
struct Change {
    /// A range that starts here or later starts behind the change in the original.
    starts: usize,
    /// A range that ends here or later ends behind the change in the original.
    ends: usize,
    /// How many bytes are missing up to here.
    missing: usize,
}

impl Rewritten {
    /// An empty text in which secrets of at least `shortest` bytes are looked for.
    pub(super) fn new(shortest: usize) -> Rewritten {
        Rewritten { shortest, ..Rewritten::default() }
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }

    /// Records that `missing` bytes of the original stood at the end of the text so far.
    pub(super) fn removed(&mut self, missing: usize) {
        let at = self.text.len();
        self.change(at, at + 1, missing);
    }

    /// Appends a character for which the original has `written` bytes.
    pub(super) fn push(&mut self, letter: char, written: usize) {
        self.text.push(letter);
        self.change(self.text.len(), self.text.len(), written - letter.len_utf8());
    }

    fn change(&mut self, starts: usize, ends: usize, missing: usize) {
        let before = self.changes.last().map_or(0, |last| last.missing);
        self.changes.push(Change { starts, ends, missing: before + missing });
    }

    /// Whether something was rewritten inside the range.
    pub(super) fn is_changed(&self, (start, end): (usize, usize)) -> bool {
        let first = self.changes.partition_point(|change| change.starts <= start);
        self.changes.get(first).is_some_and(|change| change.ends <= end)
    }

    /// The range in the original text.
    pub(super) fn original(&self, (start, end): (usize, usize)) -> (usize, usize) {
        let before_end = self.changes.partition_point(|change| change.ends <= end);
        (self.original_start(start), end + self.missing(before_end))
    }

    /// The offset in the original text of the start of a range.
    pub(super) fn original_start(&self, start: usize) -> usize {
        start + self.missing(self.changes.partition_point(|change| change.starts <= start))
    }

    fn missing(&self, changes: usize) -> usize {
        changes.checked_sub(1).map_or(0, |last| self.changes[last].missing)
    }
}
