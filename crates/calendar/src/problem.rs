//! Describes a mistake in a text: what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;

/// The longest excerpt of a text that is shown around a mistake.
const EXCERPT: usize = 72;

/// A mistake in a text that someone wrote: the text, the position, what is allowed there, and a
/// remedy.
///
/// Its [`Display`](fmt::Display) form is meant for people:
///
/// ```
/// let problem = calendar::Cron::parse("0 25 * * *").unwrap_err();
/// assert_eq!(
///     problem.to_string(),
///     [
///         "hour 25 is out of range",
///         "  0 25 * * *",
///         "    ^^",
///         "  allowed: 0-23",
///         "  try: 0 23 * * *",
///     ]
///     .join("\n"),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A stable code for programs: `cron-range`, `zone-unknown`, …
    pub code: &'static str,
    /// The text that was parsed, cut to a bounded length.
    pub text: Box<str>,
    /// The wrong part of `text`, as a range of bytes.
    pub span: Range<usize>,
    /// The mistake, in one sentence without a full stop.
    pub message: String,
    /// The values or forms that are allowed in this position.
    pub allowed: Option<Box<str>>,
    /// The text that the author should write instead.
    pub remedy: Option<Box<str>>,
}

impl Problem {
    /// A problem with a part of `text`. Only the text around that part is kept.
    pub fn new(
        code: &'static str,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Problem {
        let (text, span) = excerpt(text, span);
        Problem {
            code,
            text: text.into(),
            span,
            message: message.into(),
            allowed: None,
            remedy: None,
        }
    }

    /// A problem with the whole of `text`.
    pub fn whole(code: &'static str, text: &str, message: impl Into<String>) -> Problem {
        Problem::new(code, text, 0..text.len(), message)
    }

    /// Adds what is allowed in this position.
    #[must_use]
    pub fn allow(mut self, allowed: impl Into<Box<str>>) -> Problem {
        self.allowed = Some(allowed.into());
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn suggest(mut self, remedy: impl Into<Box<str>>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }

    /// The first character of the mistake, counted from 1.
    pub fn column(&self) -> usize {
        self.text.get(..self.span.start).map_or(0, |before| before.chars().count()) + 1
    }
}

/// Cuts a long text to a window around the span, on character boundaries.
fn excerpt(text: &str, span: Range<usize>) -> (String, Range<usize>) {
    let start = floor_boundary(text, span.start.min(text.len()));
    let end = floor_boundary(text, span.end.clamp(start, text.len()));
    if text.len() <= EXCERPT {
        return (text.to_owned(), start..end);
    }
    let from = floor_boundary(text, start.saturating_sub(EXCERPT / 3));
    let to = floor_boundary(text, (from + EXCERPT).min(text.len()));
    let lead = if from > 0 { "…" } else { "" };
    let tail = if to < text.len() { "…" } else { "" };
    let cut = format!("{lead}{}{tail}", &text[from..to]);
    let shift = |at: usize| at.clamp(from, to) - from + lead.len();
    (cut, shift(start)..shift(end))
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Control characters would move the caret or affect the terminal, so each is shown as one
        // replacement character.
        let visible: String =
            self.text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let marked = self.text.get(self.span.clone()).unwrap_or("").chars().count().max(1);
        write!(f, "{}", self.message)?;
        if !self.text.is_empty() {
            write!(f, "\n  {}", visible.trim_end())?;
            write!(f, "\n  {}{}", " ".repeat(self.column() - 1), "^".repeat(marked))?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "\n  allowed: {allowed}")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  try: {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// A [`Problem`] in a field of a larger declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The path to the field, such as `hours.mon[0]`.
    pub path: String,
    pub problem: Problem,
}

impl Mistake {
    /// A problem in the field at `path`.
    pub fn new(path: impl Into<String>, problem: Problem) -> Mistake {
        Mistake { path: path.into(), problem }
    }

    /// Prefixes the path with the name of the enclosing field.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Mistake {
        self.path = format!("{parent}.{}", self.path);
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl std::error::Error for Mistake {}

/// The entries of `known` most similar to the text, best first, at most three.
///
/// ```
/// assert_eq!(calendar::nearest("Europe/Berln", ["Europe/Berlin", "Asia/Tokyo"]), ["Europe/Berlin"]);
/// ```
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let written: Vec<char> = written.chars().take(64).flat_map(char::to_lowercase).collect();
    let limit = (written.len() * 2 / 5).max(1);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let distance = edit_distance(&written, name);
            (distance <= limit).then_some((distance, name))
        })
        .collect();
    found.sort_unstable();
    // Entries that are clearly less similar than the best one are left out.
    let furthest = found.first().map_or(0, |(best, _)| best + 1);
    let near = found.into_iter().take_while(|(distance, _)| *distance <= furthest);
    near.take(3).map(|(_, name)| name).collect()
}

/// Levenshtein distance, ignoring case.
fn edit_distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &ca) in a.iter().enumerate() {
            let substitution = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_around_the_place() {
        let text = format!("{}X{}", "é".repeat(4000), "b".repeat(4000));
        let problem = Problem::new("test", &text, 8000..8001, "no X");
        assert!(problem.text.len() < 100);
        assert_eq!(&problem.text[problem.span.clone()], "X");
    }

    #[test]
    fn odd_spans_and_control_characters_do_no_harm() {
        let problem = Problem::new("test", "a\u{1b}[2Jé", 5..900, "bad");
        assert_eq!(problem.to_string(), "bad\n  a\u{fffd}[2Jé\n       ^");
    }
}
