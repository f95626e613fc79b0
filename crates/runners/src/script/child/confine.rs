//! The confinement that a child applies to itself before it sees a script.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use rustix::time::{ClockId, clock_gettime};

use super::super::confinement::Confinement;
use super::super::limits::ScriptLimits;
use super::filter;

/// Scripts run at a lower priority than the node, which has to start what is due.
const NICENESS: i32 = 5;
/// Address space in addition to the script's heap: reservations of allocators, and messages in
/// transit.
const OWN_ADDRESS_SPACE: u64 = 192 << 20;
/// Allowance for the interpreter to notice by itself that its CPU time is used up. Only if it
/// cannot, the kernel ends the process.
const NOTICED: Duration = Duration::from_millis(200);
const ANYWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
/// Standard input, output and error are open; no further file can be opened.
const OPEN_FILES: u64 = 3;

/// The namespaces that the process has to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespaces {
    user: bool,
    network: bool,
}

/// Lowers this process's priority and removes it from the host's network and from its privileges.
/// Each measure is best effort. Threads that are started later inherit all of it; no other thread
/// may run yet.
pub(super) fn step_back() -> Namespaces {
    let _ = nice(NICENESS);
    // If memory runs out, the kernel should kill this process before any other.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let namespaces = leave_host();
    // In its own user namespace the process would have all capabilities, as root has anyway.
    let _ = drop_capabilities();
    let _ = rustix::thread::set_no_new_privs(true);
    namespaces
}

/// Creates the namespaces. Hosts and containers may refuse user namespaces; root needs none to get
/// its own network namespace.
fn leave_host() -> Namespaces {
    let others = UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    let user = leave(UnshareFlags::NEWUSER | others);
    Namespaces { user, network: user || leave(UnshareFlags::NEWNET) }
}

#[expect(
    deprecated,
    reason = "only flags that share memory or open files make it unsafe: none does"
)]
fn leave(flags: UnshareFlags) -> bool {
    rustix::thread::unshare(flags).is_ok()
}

fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Lowering the bounding set needs a capability, so the capabilities are dropped last. Errors
    // are ignored, because a kernel may not know every capability.
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

fn has_no_capabilities() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.is_empty() && sets.permitted.is_empty())
}

/// Limits this process for good: afterwards it can neither start a thread nor open a file. Returns
/// which measures are in force, as found by trying.
pub(super) fn confine(limits: &ScriptLimits, namespaces: Namespaces) -> io::Result<Confinement> {
    let no_new_privileges = rustix::thread::no_new_privs().unwrap_or(false);
    let no_capabilities = has_no_capabilities();
    let heap = u64::try_from(limits.heap_bytes).unwrap_or(u64::MAX);
    if let Some(used) = address_space_used() {
        // Text that leaves the heap is copied, and is longer as JSON.
        let room = heap.saturating_mul(4).saturating_add(OWN_ADDRESS_SPACE);
        lower(Resource::As, used.saturating_add(room))?;
    }
    lower(Resource::Core, 0)?;
    lower(Resource::Fsize, 0)?;
    lower(Resource::Nofile, OPEN_FILES)?;
    lower(Resource::Nproc, 0)?;
    // Without seccomp the limits above still apply, and the result reports that system calls are
    // not filtered.
    let _ = filter::apply();
    Ok(Confinement {
        system_calls: is_refused(&fs::File::open("/")) && is_refused(&UdpSocket::bind(ANYWHERE)),
        no_new_privileges,
        no_capabilities,
        user_namespace: namespaces.user,
        network_namespace: namespaces.network,
    })
}

/// Whether the filter refused the call. Without the filter it would fail for too many open files
/// instead.
fn is_refused<T>(tried: &io::Result<T>) -> bool {
    tried.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

/// Makes the kernel end this process if the phase that begins now exceeds its CPU time without
/// noticing.
pub(super) fn allow_cpu(cpu: Duration) -> io::Result<()> {
    // The kernel counts this limit in whole seconds.
    let end = (cpu_used() + cpu + NOTICED).as_secs() + 1;
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = Some(maximum.map_or(end, |maximum| end.min(maximum)));
    Ok(setrlimit(Resource::Cpu, Rlimit { current, maximum })?)
}

/// The CPU time that this process has used.
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

/// In bytes; `None` without `/proc`.
fn address_space_used() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().next()?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}
