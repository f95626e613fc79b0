//! Observes whether processes are running through the pipes that they hold open.

use std::fmt;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// A named pipe.
pub(crate) struct Fifo {
    path: PathBuf,
    /// Both ends are kept open, so that opening and reading do not depend on which side opens the
    /// pipe first.
    keeper: (pipe::Sender, pipe::Receiver),
    _dir: TempDir,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        // The command may run as another user, which must be able to open the pipe.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
        let sender = pipe::OpenOptions::new().open_sender(&path).unwrap();
        Fifo { path, keeper: (sender, receiver), _dir: dir }
    }

    /// Writes a line, which unblocks the process that reads it.
    pub(crate) async fn write(&mut self) {
        self.keeper.0.write_all(b"\n").await.unwrap();
    }
}

impl fmt::Display for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// A pipe that a command keeps open. It is closed when the command and everything it started have
/// ended.
pub(crate) struct Lifeline {
    fifo: Fifo,
}

/// A pipe that some process holds open.
pub(crate) struct Held {
    receiver: pipe::Receiver,
}

impl Lifeline {
    pub(crate) fn new() -> Lifeline {
        Lifeline { fifo: Fifo::new() }
    }

    /// A piece of shell script that opens the pipe and writes to it.
    pub(crate) fn hold(&self) -> String {
        hold(&self.fifo.path)
    }

    /// Returns when the script has opened the pipe.
    pub(crate) async fn held(mut self) -> Held {
        self.fifo.keeper.1.read_exact(&mut [0]).await.unwrap();
        let receiver = pipe::OpenOptions::new().open_receiver(&self.fifo.path).unwrap();
        Held { receiver }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.fifo.path
    }
}

pub(crate) fn hold(fifo: &Path) -> String {
    format!("exec 3>{}; echo >&3", fifo.display())
}

impl Held {
    /// Returns when every process that held the pipe has ended.
    pub(crate) async fn let_go(mut self) {
        assert_eq!(self.receiver.read(&mut [0]).await.unwrap(), 0);
    }
}
