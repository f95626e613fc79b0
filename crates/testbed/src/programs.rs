//! Finds the programs of PostgreSQL, and the user to run them as.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Trouble;

/// Debian keeps each major version in its own folder, which is not on the PATH.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The users to switch to from root; the first that exists is used.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// The programs of the server, which must have its version.
const SERVER: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The folder of the programs, and the user who runs them.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    /// The folder of the server's own programs, if it is another one.
    server: Option<PathBuf>,
    /// The user and group to switch to from root, because PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

/// Whether a cluster can be started.
pub fn is_installed() -> bool {
    folder().is_some()
}

impl Programs {
    /// Finds the programs. `owned` is a folder of this process, whose owner tells which user it
    /// runs as.
    pub(crate) fn find(owned: &Path) -> Result<Programs, Trouble> {
        let folder = folder().ok_or(Trouble::Missing)?;
        let us = fs::metadata(owned).map_err(|why| Trouble::new("a temporary folder", why))?;
        let user = match us.uid() {
            0 => Some(ordinary_user().ok_or_else(|| {
                Trouble::new("PostgreSQL refuses to be run by root", "add a user `postgres`")
            })?),
            _ => None,
        };
        Ok(Programs { folder, server: None, user })
    }

    /// Uses the server's own programs from another folder.
    pub(crate) fn with_server(self, server: Option<PathBuf>) -> Programs {
        Programs { server, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let own = self.server.as_ref().filter(|_| SERVER.contains(&name));
        own.unwrap_or(&self.folder).join(name)
    }

    /// Gives a file or folder of this process to the user.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        match self.user {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    /// A command that runs as the user, in one of their folders.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        // The tests must not depend on the PostgreSQL settings in the environment.
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"));
        for (name, _) in ours {
            command.env_remove(name);
        }
        command.current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs one of the programs to its end. Returns its output.
    pub(crate) fn run<I, A>(
        &self,
        name: &str,
        folder: &Path,
        arguments: I,
    ) -> Result<String, Trouble>
    where
        I: IntoIterator<Item = A>,
        A: AsRef<OsStr>,
    {
        let mut command = self.command(self.path(name), folder);
        let output = command.args(arguments).output().map_err(|why| Trouble::new(name, why))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() {
            Ok(said(&output.stdout))
        } else {
            Err(Trouble::new(
                format!("{name} failed ({})", output.status),
                [said(&output.stdout), said(&output.stderr)].join("\n").trim(),
            ))
        }
    }
}

/// The folder of the programs: on the PATH, the newest of several versions, or where pg_config
/// points.
fn folder() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    on_path.into_iter().chain(versions()).chain(configured()).find(|folder| is_complete(folder))
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|name| folder.join(name).is_file())
}

fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let version = |name: &OsStr| name.to_str().and_then(|name| name.parse::<u32>().ok());
    let mut versions: Vec<u32> = entries.filter_map(|entry| version(&entry.file_name())).collect();
    versions.sort_unstable();
    versions
        .iter()
        .rev()
        .map(|version| Path::new(VERSIONS).join(version.to_string()).join("bin"))
        .collect()
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

fn ordinary_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    USERS.iter().find_map(|name| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}
