//! The guard on Unix, and the functions for talking to it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, PipeReader};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::io::{Errno, FdFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, getppid, getrlimit, kill_process,
    kill_process_group, setrlimit, setsid, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::{BECOME, LaunchError, Limits};

/// A socket to the guard. The system closes it when this process ends, even if the process is
/// killed.
pub(crate) type Control = UnixStream;

/// Makes a control and the other end, which becomes the guard's standard input.
pub(crate) fn control() -> io::Result<(Control, Stdio)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours, OwnedFd::from(theirs).into()))
}

/// Orders the guard to kill the program's group.
pub(crate) fn close(control: &Control) {
    // Errors are ignored, since the guard may have ended. Closing the descriptor is not enough: a
    // forked process may hold a copy, which would keep the socket open.
    let _ = control.shutdown(Shutdown::Both);
}

/// Sends the guard the descriptor for the program's standard input.
pub(crate) fn hand_over(control: &Control, input: PipeReader) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let descriptors = [input.as_fd()];
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    let byte = [IoSlice::new(&[0])];
    match sendmsg(control, &byte, &mut rights, SendFlags::empty()) {
        // The guard has ended already. Its exit status tells the reason.
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        sent => sent.map(drop).map_err(io::Error::from),
    }
}

/// Receives the descriptor that [`hand_over`] sent.
fn receive(control: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(control, &mut bytes, &mut rights, RecvFlags::empty())?;
    let received = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let input = received.ok_or(ErrorKind::UnexpectedEof)?;
    // Without CLOEXEC every program that this process starts would inherit the descriptor.
    rustix::io::fcntl_setfd(&input, FdFlags::CLOEXEC)?;
    Ok(input)
}

/// Returns the path of this process's program. On Linux the path stays valid if the file is
/// replaced.
pub(crate) fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}

/// Runs as the guard: starts the program and waits for it. The program's group is killed when the
/// program ends or the control closes. `own` is the command line before the instructions.
pub(crate) fn guard(own: &[OsString], instructions: &[OsString]) -> Result<u8, LaunchError> {
    // In its own session the guard gets no signals from a terminal. The call fails for a group
    // leader, and the guard then stays in its session.
    let _ = setsid();
    limit(Resource::Core, 0).map_err(|source| LaunchError::Limit {
        what: "core files",
        source,
    })?;
    let input = receive(io::stdin().as_fd())
        .map_err(|error| LaunchError::Instructions(error.to_string()))?;
    let failed = |source| LaunchError::Program {
        program: this_program(),
        source,
    };
    let mut child = start(own, instructions, input).map_err(failed)?;
    let group = Pid::from_child(&child);
    let reaping = Arc::new(Mutex::new(()));
    let watched = Arc::clone(&reaping);
    // Nothing is sent over the control any more, so the copy ends when the control closes.
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _not_reaped = watched.lock();
        let _ = kill_process_group(group, Signal::KILL);
    });
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(group), ended) {}
    // After `wait`, the program's number may belong to another process. The lock is taken forever,
    // so that the thread above cannot kill a group by that number.
    std::mem::forget(reaping.lock());
    let _ = kill_process_group(group, Signal::KILL);
    Ok(end_as(child.wait().map_err(failed)?))
}

/// Starts this program again, as the process that sets the limits and becomes the wanted program.
fn start(own: &[OsString], instructions: &[OsString], input: OwnedFd) -> io::Result<Child> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let (name, arguments) = own.split_first().ok_or(ErrorKind::InvalidInput)?;
    let child = Command::new(this_program())
        .arg0(name)
        .args(arguments)
        .arg(BECOME)
        .arg(getpid().as_raw_nonzero().to_string())
        .args(instructions)
        .stdin(input)
        .process_group(0)
        .spawn()?;
    // The guard closes its copies of the pipes. A reader then sees the end of the pipe when the
    // program closes it.
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(child)
}

/// Ends this process by the same signal as the program, or returns the program's exit code.
fn end_as(status: ExitStatus) -> u8 {
    let Some(number) = status.signal() else {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return code.unwrap_or(u8::MAX);
    };
    if let Some(signal) = Signal::from_named_raw(number) {
        // If Rust has a handler for the signal, the first call only restores the default action.
        for _ in 0..2 {
            let _ = kill_process(getpid(), signal);
        }
    }
    128 + number as u8
}

/// Sets limits on this process and replaces it by the program. Returns only if that fails.
pub(crate) fn become_program(instructions: &[OsString]) -> LaunchError {
    let [guard, limits, program, arguments @ ..] = instructions else {
        return LaunchError::Instructions("some are missing".to_owned());
    };
    // Made before the limits are set, because a limit may leave no memory for it.
    let mut command = Command::new(program);
    command.args(arguments);
    match end_with(guard).and_then(|()| set(limits)) {
        Ok(()) => LaunchError::Program {
            program: program.into(),
            source: command.exec(),
        },
        Err(error) => error,
    }
}

/// Sets limits, given as JSON, on this process.
fn set(limits: &OsStr) -> Result<(), LaunchError> {
    let limits = limits.to_str().unwrap_or_default();
    let limits: Limits = serde_json::from_str(limits)
        .map_err(|error| LaunchError::Instructions(error.to_string()))?;
    for (what, resource, most) in [
        ("core files", Resource::Core, Some(0)),
        ("memory", Resource::As, limits.memory),
        ("CPU time", Resource::Cpu, limits.cpu_seconds),
        ("the size of files", Resource::Fsize, limits.file_size),
        ("processes", Resource::Nproc, limits.processes),
        ("open files", Resource::Nofile, limits.open_files),
    ] {
        if let Some(most) = most {
            limit(resource, most).map_err(|source| LaunchError::Limit { what, source })?;
        }
    }
    Ok(())
}

/// Makes the system kill this process when the guard is killed.
fn end_with(guard: &OsStr) -> Result<(), LaunchError> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| LaunchError::Instructions(error.to_string()))?;
    // If the guard ended before the call, the signal never comes, so the parent is compared.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.as_deref().map(OsStr::new) == Some(guard) {
        Ok(())
    } else {
        Err(LaunchError::Instructions("the guard is gone".to_owned()))
    }
}

/// Lowers a limit of this process for good. Processes that it starts inherit the limit.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let held = getrlimit(resource);
    let least = |held: Option<u64>| Some(held.map_or(most, |held| held.min(most)));
    let limit = Rlimit {
        current: least(held.current),
        maximum: least(held.maximum),
    };
    Ok(setrlimit(resource, limit)?)
}
