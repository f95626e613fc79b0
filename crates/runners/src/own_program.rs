//! The file of this very program, for children that are this program in another role.

use std::io;
use std::path::PathBuf;

/// Where this program can be started again, also after its file has been replaced by another version,
/// which might speak otherwise.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    const OURSELVES: &str = "/proc/self/exe";
    match std::fs::exists(OURSELVES) {
        Ok(true) => Ok(PathBuf::from(OURSELVES)),
        _ => std::env::current_exe(),
    }
}
