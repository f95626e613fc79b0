//! A node: `punctual serve` in a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::until;
use crate::guard::Guard;
use crate::http::ask;

/// How a node is started, each time.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) binary: PathBuf,
    pub(crate) url: String,
    pub(crate) lease: String,
    /// Whatever else `punctual serve` is told.
    pub(crate) arguments: Vec<String>,
    /// Variables besides those of its store.
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) guard: Arc<Guard>,
}

/// A running node. It is killed when it is dropped, and also if we are killed.
pub(crate) struct Node {
    child: Child,
    guard: Arc<Guard>,
    pub(crate) address: String,
}

impl Node {
    /// Starts it in its folder, and waits until it is ready.
    pub(crate) fn start(setup: &Setup, folder: &Path) -> Result<Node, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let path = folder.join("log");
        let log = File::create(&path).map_err(|error| error.to_string())?;
        let mut command = Command::new(&setup.binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "json", "--allow-exec"]);
        command.args(["--lease", &setup.lease]).args(&setup.arguments);
        command.env("PUNCTUAL_DB", &setup.url).envs(setup.environment.clone());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir(folder);
        let child = setup.guard.start(&mut command)?;
        let mut node = Node { child, guard: setup.guard.clone(), address: String::new() };
        let ready = until("a node is ready", || match node.child.try_wait() {
            Ok(None) => Ok(ready(&path)),
            _ => Err(format!("a node ended: {}", read(&path))),
        });
        node.address = ready.map_err(|why| format!("{why}\n{}", read(&path)))?;
        Ok(node)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("a process without an id")?;
        kill_process(pid, signal).map_err(|error| error.to_string())
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> Result<(), String> {
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }

    /// A counter of `/metrics`; nothing if the node does not answer.
    pub(crate) fn counter(&self, name: &str) -> Option<u64> {
        let (_, text) = ask(&self.address, "GET", "/metrics", "").ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may be gone already.
        let _ = self.child.kill();
        let _ = self.guard.forget(&self.child);
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Where it listens, once it says so.
fn ready(log: &Path) -> Option<String> {
    let text = read(log);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ready = lines.filter(|line| line["message"] == "ready");
    Some(ready.next()?["url"].as_str()?.trim_start_matches("http://").to_owned())
}
