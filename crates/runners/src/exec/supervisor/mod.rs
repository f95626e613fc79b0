//! The supervisor is a process between a node and a command. The operating system makes it the
//! parent of every orphan among the processes that the command has started, whatever their session,
//! user or environment. When the command ends, the supervisor therefore finds all of these
//! processes, and no others. If its node ends, it kills the command too.
//!
//! Without supervisors, the orphans of all commands would become children of one process, which
//! could not tell them apart.

mod descendants;
mod handle;
mod process;
mod wire;

use std::io;
use std::path::PathBuf;

pub(super) use handle::Supervised;
pub use process::supervise;

use crate::own_program::own_program;

/// How to start supervisors of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    pub program: PathBuf,
    pub args: Vec<String>,
}

impl Supervisor {
    /// Supervisors run the program of the current process, even after another version has replaced
    /// its file.
    pub fn of_this_program(args: &[&str]) -> io::Result<Supervisor> {
        Ok(Supervisor::new(own_program()?, args))
    }

    /// Supervisors run this program with these arguments.
    pub fn new(program: impl Into<PathBuf>, args: &[&str]) -> Supervisor {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Supervisor { program: program.into(), args }
    }
}
