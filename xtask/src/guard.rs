//! What was started does not outlive us, however we end: a shell waits for the end of a pipe, which
//! our death closes, and cleans up.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines say which groups there are. At the end of them those that are left are killed, and then
/// nobody writes to the folder any more.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r word group; do
  case "$word" in
    watch) groups="$groups$group " ;;
    forget) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
rm -rf -- "$0"
"#;

/// Kills the groups it watches and removes its folder, when it is dropped or when this process is
/// gone.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    folder: PathBuf,
}

impl Guard {
    pub(crate) fn new() -> Result<Guard, String> {
        let folder = tempfile::Builder::new().prefix("punctual-xtask-").tempdir();
        let folder = folder.map_err(|why| format!("a temporary folder: {why}"))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).arg(folder.path()).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: whoever interrupts us in a terminal does not interrupt this.
        let shell = shell.process_group(0).spawn();
        let shell = shell.map_err(|why| format!("the shell that cleans up: {why}"))?;
        Ok(Guard { shell, folder: folder.keep() })
    }

    /// A temporary folder, for whatever is started.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a command in a group of its own, which ends with us.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Child, String> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn();
        let mut child = child.map_err(|why| format!("`{shown}` does not start: {why}"))?;
        if let Err(why) = self.tell("watch", &child) {
            // Nobody has seen it yet, and nobody will.
            let _ = child.kill();
            let _ = child.wait();
            return Err(why);
        }
        Ok(child)
    }

    /// The child has ended, and the system may give its number to another process.
    pub(crate) fn forget(&self, child: &Child) -> Result<(), String> {
        self.tell("forget", child)
    }

    fn tell(&self, word: &str, child: &Child) -> Result<(), String> {
        let mut pipe = self.shell.stdin.as_ref().ok_or("the shell that cleans up has no pipe")?;
        let told = pipe.write_all(format!("{word} {}\n", child.id()).as_bytes());
        told.map_err(|why| format!("the shell that cleans up: {why}"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // There is nobody to tell, and the folder is a temporary one.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::Guard;

    fn sleep(guard: &Guard, seconds: &str) -> std::process::Child {
        guard.start(Command::new("sleep").arg(seconds)).expect("it starts")
    }

    #[test]
    fn what_is_watched_ends_with_it() {
        let guard = Guard::new().expect("a shell");
        let folder = guard.folder().to_owned();
        std::fs::write(folder.join("file"), "text").expect("it is written");
        let mut children = [sleep(&guard, "1000"), sleep(&guard, "1000"), sleep(&guard, "1000")];
        drop(guard);
        for child in &mut children {
            assert_eq!(child.wait().expect("a child").signal(), Some(9));
        }
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_forgotten_is_left_alone() {
        let guard = Guard::new().expect("a shell");
        let mut forgotten = sleep(&guard, "0.5");
        let mut watched = sleep(&guard, "1000");
        guard.forget(&forgotten).expect("the shell is there");
        drop(guard);
        assert_eq!(watched.wait().expect("a child").signal(), Some(9));
        assert!(forgotten.wait().expect("a child").success());
    }
}
