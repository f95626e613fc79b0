//! The file of the running program, for child processes that run the same program in another role.

use std::io;
use std::path::PathBuf;

/// The path that starts this very program again, even after an upgrade replaced its file with a
/// version that may use another protocol.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    const OURSELVES: &str = "/proc/self/exe";
    match std::fs::exists(OURSELVES) {
        Ok(true) => Ok(PathBuf::from(OURSELVES)),
        _ => std::env::current_exe(),
    }
}
