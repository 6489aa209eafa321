//! The guard on Unix, and the functions for talking to it.

#[cfg(target_os = "linux")]
mod confine;
#[cfg(not(target_os = "linux"))]
#[path = "confine_elsewhere.rs"]
mod confine;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, PipeReader, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, FdFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, geteuid, getpid, getppid, getrlimit,
    kill_process, kill_process_group, setrlimit, setsid, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::terms::{Failure, Report, Room, Terms};
use crate::{BECOME, INIT, LaunchError, Limits};

/// The number that a process has as its parent if the parent is outside of its namespace.
const OUTSIDE: &str = "0";

/// The most bytes of a report. It has a few names of layers and one message, whose characters take up
/// to six bytes each.
const REPORT: u64 = 4096;

/// The outcome of confining a process.
struct Confined {
    /// The names of the layers.
    layers: Vec<String>,
    /// Processes that count for the limit on processes, and are not the program's.
    others: u64,
}

/// The number of the user and of the group `nobody`.
const NOBODY: u32 = 65534;

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

/// Receives the number of the signal that ended the program. The guard has ended.
pub(crate) fn signal(control: &Control) -> Option<i32> {
    let mut number = [0];
    control.set_nonblocking(true).ok()?;
    let mut control = control;
    control.read_exact(&mut number).ok()?;
    Some(number[0].into())
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
    let terms = instructions.first().map(OsString::as_os_str);
    let terms = read(terms.unwrap_or_default())?;
    let confined = terms.room.as_ref().filter(|room| room.confined);
    let in_namespaces = match confined.map(|room| (confine::enter_namespaces(), room)) {
        Some((Err(error), room)) => {
            let mut file = make_report(room)?;
            return fail(&mut file, Report::default(), &error);
        }
        Some((Ok(entered), _)) => entered,
        None => false,
    };
    // The namespace ends with its init, and every process in it.
    let init = in_namespaces.then(|| start_init(own)).transpose();
    let mut init = init.map_err(failed)?;
    let mut child = start(own, instructions, input, in_namespaces).map_err(failed)?;
    let group = Pid::from_child(&child);
    if in_namespaces {
        // A process that has left its process namespace cannot have threads.
        confine::wait(group, io::stdin().as_fd()).map_err(failed)?;
    } else {
        wait(group);
    }
    let _ = kill_process_group(group, Signal::KILL);
    if let Some(init) = &mut init {
        let _ = init.kill();
    }
    let status = child.wait().map_err(failed)?;
    if let Some(init) = &mut init {
        // The namespace is empty afterwards. The init ends after all others, the program among them.
        let _ = init.wait();
    }
    if let Some(number) = status.signal().and_then(|number| u8::try_from(number).ok()) {
        // This process may ignore the signal by which it should end.
        let _ = rustix::io::write(io::stdin(), &[number]);
    }
    Ok(end_as(status))
}

/// Waits until a program has ended. Kills its group if the control closes before.
fn wait(group: Pid) {
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
    // After the program is reaped, its number may belong to another process. The lock is taken
    // forever, so that the thread above cannot kill a group by that number.
    std::mem::forget(reaping.lock());
}

/// Starts this program again, with another word of instructions.
fn again(own: &[OsString], word: &str) -> io::Result<Command> {
    let (name, arguments) = own.split_first().ok_or(ErrorKind::InvalidInput)?;
    let mut command = Command::new(this_program());
    command.arg0(name).args(arguments).arg(word);
    Ok(command)
}

/// Starts the first process of a process namespace. It has nothing that the program might want.
fn start_init(own: &[OsString]) -> io::Result<Child> {
    again(own, INIT)?
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Runs as the first process of a process namespace: waits for processes whose parents have ended,
/// until it is killed.
pub(crate) fn init() -> Result<u8, LaunchError> {
    end_with(OsStr::new(OUTSIDE))?;
    loop {
        if waitid(WaitId::All, WaitIdOptions::EXITED).is_err() {
            // There is no child now. A new one is not announced.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Starts this program again, as the process that sets the limits and becomes the wanted program.
fn start(
    own: &[OsString],
    instructions: &[OsString],
    input: OwnedFd,
    in_namespaces: bool,
) -> io::Result<Child> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let guard = if in_namespaces {
        OUTSIDE.to_owned()
    } else {
        getpid().as_raw_nonzero().to_string()
    };
    let child = again(own, BECOME)?
        .arg(guard)
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

/// Sets limits on this process and replaces it by the program. Returns only if that fails: `Ok` is the
/// exit code of a failure that is reported in the program's room.
pub(crate) fn become_program(instructions: &[OsString]) -> Result<u8, LaunchError> {
    let [guard, terms, program, arguments @ ..] = instructions else {
        return Err(LaunchError::Instructions("some are missing".to_owned()));
    };
    let terms = read(terms)?;
    // Made before the limits are set, because a limit may leave no memory for it.
    let mut command = Command::new(program);
    command.args(arguments);
    let Some(room) = &terms.room else {
        end_with(guard)?;
        set(&terms.limits, 0)?;
        return Err(not_started(program, command.exec()));
    };
    command.env_clear().envs(environment(room));
    confine::close_inherited()?;
    // The file is opened before it is out of reach.
    let mut file = make_report(room)?;
    let mut report = Report::default();
    let error = match enter(room, guard, &terms.limits, &mut report.layers) {
        Ok(()) => {
            write(&mut file, &report)?;
            not_started(program, command.exec())
        }
        Err(error) => error,
    };
    fail(&mut file, report, &error)
}

fn make_report(room: &Room) -> Result<File, LaunchError> {
    File::create(&room.report).map_err(|source| LaunchError::Sandbox {
        what: "make a report",
        source,
    })
}

/// Reports that the program was not started; returns the exit code of this process.
fn fail(file: &mut File, mut report: Report, error: &LaunchError) -> Result<u8, LaunchError> {
    let code = error.exit_code();
    let message = error
        .to_string()
        .chars()
        .take(REPORT as usize / 8)
        .collect();
    report.failure = Some(Failure { message, code });
    write(file, &report)?;
    Ok(code)
}

/// Reads the conditions of a program from instructions.
fn read(terms: &OsStr) -> Result<Terms, LaunchError> {
    serde_json::from_str(terms.to_str().unwrap_or_default())
        .map_err(|error| LaunchError::Instructions(error.to_string()))
}

/// Returns the whole environment of a program in a room. Every other variable may hold a secret.
fn environment(room: &Room) -> [(&'static str, &OsStr); 4] {
    let scratch = room.scratch.as_os_str();
    [
        ("PATH", OsStr::new("/usr/local/bin:/usr/bin:/bin")),
        ("LANG", OsStr::new("C.UTF-8")),
        ("HOME", scratch),
        ("TMPDIR", scratch),
    ]
}

fn not_started(program: &OsStr, source: io::Error) -> LaunchError {
    LaunchError::Program {
        program: program.into(),
        source,
    }
}

/// Replaces the content of a report.
fn write(file: &mut File, report: &Report) -> Result<(), LaunchError> {
    let written = serde_json::to_vec(report)
        .map_err(io::Error::from)
        .and_then(|text| {
            file.rewind()?;
            file.write_all(&text)
        });
    written.map_err(|source| LaunchError::Sandbox {
        what: "write a report",
        source,
    })
}

/// Enters a room; adds the layers around it.
fn enter(
    room: &Room,
    guard: &OsStr,
    limits: &Limits,
    layers: &mut Vec<String>,
) -> Result<(), LaunchError> {
    let mut others = 0;
    if room.confined {
        let confined = confine::enter(room, guard == OUTSIDE)?;
        *layers = confined.layers;
        others = confined.others;
    }
    std::env::set_current_dir(&room.scratch).map_err(|source| LaunchError::Sandbox {
        what: "enter the scratch folder",
        source,
    })?;
    // A change of the user clears the parent-death signal, so that is set afterwards.
    end_with(guard)?;
    // The report is a file, so a smaller limit would forbid to report a failure from here on.
    let limits = Limits {
        file_size: limits.file_size.map(|most| most.max(REPORT)),
        processes: limits.processes.map(|most| most.saturating_add(others)),
        ..*limits
    };
    // The program gets SIGXCPU first, which names the limit. SIGKILL follows a second later.
    set(&limits, 1)
}

/// Sets limits on this process. `grace` is the time between the two signals for CPU time in seconds.
fn set(limits: &Limits, grace: u64) -> Result<(), LaunchError> {
    for (what, resource, most, grace) in [
        ("core files", Resource::Core, Some(0), 0),
        ("memory", Resource::As, limits.memory, 0),
        ("CPU time", Resource::Cpu, limits.cpu_seconds, grace),
        ("the size of files", Resource::Fsize, limits.file_size, 0),
        ("processes", Resource::Nproc, limits.processes, 0),
        ("open files", Resource::Nofile, limits.open_files, 0),
    ] {
        if let Some(most) = most {
            lower(resource, most, most.saturating_add(grace))
                .map_err(|source| LaunchError::Limit { what, source })?;
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
    if parent.as_deref().unwrap_or(OUTSIDE) == guard {
        Ok(())
    } else {
        Err(LaunchError::Instructions("the guard is gone".to_owned()))
    }
}

/// Lowers a limit of this process for good. Processes that it starts inherit the limit.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    lower(resource, most, most)
}

/// Lowers a limit of this process, and the value up to which it can be raised again.
fn lower(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let held = getrlimit(resource);
    let least = |held: Option<u64>, most: u64| Some(held.map_or(most, |held| held.min(most)));
    let limit = Rlimit {
        current: least(held.current, current),
        maximum: least(held.maximum, maximum),
    };
    Ok(setrlimit(resource, limit)?)
}

/// Lets nobody write in a folder of root. The program of another user runs as that user.
pub(crate) fn give_to_nobody(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    if !geteuid().is_root() {
        return Ok(());
    }
    match chown(folder, Some(NOBODY), Some(NOBODY)) {
        // The root of a namespace without other users gives its own rights up instead.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        given => given,
    }
}
