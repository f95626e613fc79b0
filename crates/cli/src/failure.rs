//! Why a command failed, and its exit code.

use std::fmt;
use std::io;

use calendar::{Mistake, Problem};
use server::Secrets;

/// Exit code for mistakes in the input. Exit codes are documented in `punctual --help`.
pub(crate) const EXIT_MISTAKE: u8 = 1;
/// Exit code for failures of the environment, such as a file or a pipe.
pub(crate) const EXIT_ENVIRONMENT: u8 = 3;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong. The text lists every mistake, ready to be printed.
    Mistake(String),
    /// A node refused the input and named the positions of the mistakes.
    Invalid {
        /// The mistakes, ready to be printed.
        said: String,
        /// The node's response, for callers that have the text and can show the positions in it.
        body: String,
    },
    /// Something other than the input failed, such as a file or the network.
    Environment(String),
    /// The reader of the output has closed the pipe. This is not reported as a failure.
    PipeClosed,
}

impl Failure {
    /// Masks the secrets in the texts.
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

    /// The exit code of the process.
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
