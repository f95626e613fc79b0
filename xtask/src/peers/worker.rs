//! A running program of a peer: its processes, its memory, and the log that its jobs write.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::guard::Guard;
use crate::steps::{now, wall_millis};

/// How often it is seen whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long a program may take to end by itself.
const GOODBYE: Duration = Duration::from_secs(10);

/// One execution of a job, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    pub(super) id: u64,
    pub(super) due: f64,
    pub(super) start: f64,
}

/// What the jobs have written so far. A line that is being written is left out.
pub(super) fn executions(log: &Path) -> Vec<Execution> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(execution).collect()
}

fn execution(line: &str) -> Option<Execution> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let (due, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Execution { id, due, start })
}

pub(super) struct Worker<'a> {
    child: Child,
    guard: &'a Guard,
    /// The wall clock just before the start.
    pub(super) begun: i64,
}

impl<'a> Worker<'a> {
    /// Starts it. What it prints goes to `printed`.
    pub(super) fn start(
        guard: &'a Guard,
        command: &mut Command,
        printed: &Path,
    ) -> Result<Worker<'a>, String> {
        let told = |why: std::io::Error| format!("{}: {why}", printed.display());
        let file = File::create(printed).map_err(told)?;
        let errors = file.try_clone().map_err(told)?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let begun = wall_millis();
        let child = guard.start(command)?;
        Ok(Worker { child, guard, begun })
    }

    /// Looks every now and then until there is an answer, as long as the program runs; nothing
    /// when the time is over.
    pub(super) fn until<T>(
        &mut self,
        every: Duration,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, String> {
        let begin = now();
        loop {
            if let Some(found) = look() {
                return Ok(Some(found));
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the program ended: {status}"));
            }
            if begin.elapsed() > limit {
                return Ok(None);
            }
            std::thread::sleep(every);
        }
    }

    /// Waits until it has ended by itself, and has not failed.
    pub(super) fn ended(mut self, limit: Duration) -> Result<(), String> {
        let begin = now();
        while begin.elapsed() < limit {
            match self.child.try_wait().map_err(|why| why.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the program failed: {status}")),
                None => std::thread::sleep(LOOK),
            }
        }
        Err(format!("the program had not ended after {} s", limit.as_secs()))
    }

    /// The resident memory of all its processes, in bytes.
    pub(super) fn resident(&self) -> u64 {
        self.tree().iter().map(|pid| resident(*pid)).sum()
    }

    /// Lets it end by itself, within limits.
    pub(super) fn stop(mut self) {
        // It may be gone already.
        let _ = signal(self.child.id(), Signal::TERM);
        let begin = now();
        while begin.elapsed() < GOODBYE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
    }

    /// Kills all its processes at once, as a loss of power would end them.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// Itself and all that it has started.
    fn tree(&self) -> Vec<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some((pid, parent)) = pid.and_then(|pid| Some((pid, parent(pid)?))) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut tree = vec![self.child.id()];
        let mut next = 0;
        while let Some(pid) = tree.get(next) {
            let more = children.remove(pid).unwrap_or_default();
            tree.extend(more);
            next += 1;
        }
        tree
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        for pid in self.tree() {
            // It may be gone already.
            let _ = signal(pid, Signal::KILL);
        }
        let _ = self.guard.forget(&self.child);
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, signal: Signal) -> Option<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    kill_process(pid, signal).ok()
}

fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last bracket may contain anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The resident memory of one process, in bytes; 0 if it is gone.
pub(super) fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
