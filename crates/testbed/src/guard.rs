//! Cleans up even after a process that was killed: a shell waits for the end of a pipe, which is
//! closed when the process ends.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::Trouble;
use crate::programs::Programs;

/// A server that is just being started has no pid file yet. It ends by itself, because its folder
/// is gone.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
"$0" stop --silent --mode=immediate --pgdata="$1/data"
rm -rf "$1"
"#;

/// Stops the server in a folder and removes the folder, when it is dropped or when this process
/// ends.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn watch(programs: &Programs, folder: &Path) -> Result<Guard, Trouble> {
        let mut shell = programs.command("sh", folder);
        shell.args(["-c", SCRIPT]).arg(programs.path("pg_ctl")).arg(folder);
        shell.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // The shell has its own process group, so that Ctrl-C during the tests does not interrupt
        // it.
        let child = shell.process_group(0).spawn();
        child.map(Guard).map_err(|why| Trouble::new("the shell that cleans up", why))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // An error cannot be reported while dropping, and the folder is a temporary one.
        let _ = self.0.wait();
    }
}
