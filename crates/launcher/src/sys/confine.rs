//! The layers of a sandbox on Linux. Each is applied where the system has it. Then the program
//! starts if every protection is held by at least one layer: seccomp is needed, and so is one of
//! mounts and Landlock. Namespaces are a second layer for the network and for other processes.

mod calls;
mod files;
mod namespaces;
mod view;

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, PidfdFlags, Uid, geteuid, pidfd_open, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{Confined, NOBODY};
use crate::LaunchError;
use crate::terms::Room;

pub(crate) use namespaces::enter as enter_namespaces;

/// The reason why no sandbox is made for a root that stays root.
const NO_NOBODY: &str = "root cannot become nobody, so no limit on processes binds it";

/// The first version of Landlock that keeps a program from truncating files (Linux 6.2).
const LANDLOCK_NEEDED: u8 = 3;

/// The first version of Landlock that keeps signals inside (Linux 6.12).
const LANDLOCK_SIGNALS: u8 = 6;

/// Confines this process to a room. `in_namespaces` says whether the guard is in namespaces of its own.
pub(crate) fn enter(room: &Room, in_namespaces: bool) -> Result<Confined, LaunchError> {
    umask(0o022.into());
    let mut layers = Vec::new();
    let is_root = geteuid().is_root();
    let user = if is_root { NOBODY } else { geteuid().as_raw() };
    // A view hides them, so they are counted first.
    let others = processes(user);
    let mut has_view = false;
    let mut has_proc = false;
    if in_namespaces {
        layers.push("namespaces".to_owned());
        // A container may allow namespaces and forbid mounts. Landlock then protects the files.
        if let Ok(proc) = view::build(room, is_root) {
            view::enter(&room.view).map_err(|source| failed("change the root folder", source))?;
            (has_view, has_proc) = (true, proc);
            layers.push("mounts".to_owned());
        }
    }
    // The paths are opened before the rights to them are gone.
    let rules = files::rules(room, has_proc);
    // A namespace of users has a count of processes of its own.
    let mut counts_alone = in_namespaces;
    if is_root {
        become_nobody().map_err(|_| LaunchError::NoSandbox(NO_NOBODY))?;
        counts_alone = has_proc && namespaces::enter_user();
        layers.push("nobody".to_owned());
    }
    give_up_capabilities().map_err(|error| failed("give up capabilities", error.into()))?;
    let landlock = rules.and_then(files::restrict).unwrap_or(0);
    if landlock > 0 {
        layers.push(format!("landlock {landlock}"));
    }
    let reach = calls::Reach {
        files: !has_view,
        processes: !in_namespaces,
        signals: !in_namespaces && landlock < LANDLOCK_SIGNALS,
    };
    if calls::forbid(&reach).is_err() {
        return Err(LaunchError::NoSandbox(
            "it has no seccomp, so memory and other processes are open",
        ));
    }
    layers.push("seccomp".to_owned());
    if !has_view && landlock < LANDLOCK_NEEDED {
        return Err(LaunchError::NoSandbox(
            "it has neither user namespaces with mounts nor Landlock (Linux 6.2), so files are open",
        ));
    }
    let others = if counts_alone { 0 } else { others };
    Ok(Confined { layers, others })
}

/// Returns the number of processes and threads of a user that run now.
fn processes(user: u32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|entry| entry.uid() == user));
    let threads = own.filter_map(|entry| std::fs::metadata(entry.path().join("task")).ok());
    // The links of a folder are one for each folder in it, and two of its own.
    threads.map(|task| task.nlink().saturating_sub(2)).sum()
}

fn give_up_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
}

/// Changes the user and the groups of this process. It has one thread, so calls for a thread do.
fn become_nobody() -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// Waits until a program has ended or the control closes.
pub(crate) fn wait(program: Pid, control: BorrowedFd<'_>) -> io::Result<()> {
    let program = pidfd_open(program, PidfdFlags::empty())?;
    let mut events = [
        PollFd::new(&program, PollFlags::IN),
        PollFd::new(&control, PollFlags::IN),
    ];
    loop {
        match poll(&mut events, None) {
            Err(Errno::INTR) => {}
            ended => return Ok(ended.map(drop)?),
        }
    }
}

/// Closes what this process inherited besides its three streams: a file that the wanting process
/// left open could be the reference.
pub(crate) fn close_inherited() -> Result<(), LaunchError> {
    close_numbers().map_err(|source| failed("close inherited descriptors", source))
}

fn close_numbers() -> io::Result<()> {
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd")?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()?;
    for name in names {
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(number @ 3..) = number {
            // One of the numbers was the listing's own and is closed already.
            let _ = nix::unistd::close::<i32>(number);
        }
    }
    Ok(())
}

fn failed(what: &'static str, source: io::Error) -> LaunchError {
    LaunchError::Sandbox { what, source }
}
