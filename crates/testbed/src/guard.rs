//! Whoever cleans up, also after a program that had no time to: a shell that waits for the end of a pipe,
//! which the program's death closes.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::Trouble;
use crate::programs::Programs;

/// A server that was just being started has no pid file yet; it ends by itself, because its folder is gone.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
"$0" stop --silent --mode=immediate --pgdata="$1/data"
rm -rf "$1"
"#;

/// Stops the server in a folder and removes the folder, when it is dropped or when this process is gone.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn watch(programs: &Programs, folder: &Path) -> Result<Guard, Trouble> {
        let mut shell = programs.command("sh", folder);
        shell.args(["-c", SCRIPT]).arg(programs.path("pg_ctl")).arg(folder);
        shell.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: whoever interrupts the tests in a terminal does not interrupt this.
        let child = shell.process_group(0).spawn();
        child.map(Guard).map_err(|why| Trouble::new("the shell that cleans up", why))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // There is nobody to tell, and the folder is a temporary one.
        let _ = self.0.wait();
    }
}
