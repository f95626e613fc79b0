//! Why a command did not do what it was asked, and the exit code for it.

use std::fmt;
use std::io;

use calendar::{Mistake, Problem};
use server::Secrets;

/// Exit codes, as documented in `punctual --help`.
pub(crate) const EXIT_MISTAKE: u8 = 1;
/// Something around the command failed: a file, a pipe.
pub(crate) const EXIT_ENVIRONMENT: u8 = 3;

/// What a command ends with if it does not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was given is wrong: everything that is, ready to be read.
    Mistake(String),
    /// A node refused what was sent to it, with the places: its answer, for those who know the text.
    Invalid {
        /// Ready to be read.
        said: String,
        /// The answer as it came.
        body: String,
    },
    /// Something around the command failed.
    Environment(String),
    /// Nobody reads the output any more: no reason to complain.
    PipeClosed,
}

impl Failure {
    /// The same without secrets.
    pub(crate) fn masked(self, secrets: &Secrets) -> Failure {
        let mask = |text: String| secrets.mask(&text).into_owned();
        match self {
            Failure::Mistake(text) => Failure::Mistake(mask(text)),
            Failure::Environment(text) => Failure::Environment(mask(text)),
            Failure::Invalid { said, body } => {
                Failure::Invalid { said: mask(said), body: mask(body) }
            }
            Failure::PipeClosed => Failure::PipeClosed,
        }
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Mistake(_) | Failure::Invalid { .. } => EXIT_MISTAKE,
            Failure::Environment(_) => EXIT_ENVIRONMENT,
            Failure::PipeClosed => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mistake(text)
            | Failure::Environment(text)
            | Failure::Invalid { said: text, .. } => f.write_str(text),
            Failure::PipeClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Mistake(problem.to_string())
    }
}

impl From<Vec<Mistake>> for Failure {
    fn from(mistakes: Vec<Mistake>) -> Failure {
        let all: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
        Failure::Mistake(all.join("\n\n"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::Environment(error.to_string()),
        }
    }
}
