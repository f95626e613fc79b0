//! What is wrong with an expression: before it is used, and when it is.

use std::fmt;
use std::ops::Range;

/// What is wrong with a condition or template, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable word for programs: `expression`, `name`, `filter`, …
    pub code: &'static str,
    /// The part of the text that is wrong, in bytes.
    pub span: Range<usize>,
    /// What is wrong, in one line. It never holds a value: that could be a secret.
    pub message: String,
    /// What may stand there.
    pub allowed: Option<String>,
    /// What to write instead.
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

    /// The same for whoever does not see the text.
    pub(super) fn of(self, text: &str) -> ExpressionError {
        let part = text.get(whole(text, self.span.clone())).unwrap_or(text);
        ExpressionError {
            code: self.code,
            message: self.message,
            expression: crate::definition::cut(part.trim()),
        }
    }
}

/// A place that begins with `.name` or `[name]`, with what that is a part of.
fn whole(text: &str, span: Range<usize>) -> Range<usize> {
    let is_part = text.get(span.clone()).is_some_and(|part| part.starts_with(['.', '[']));
    let Some(before) = text.get(..span.start).filter(|_| is_part) else { return span };
    let belongs = |c: char| c.is_alphanumeric() || "_-.[]\"'".contains(c);
    before.trim_end_matches(belongs).len()..span.end
}

/// Why an expression gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// A stable word for programs: `undefined`, `type`, `limit`, …
    pub code: &'static str,
    /// What is wrong, in one line. It never holds a value: that could be a secret.
    pub message: String,
    /// The part of the text that is wrong, cut if it is long.
    pub expression: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.expression, self.message)
    }
}

impl std::error::Error for ExpressionError {}
