//! Seccomp: the system calls that the program may not make.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// The last system call that these lists were written for (`cachestat`). The program is told that
/// the system lacks later ones, and with them those of the x32 ABI.
const LAST: u32 = 451;

/// The flags of `clone` for new namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32 as u64;

/// Commands of `fcntl` that the crate libc has for some systems only.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

/// Denied in every sandbox. `socketpair` is allowed, since its sockets lead nowhere else.
const ALWAYS: &[c_long] = &[
    libc::SYS_socket,
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // namespaces and mounts
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    // parts of the kernel with many faults, or without a use here
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // memory that no limit counts
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // the machine
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_vhangup,
];

/// Denied where the files of others are in the program's view. Landlock has no rules for these.
const FILES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_inotify_add_watch,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Denied where other processes are in reach: the priorities of others, and ways out of the
/// process group, which the guard kills.
const PROCESSES: &[c_long] = &[
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Denied where signals reach other processes, unless the first argument is the program itself.
const SIGNALS: &[c_long] = &[
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// The things outside of the sandbox that no other layer keeps out of reach.
pub(super) struct Reach {
    pub(super) files: bool,
    pub(super) processes: bool,
    pub(super) signals: bool,
}

/// Denies the calls to this process and to those that it starts.
pub(super) fn forbid(reach: &Reach) -> Result<(), Error> {
    let program: BpfProgram = list(reach)?.try_into()?;
    apply_filter(&program)?;
    apply_filter(&unknown())
}

fn list(reach: &Reach) -> Result<SeccompFilter, BackendError> {
    let mut denied: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let mut always = vec![ALWAYS];
    if reach.files {
        always.push(FILES);
    }
    if reach.processes {
        always.push(PROCESSES);
    }
    for call in always.into_iter().flatten() {
        denied.insert(*call, Vec::new());
    }
    let own = getpid().as_raw_nonzero().get() as u64;
    if reach.signals {
        denied.insert(libc::SYS_tkill, Vec::new());
        denied.insert(libc::SYS_pidfd_send_signal, Vec::new());
        for call in SIGNALS {
            // 0 is the process group, which has only processes of the sandbox.
            denied.insert(*call, vec![unless(0, &[0, own])?]);
        }
        // A file can be told to send signals to a process.
        let to_others = [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG];
        let rules = to_others.map(|command| when(1, SeccompCmpOp::Eq, command as u64));
        denied.insert(
            libc::SYS_fcntl,
            rules.into_iter().collect::<Result<_, _>>()?,
        );
    }
    // Limits of another process of the same user could be lowered.
    denied.insert(libc::SYS_prlimit64, vec![unless(0, &[0, own])?]);
    let mut clone = Vec::new();
    for bit in (0..32)
        .map(|bit| 1 << bit)
        .filter(|bit| NAMESPACES & bit != 0)
    {
        clone.push(when(0, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    denied.insert(libc::SYS_clone, clone);
    SeccompFilter::new(
        denied,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(ARCH)?,
    )
}

/// Returns a rule that matches a call by one of its arguments.
fn when(argument: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?;
    SeccompRule::new(vec![condition])
}

/// Returns a rule that matches a call unless one of its arguments has one of these values.
fn unless(argument: u8, values: &[u64]) -> Result<SeccompRule, BackendError> {
    let conditions = values.iter().map(|value| {
        let compare = SeccompCmpOp::Ne;
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Returns a filter that calls the system too old for unknown calls, and for `clone3`, whose flags a
/// filter cannot read: programs then use `clone`. The library has neither ranges of calls nor two
/// kinds of errors.
fn unknown() -> BpfProgram {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let lacking = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    vec![
        // The number of the call is the first field of `seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 2, 0, LAST),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            0,
            libc::SYS_clone3 as u32,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, lacking),
    ]
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use rustix::io::Errno;
    use rustix::process::{getppid, setsid, test_kill_process};

    use super::*;

    #[test]
    fn other_processes_and_the_network_are_out_of_reach() {
        // A filter holds for the thread that makes it.
        let thread = std::thread::spawn(|| {
            let parent = getppid().expect("a parent");
            assert_eq!(test_kill_process(parent), Ok(()));
            let file = tempfile::tempfile().expect("a file");
            let reach = Reach {
                files: true,
                processes: true,
                signals: true,
            };
            forbid(&reach).expect("seccomp");
            assert_eq!(test_kill_process(parent), Err(Errno::PERM));
            assert_eq!(test_kill_process(getpid()), Ok(()));
            assert_eq!(setsid(), Err(Errno::PERM));
            assert_eq!(rustix::fs::fchmod(&file, 0o600.into()), Err(Errno::PERM));
            let socket = std::net::UdpSocket::bind("127.0.0.1:0");
            let error = socket.expect_err("there is no network");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            let child = std::process::Command::new("true").status();
            assert!(child.expect("programs start").success());
        });
        thread.join().expect("no panic");
    }
}
