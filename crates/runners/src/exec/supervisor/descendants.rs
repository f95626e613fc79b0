//! Everything that this process's children have started, found by who is whose parent.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::super::stat::Stat;

/// What became of an attempt to kill all descendants of this process.
#[derive(Default)]
pub(super) struct Killed {
    pub(super) killed: usize,
    /// Those that run as another user, whom this one may not signal.
    pub(super) refused: usize,
}

/// Kills every process below this one that has not ended yet. Those that were started meanwhile are left: their
/// parents are gone, so they are found as children of this process the next time.
pub(super) fn kill_all() -> Killed {
    let mut all = Killed::default();
    for process in running_below(rustix::process::getpid()) {
        match kill_process(process, Signal::KILL) {
            Ok(()) => all.killed += 1,
            Err(rustix::io::Errno::PERM) => all.refused += 1,
            // It has ended since.
            Err(_) => {}
        }
    }
    all
}

/// Descendants that are no zombies.
fn running_below(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in all_processes() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut running = Vec::new();
    let mut parents = vec![ancestor.as_raw_pid()];
    // Bounded by the number of processes: each list of children is taken out once.
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
