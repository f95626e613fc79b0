//! The system calls that a confined child may make. All others fail with `EPERM`: files, sockets,
//! other processes, and calls that future kernels add.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// The calls that the C library and the allocator need for reading, writing, computing and exiting.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Filters the system calls of every thread of this process, permanently.
pub(super) fn apply() -> io::Result<()> {
    let program = program().map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&program).map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules()?, refused, SeccompAction::Allow, arch)?;
    filter.try_into()
}

/// The filter's rules. A call without a condition is allowed with any arguments.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // No memory may be mapped or made executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let runs = u64::from(libc::PROT_EXEC.unsigned_abs());
        rules.insert(call, vec![only(2, SeccompCmpOp::MaskedEq(runs), 0)?]);
    }
    // This process sets its own CPU time limit at the start of each phase.
    let own = condition(0, SeccompCmpOp::Eq, 0)?;
    let cpu = condition(1, SeccompCmpOp::Eq, u64::from(libc::RLIMIT_CPU))?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![own, cpu])?]);
    // `abort` sends a signal to the process itself.
    let ourselves = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![only(0, SeccompCmpOp::Eq, ourselves)?]);
    Ok(rules)
}

fn only(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(argument, operator, value)?])
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_reaches_outside_is_allowed() {
        let rules = rules().unwrap();
        assert!(!program().unwrap().is_empty());
        for refused in [
            libc::SYS_openat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_sendto,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_pidfd_open,
            libc::SYS_kill,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_execve,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_prctl,
            libc::SYS_seccomp,
            libc::SYS_memfd_create,
        ] {
            assert!(!rules.contains_key(&refused), "{refused}");
        }
    }
}
