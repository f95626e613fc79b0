//! Faults of an expression, found when it is checked and when it is evaluated.

use std::fmt;
use std::ops::Range;

/// What is wrong with a condition or template, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable code for programs: `expression`, `name`, `filter`, …
    pub code: &'static str,
    /// The wrong part of the text, in bytes.
    pub span: Range<usize>,
    /// What is wrong, in one line. It never contains a value, which could be a secret.
    pub message: String,
    /// The values or forms that are allowed in this position.
    pub allowed: Option<String>,
    /// The text that the author should write instead.
    pub remedy: Option<String>,
}

impl Fault {
    pub(super) fn new(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { code, span, message: message.into(), allowed: None, remedy: None }
    }

    #[must_use]
    pub(super) fn allow(mut self, allowed: impl Into<String>) -> Fault {
        self.allowed = Some(allowed.into());
        self
    }

    #[must_use]
    pub(super) fn suggest(mut self, remedy: impl Into<String>) -> Fault {
        self.remedy = Some(remedy.into());
        self
    }

    #[must_use]
    pub(super) fn did_you_mean<'a>(
        self,
        written: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Fault {
        match calendar::nearest(written, known).first() {
            Some(close) => self.suggest(*close),
            None => self,
        }
    }

    /// The error for readers who do not see the text: it quotes the wrong part.
    pub(super) fn of(self, text: &str) -> ExpressionError {
        let part = text.get(whole(text, self.span.clone())).unwrap_or(text);
        ExpressionError {
            code: self.code,
            message: self.message,
            expression: crate::definition::cut(part.trim()),
        }
    }
}

/// Extends a span that begins with `.name` or `[name]` to the expression before it.
fn whole(text: &str, span: Range<usize>) -> Range<usize> {
    let is_part = text.get(span.clone()).is_some_and(|part| part.starts_with(['.', '[']));
    let Some(before) = text.get(..span.start).filter(|_| is_part) else { return span };
    let belongs = |c: char| c.is_alphanumeric() || "_-.[]\"'".contains(c);
    before.trim_end_matches(belongs).len()..span.end
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// A stable code for programs: `undefined`, `type`, `limit`, …
    pub code: &'static str,
    /// What is wrong, in one line. It never contains a value, which could be a secret.
    pub message: String,
    /// The wrong part of the text, cut if it is long.
    pub expression: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.expression, self.message)
    }
}

impl std::error::Error for ExpressionError {}
