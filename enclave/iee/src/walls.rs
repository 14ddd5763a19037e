//! What the process gives up once it has its key: it needs its streams, memory and randomness, and nothing else.
//!
//! Against a flaw of the enclave's own code, and other users' processes; not against who has the machine.

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::io;

/// User and group `nobody`, which have nothing.
const NOBODY: u32 = 65534;

/// System calls whatever their arguments: of streams, memory and randomness, of one thread and its time, of signals, and the end. All
/// others fail.
const CALLS: [&[i64]; 5] = [
    &[libc::SYS_read, libc::SYS_readv, libc::SYS_write, libc::SYS_writev, libc::SYS_close],
    &[libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_getrandom],
    &[libc::SYS_futex, libc::SYS_clock_gettime, libc::SYS_sched_yield, libc::SYS_gettid, libc::SYS_getpid],
    &[libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack],
    &[libc::SYS_restart_syscall, libc::SYS_exit, libc::SYS_exit_group],
];

/// System calls that may not make memory executable: their third argument says what it is for.
const MAPPINGS: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Gives up root, other processes' views, core dumps, debuggers and most system calls.
///
/// # Errors
/// What the operating system says: the enclave does not run without its walls. Namespaces alone may be denied to it.
pub(crate) fn build() -> io::Result<()> {
    let apart = CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    let root = Uid::effective().is_root();
    let apart = if root { apart } else { apart | CloneFlags::CLONE_NEWUSER };
    if let Err(error) = unshare(apart) {
        eprintln!("Warning: the enclave has no namespaces of its own here: {error}.");
    }
    if root {
        let (group, user) = (Gid::from_raw(NOBODY), Uid::from_raw(NOBODY));
        setgroups(&[])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    set_dumpable(false)?;
    // It also sees to it that no program which this one could start gains rights.
    apply_filter(&filter().map_err(io::Error::other)?).map_err(io::Error::other)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let not_executable =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?;
    let not_executable = SeccompRule::new(vec![not_executable])?;
    let free = CALLS.concat().into_iter().map(|call| (call, Vec::new()));
    let bound = MAPPINGS.map(|call| (call, vec![not_executable.clone()]));
    let calls: BTreeMap<i64, Vec<SeccompRule>> = free.chain(bound).collect();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(calls, denied, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}
