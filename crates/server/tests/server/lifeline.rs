//! Detects whether processes live, by the pipe they hold open.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// A pipe that a command opens. It closes when the command and everything it started has ended.
pub(crate) struct Lifeline {
    path: PathBuf,
    receiver: pipe::Receiver,
    _folder: TempDir,
}

impl Lifeline {
    pub(crate) fn new() -> Lifeline {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().open_receiver(&path).unwrap();
        Lifeline { path, receiver, _folder: folder }
    }

    /// A shell script that opens the pipe, writes to it, and goes on with a child until it is
    /// killed.
    pub(crate) fn endless_script(&self) -> String {
        format!("exec 3>{}; echo held >&3; sleep 1000 & wait", self.path.display())
    }

    /// Returns when a process has the pipe open.
    pub(crate) async fn held(&mut self) {
        let mut said = [0; 5];
        loop {
            // Until a process opens the other end, reading gives a meaningless end of file.
            self.receiver.readable().await.unwrap();
            match self.receiver.try_read(&mut said) {
                Ok(0) => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns when no process has the pipe open any more.
    pub(crate) async fn released(mut self) {
        let mut rest = Vec::new();
        self.receiver.read_to_end(&mut rest).await.unwrap();
    }
}
