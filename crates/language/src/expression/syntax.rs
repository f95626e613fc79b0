//! Parses the text of an expression, with spans in the text as it was written.
//!
//! People write `steps.check-result.output`, which is a subtraction in Jinja. So the whole id
//! directly after `steps.` is passed to the parser as `steps["check-result"]`.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::ast::Expr;
use minijinja::machinery::{Span, parse_expr};

use super::fault::Fault;
use super::limits;

/// The text of an expression, ready for the parser.
pub(super) struct Source<'t> {
    written: &'t str,
    /// The offset of the expression in the surrounding text.
    base: usize,
    given: Cow<'t, str>,
    rewritten: Vec<Rewritten>,
}

/// An id that is passed to the parser in another form.
struct Rewritten {
    written: Range<usize>,
    given: Range<usize>,
}

impl<'t> Source<'t> {
    /// Prepares an expression. `base` is its offset in the surrounding text.
    pub(super) fn new(written: &'t str, base: usize) -> Result<Source<'t>, Fault> {
        let whole = base..base + written.len();
        if written.trim().is_empty() {
            return Err(Fault::new("expression", whole, "an expression is missing here")
                .suggest("input.name"));
        }
        if written.len() > limits::EXPRESSION_BYTES {
            let message = format!("an expression of {} bytes", written.len());
            let fault = Fault::new("limit", whole, message);
            return Err(fault.allow(format!("at most {}", limits::EXPRESSION_BYTES)));
        }
        let ids = scan(written).map_err(|at| {
            let span = base + at..base + written.len();
            Fault::new("expression", span, "this text has no end").suggest("a closing quote")
        })?;
        if ids.nesting > limits::NESTING {
            let fault = Fault::new("limit", whole, "brackets are nested too deeply");
            return Err(fault.allow(format!("at most {} levels", limits::NESTING)));
        }
        if ids.tokens > limits::TOKENS {
            let fault = Fault::new("limit", whole, "too many words and signs in one expression");
            return Err(fault.allow(format!("at most {}", limits::TOKENS)));
        }
        let mut source =
            Source { written, base, given: Cow::Borrowed(written), rewritten: Vec::new() };
        source.rewrite(ids.unusual);
        Ok(source)
    }

    fn rewrite(&mut self, ids: Vec<Range<usize>>) {
        let mut given = String::new();
        let mut done = 0;
        for id in ids {
            // Without the dot before the id.
            given.push_str(&self.written[done..id.start - 1]);
            let start = given.len();
            given.push_str("[\"");
            given.push_str(&self.written[id.clone()]);
            given.push_str("\"]");
            done = id.end;
            self.rewritten.push(Rewritten { written: id, given: start..given.len() });
        }
        if done > 0 {
            given.push_str(&self.written[done..]);
            self.given = Cow::Owned(given);
        }
    }

    pub(super) fn parse(&self) -> Result<Expr<'_>, Fault> {
        parse_expr(&self.given).map_err(|error| {
            let span = error.range().map(|range| self.range(range));
            let span = span.unwrap_or(self.base..self.base + self.written.len());
            let detail = error.detail().unwrap_or("it cannot be read").replace('\n', " ");
            Fault::new("expression", span, format!("not an expression: {detail}"))
        })
    }

    /// The span of a part, in the surrounding text.
    pub(super) fn place(&self, span: Span) -> Range<usize> {
        self.range(span.start_offset as usize..span.end_offset as usize)
    }

    fn range(&self, given: Range<usize>) -> Range<usize> {
        let start = self.at(given.start, |id| id.start);
        let end = self.at(given.end, |id| id.end);
        self.base + start..self.base + end.max(start)
    }

    /// Maps an offset in the parser's text back. Inside a rewritten id, it becomes one of the id's
    /// ends.
    fn at(&self, given: usize, end: impl Fn(&Range<usize>) -> usize) -> usize {
        let before = self.rewritten.iter().rev().find(|id| id.given.start < given);
        let at = match before {
            None => given,
            Some(id) if given < id.given.end => end(&id.written),
            Some(id) => id.written.end + (given - id.given.end),
        };
        at.min(self.written.len())
    }
}

/// The result of a first scan of an expression.
struct Scanned {
    tokens: usize,
    nesting: usize,
    /// Ids after `steps.` that the parser would not accept as names.
    unusual: Vec<Range<usize>>,
}

/// Scans an expression. The error is the offset of an unterminated string.
fn scan(text: &str) -> Result<Scanned, usize> {
    let bytes = text.as_bytes();
    let mut scanned = Scanned { tokens: 0, nesting: 0, unusual: Vec::new() };
    let (mut at, mut open) = (0, 0_usize);
    // Whether a dot comes before: in `input.steps`, `steps` is not the root.
    let mut after_dot = false;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'"' | b'\'' => at = end_of_text(text, at).ok_or(start)? + 1,
            byte if is_word(byte) => {
                at += length(&bytes[at..], is_word);
                let root = &text[start..at] == "steps" && !after_dot;
                if root && bytes.get(at) == Some(&b'.') {
                    let id = at + 1..at + 1 + length(&bytes[at + 1..], |b| is_word(b) || b == b'-');
                    let unusual = text[id.clone()].contains('-')
                        || text[id.clone()].starts_with(|c: char| c.is_ascii_digit());
                    at = id.end;
                    scanned.tokens += 2;
                    if unusual {
                        scanned.unusual.push(id);
                    }
                }
            }
            byte => {
                match byte {
                    b'(' | b'[' | b'{' => open += 1,
                    b')' | b']' | b'}' => open = open.saturating_sub(1),
                    _ => {}
                }
                scanned.nesting = scanned.nesting.max(open);
                at += 1;
            }
        }
        scanned.tokens += 1;
        after_dot = bytes[start] == b'.';
    }
    Ok(scanned)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn length(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| belongs(**byte)).count()
}

/// The offset of the closing quote of a string that begins at `at`.
pub(super) fn end_of_text(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> String {
        Source::new(text, 0).unwrap().given.into_owned()
    }

    #[test]
    fn ids_as_people_write_them() {
        for (written, expected) in [
            ("steps.check.output", "steps.check.output"),
            ("steps.check-result.output - 1", "steps[\"check-result\"].output - 1"),
            ("steps.a-b.output-steps.2nd.output", "steps[\"a-b\"].output-steps[\"2nd\"].output"),
            ("input.a-1", "input.a-1"),
            ("input.steps.a-b", "input.steps.a-b"),
            ("my_steps.a-b", "my_steps.a-b"),
            ("'steps.a-b' ~ steps['a-b'].x", "'steps.a-b' ~ steps['a-b'].x"),
        ] {
            assert_eq!(given(written), expected);
        }
    }

    #[test]
    fn places_are_those_of_the_written_text() {
        let written = "steps.a-b.output + steps.c-d.output ?";
        let fault = Source::new(written, 10).unwrap().parse().unwrap_err();
        assert_eq!(fault.span.start, 10 + written.len() - 1, "{fault:?}");
    }
}
