//! The CPU time, memory and wakeups of this process, read from `/proc`.

use std::fs;
use std::time::Duration;

use crate::failure::Failure;

/// Linux reports CPU time in hundredths of a second, whatever the kernel's own clock is.
const PER_SECOND: u64 = 100;

/// CPU time of all threads, including those that have ended.
pub(super) fn cpu_time() -> Result<Duration, Failure> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The program's name may contain blanks; it ends with the last parenthesis.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1_000 / PER_SECOND))
}

/// Resident memory in bytes.
pub(super) fn resident() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/self/status")?;
    Ok(field(&text, "VmRSS:").unwrap_or(0) * 1024)
}

/// How often the threads other than the first were woken up.
pub(super) fn wakeups() -> Result<u64, Failure> {
    let first = std::process::id().to_string();
    let mut count = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        if task.file_name().to_string_lossy() == first {
            continue;
        }
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
        count += field(&text, "voluntary_ctxt_switches:").unwrap_or(0);
    }
    Ok(count)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
