//! What the tests need besides Rust, if it is not there yet: PostgreSQL with a pooler, and a
//! browser with its driver.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::steps::{Outcome, run};

/// Installs what is missing where that needs nobody's password; else says what to do.
pub(crate) fn install(_: &Path) -> Outcome {
    let missing: Vec<&str> = [
        ("postgresql", testbed::is_installed()),
        ("pgbouncer", testbed::is_pooler_installed()),
        ("chromium", starts("chromium")),
        ("chromium-driver", starts("chromedriver")),
    ]
    .into_iter()
    .filter_map(|(package, is_there)| (!is_there).then_some(package))
    .collect();
    if missing.is_empty() {
        println!("all of it is installed");
        return Ok(());
    }
    let packages = missing.join(" ");
    let Some(as_root) = as_root() else {
        return Err(format!(
            "{packages} not installed, and this user may not do so: `apt-get install {packages}`, \
             or put the programs on the PATH"
        ));
    };
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> = as_root.iter().chain(&["apt-get"]).copied().collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("-qq").args(arguments);
        run(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], &*missing].concat())
}

fn starts(program: &str) -> bool {
    let mut asked = Command::new(program);
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
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
