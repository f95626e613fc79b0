//! Finds processes that have left the process group of their command, for example with `setsid`, so
//! that they end with the command all the same. They are recognized by a mark in their initial
//! environment, which every process passes on to the processes it starts.
//!
//! Supervisors find such processes without the mark (docs/decisions/0058). The mark is for commands
//! without a supervisor, for commands whose supervisor was killed, and for processes that remain
//! after a node and its supervisors were killed. In these cases a process that was started without
//! the mark is not found and keeps running.

use std::fs;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::orphans::Process;

/// The environment variable that holds the mark.
pub(super) const VARIABLE: &str = "PUNCTUAL_EXEC";
/// The most searches. A further search finds processes that were started while the previous ones
/// were killed.
const ROUNDS: usize = 50;
/// The most that is read of an environment. It is large because the mark may follow the variables
/// of the definition.
const MOST_BYTES: u64 = 4 << 20;

/// The mark that all processes of one command share: the node's process id and start time, and a
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark(String);

impl Mark {
    /// A new mark for each command, or `None` without `/proc`, where marked processes could not be
    /// found.
    pub(super) fn new() -> Option<Mark> {
        static COMMANDS: AtomicU64 = AtomicU64::new(0);
        let node = Process::of(rustix::process::getpid())?;
        let number = COMMANDS.fetch_add(1, Ordering::Relaxed);
        Some(Mark(format!("{}{number}", prefix(&node))))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Kills every process that has this mark until none is left. Returns how many processes were
    /// killed.
    pub(super) fn end_all(&self) -> usize {
        end(|mark| mark == self.0)
    }
}

/// Kills the processes that the commands of a node left behind. The node itself has ended.
pub(super) fn end_all_of(node: &Process) -> usize {
    let prefix = prefix(node);
    end(|mark| mark.starts_with(&prefix))
}

fn prefix(node: &Process) -> String {
    format!("{}-{}-", node.id.as_raw_pid(), node.started)
}

fn end(is_meant: impl Fn(&str) -> bool) -> usize {
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let marked = marked(&is_meant);
        if marked.is_empty() {
            return ended;
        }
        for process in &marked {
            if kill_process(*process, Signal::KILL).is_ok() {
                ended += 1;
            }
        }
    }
    tracing::warn!("a command starts processes faster than they can be ended");
    ended
}

/// The running processes whose mark is meant. Processes that have ended no longer have an
/// environment.
fn marked(is_meant: &impl Fn(&str) -> bool) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(id)
    });
    ids.filter(|id| mark_of(*id).is_some_and(|mark| is_meant(&mark))).collect()
}

/// The mark of a process. The environment of another user's process cannot be read; such a process
/// is not ours.
fn mark_of(id: Pid) -> Option<String> {
    let file = fs::File::open(format!("/proc/{}/environ", id.as_raw_pid())).ok()?;
    let mut environment = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut environment).ok()?;
    let assigned = format!("{VARIABLE}=");
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(assigned.as_bytes()))?;
    String::from_utf8(mark.to_vec()).ok()
}
