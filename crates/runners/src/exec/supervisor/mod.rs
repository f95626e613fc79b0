//! The process between a node and a command. The system gives it the orphans among what the command has started,
//! whatever their session, user or environment, so that it finds all of them when the command has ended, and
//! nothing else. If its node is gone, it ends the command too.
//!
//! Without supervisors, orphans of all commands would come to one process, and nothing would tell whose they are.

mod descendants;
mod handle;
mod process;
mod wire;

use std::io;
use std::path::PathBuf;

pub(super) use handle::Supervised;
pub use process::supervise;

use crate::own_program::own_program;

/// How supervisors of commands are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    /// A program that calls [`supervise`].
    pub program: PathBuf,
    /// What it is started with.
    pub args: Vec<String>,
}

impl Supervisor {
    /// Supervisors are this very program, also after its file has been replaced by another version.
    pub fn of_this_program(args: &[&str]) -> io::Result<Supervisor> {
        Ok(Supervisor::new(own_program()?, args))
    }

    /// Supervisors are this program with these arguments.
    pub fn new(program: impl Into<PathBuf>, args: &[&str]) -> Supervisor {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Supervisor { program: program.into(), args }
    }
}
