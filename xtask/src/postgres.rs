//! PostgreSQL for the tests, if it is not there yet.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::steps::{Outcome, run};

const PACKAGE: &str = "postgresql";

/// Installs it where that needs nobody's password; else says what to do.
pub(crate) fn install(_: &Path) -> Outcome {
    if testbed::is_installed() {
        println!("it is installed");
        return Ok(());
    }
    let Some(as_root) = as_root() else {
        return Err(format!(
            "it is not installed, and this user may not do so: `apt-get install {PACKAGE}`, or put \
             its programs on the PATH"
        ));
    };
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> = as_root.iter().chain(&["apt-get"]).copied().collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("-qq").args(arguments);
        run(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    apt(&["install", "--yes", "--no-install-recommends", PACKAGE])
}

/// What to write in front of a command, if somebody may be root without being asked for a password.
fn as_root() -> Option<&'static [&'static str]> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(&[]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
    sudo.is_ok_and(|status| status.success()).then_some(&["sudo", "-n"])
}
