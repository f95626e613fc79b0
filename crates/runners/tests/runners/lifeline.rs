//! Whether processes live, told by the pipes they hold.

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
    /// Open at both ends, so that neither opening nor reading depends on who came first.
    keeper: (pipe::Sender, pipe::Receiver),
    _dir: TempDir,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        // Whoever the command becomes may take hold.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
        let sender = pipe::OpenOptions::new().open_sender(&path).unwrap();
        Fifo { path, keeper: (sender, receiver), _dir: dir }
    }

    /// Lets go on whoever reads a line.
    pub(crate) async fn write(&mut self) {
        self.keeper.0.write_all(b"\n").await.unwrap();
    }
}

impl fmt::Display for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// A pipe that a command takes hold of and that its end, and that of all it started, closes.
pub(crate) struct Lifeline {
    fifo: Fifo,
}

/// A pipe that somebody holds.
pub(crate) struct Held {
    receiver: pipe::Receiver,
}

impl Lifeline {
    pub(crate) fn new() -> Lifeline {
        Lifeline { fifo: Fifo::new() }
    }

    /// The piece of a shell script that takes hold and says so.
    pub(crate) fn hold(&self) -> String {
        hold(&self.fifo.path)
    }

    /// Returns when the script has taken hold.
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
    /// Returns when every process that held on is gone.
    pub(crate) async fn let_go(mut self) {
        assert_eq!(self.receiver.read(&mut [0]).await.unwrap(), 0);
    }
}
