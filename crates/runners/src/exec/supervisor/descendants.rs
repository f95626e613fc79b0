//! Finds and kills all descendants of this process, by the parent ids in `/proc`.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::super::stat::Stat;

/// The result of an attempt to kill all descendants of this process.
#[derive(Default)]
pub(super) struct Killed {
    pub(super) killed: usize,
    /// Processes of other users, which this process may not signal.
    pub(super) refused: usize,
}

/// Kills every running descendant of this process. Processes that were started meanwhile are
/// missed; once their parents are gone, they become children of this process, and the next call
/// finds them.
pub(super) fn kill_all() -> Killed {
    let mut all = Killed::default();
    for process in running_below(rustix::process::getpid()) {
        match kill_process(process, Signal::KILL) {
            Ok(()) => all.killed += 1,
            Err(rustix::io::Errno::PERM) => all.refused += 1,
            // The process has already ended.
            Err(_) => {}
        }
    }
    all
}

/// Descendants that are not zombies.
fn running_below(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in all_processes() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut running = Vec::new();
    let mut parents = vec![ancestor.as_raw_pid()];
    // The loop is bounded by the number of processes: each list of children is removed when it is
    // visited.
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.id.as_raw_pid());
            if !child.has_ended() {
                running.push(child.id);
            }
        }
    }
    running
}

fn all_processes() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        Stat::of(Pid::from_raw(id)?)
    })
}
