//! Processes that have left the group of their command, with `setsid` say: they end with it all the same. They are known by
//! a mark in the environment that they began with, which every process hands on to what it starts.
//!
//! Supervisors find such processes without it (docs/decisions/0058). The mark is for commands without a supervisor,
//! for those whose supervisor was killed, and for what both a node and its supervisors left when they were killed: there,
//! whoever starts a process without the mark keeps it.

use std::fs;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::orphans::Process;

/// The variable that has the mark.
pub(super) const VARIABLE: &str = "PUNCTUAL_EXEC";
/// Looks for processes that were started while the ones before were ended.
const ROUNDS: usize = 50;
/// What is read of an environment at most: the mark may stand behind what the definition gives.
const MOST_BYTES: u64 = 4 << 20;

/// What the processes of one command have in common: the node's process, and a number of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark(String);

impl Mark {
    /// Another one for each command. Without `/proc` there is none, and nothing could be found by it.
    pub(super) fn new() -> Option<Mark> {
        static COMMANDS: AtomicU64 = AtomicU64::new(0);
        let node = Process::of(rustix::process::getpid())?;
        let number = COMMANDS.fetch_add(1, Ordering::Relaxed);
        Some(Mark(format!("{}{number}", prefix(&node))))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Kills every process that has the mark, until there is none. How many there were.
    pub(super) fn end_all(&self) -> usize {
        end(|mark| mark == self.0)
    }
}

/// Kills what commands of a node have left that is gone.
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

/// Processes that run and have such a mark. Those that have ended have no environment any more.
fn marked(is_meant: &impl Fn(&str) -> bool) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(id)
    });
    ids.filter(|id| mark_of(*id).is_some_and(|mark| is_meant(&mark))).collect()
}

/// Processes of others cannot be read, and are not ours.
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
