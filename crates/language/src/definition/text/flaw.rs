//! Flaws: what is wrong with a definition, and where.

use std::fmt;
use std::ops::Range;

use calendar::Problem;

/// A mistake in a definition: its position, what is wrong, what is allowed there, what to write.
///
/// Its [`Display`](fmt::Display) form is that of a [`calendar::Problem`]: the message, the line, a
/// caret, what is allowed, what to try. The caller, who knows the file's name, prints the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The path of the field, such as `steps[2].retry.delay`; empty for the text as a whole.
    pub path: String,
    /// A stable code for programs: `unknown-key`, `missing`, `cycle`, …
    pub code: &'static str,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// The line, counted from 1; 0 if the text is not available.
    pub line: u32,
    /// The character in the line, counted from 1; 0 if the text is not available.
    pub column: u32,
    /// The values or forms that are allowed in this position.
    pub allowed: Option<String>,
    /// The text that the author should write instead.
    pub remedy: Option<String>,
    /// The line, cut around the mistake if it is long, and the byte range of the wrong part. If the
    /// line of a script is not known for certain, the value itself.
    pub excerpt: Option<(String, Range<usize>)>,
}

impl Flaw {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Flaw {
        Flaw {
            path: String::new(),
            code,
            message: message.into(),
            line: 0,
            column: 0,
            allowed: None,
            remedy: None,
            excerpt: None,
        }
    }

    #[must_use]
    pub(crate) fn allow(mut self, allowed: impl Into<String>) -> Flaw {
        self.allowed = Some(allowed.into());
        self
    }

    #[must_use]
    pub(crate) fn suggest(mut self, remedy: impl Into<String>) -> Flaw {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the known word that is nearest to the written one, if there is one.
    #[must_use]
    pub(crate) fn did_you_mean<'a>(
        self,
        written: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Flaw {
        match calendar::nearest(written, known).first() {
            Some(close) => self.suggest(*close),
            None => self,
        }
    }
}

impl From<Problem> for Flaw {
    /// Drops the problem's own text: the definition's line is shown instead.
    fn from(problem: Problem) -> Flaw {
        Flaw {
            allowed: problem.allowed.map(String::from),
            remedy: problem.remedy.map(String::from),
            ..Flaw::new(problem.code, problem.message)
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, span) = self.excerpt.clone().unwrap_or_default();
        let problem = Problem {
            code: self.code,
            text: text.into(),
            span,
            message: self.message.clone(),
            allowed: self.allowed.as_deref().map(Box::from),
            remedy: self.remedy.as_deref().map(Box::from),
        };
        problem.fmt(f)
    }
}

impl std::error::Error for Flaw {}
