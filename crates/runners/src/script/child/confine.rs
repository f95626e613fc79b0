//! What the child gives up before it sees a script.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::super::limits::ScriptLimits;

/// Scripts give way to what is due.
const NICENESS: i32 = 5;
/// Address space beside the script's heap: reservations of allocators, messages under way.
const OWN_ADDRESS_SPACE: u64 = 192 << 20;
/// Within this the interpreter notices itself that its time is over, unless it cannot.
const NOTICED: Duration = Duration::from_millis(200);
/// Standard input, output and error are open; nothing else can be.
const OPEN_FILES: u64 = 3;

/// Puts this process behind all others. It makes things better where it works, and is no more.
/// Threads that are started from now on share it.
pub(super) fn step_back() {
    let _ = nice(NICENESS);
    let _ = rustix::thread::set_no_new_privs(true);
    // Where memory runs out, the operating system should take this process before any other.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

/// Limits this process for good: it cannot start a thread any more, or open a file.
pub(super) fn confine(limits: &ScriptLimits) -> io::Result<()> {
    let heap = u64::try_from(limits.heap_bytes).unwrap_or(u64::MAX);
    if let Some(used) = address_space_used() {
        // Text leaves the heap as copies, and is longer as JSON.
        let room = heap.saturating_mul(4).saturating_add(OWN_ADDRESS_SPACE);
        lower(Resource::As, used.saturating_add(room))?;
    }
    lower(Resource::Core, 0)?;
    lower(Resource::Fsize, 0)?;
    lower(Resource::Nofile, OPEN_FILES)?;
    lower(Resource::Nproc, 0)
}

/// Has the operating system end this process when a phase that begins now computes for longer
/// than it may and does not notice.
pub(super) fn allow_cpu(cpu: Duration) -> io::Result<()> {
    // Whole seconds are all that the operating system counts here.
    let end = (cpu_used() + cpu + NOTICED).as_secs() + 1;
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = Some(maximum.map_or(end, |maximum| end.min(maximum)));
    Ok(setrlimit(Resource::Cpu, Rlimit { current, maximum })?)
}

/// How long this process has computed.
pub(super) fn cpu_used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or_default(),
        u32::try_from(used.tv_nsec).unwrap_or_default(),
    )
}

fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let to = Some(maximum.map_or(to, |maximum| to.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current: to, maximum: to })?)
}

/// In bytes; unknown where there is no `/proc`.
fn address_space_used() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().next()?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}
