//! What stands between this process and the commands it runs: this very program, started again.

use runners::Supervisor;

use crate::args::EXEC_SUPERVISOR;
use crate::failure::Failure;

/// How supervisors are started. None is before there is a command.
pub(crate) fn supervisor() -> Result<Supervisor, Failure> {
    Ok(Supervisor::of_this_program(&[EXEC_SUPERVISOR])?)
}
