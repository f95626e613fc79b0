//! The supervisor of commands: this program, started again with another argument.

use runners::Supervisor;

use crate::args::EXEC_SUPERVISOR;
use crate::failure::Failure;

/// How to start supervisors. None is started before the first command.
pub(crate) fn supervisor() -> Result<Supervisor, Failure> {
    Ok(Supervisor::of_this_program(&[EXEC_SUPERVISOR])?)
}
