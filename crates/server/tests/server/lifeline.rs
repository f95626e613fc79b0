//! Whether processes live, told by the pipe they hold.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// A pipe that a command takes hold of, and that the end of all it started closes.
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

    /// A shell script that takes hold, says so, and goes on until it is killed, with a child.
    pub(crate) fn endless_script(&self) -> String {
        format!("exec 3>{}; echo held >&3; sleep 1000 & wait", self.path.display())
    }

    /// Returns when somebody holds it.
    pub(crate) async fn held(&mut self) {
        let mut said = [0; 5];
        loop {
            // Nobody has opened the other end yet: an end of file that means nothing.
            self.receiver.readable().await.unwrap();
            match self.receiver.try_read(&mut said) {
                Ok(0) => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns when nobody holds it any more.
    pub(crate) async fn released(mut self) {
        let mut rest = Vec::new();
        self.receiver.read_to_end(&mut rest).await.unwrap();
    }
}
