//! The program's view of the file system: an empty root with the readable folders, the scratch
//! folder and five devices.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::pivot_root;

use super::NOBODY;
use crate::terms::Room;

/// Devices without state.
pub(super) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Mounts the view at its folder. Returns whether it has a `/proc`, which shows the sandbox's own
/// processes only.
pub(super) fn build(room: &Room, is_root: bool) -> io::Result<bool> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    mount("beamgen", &room.view, "tmpfs", plain, c"mode=0755,size=1m")?;
    let devices = DEVICES.iter().map(Path::new);
    for path in room.readable.iter().map(PathBuf::as_path).chain(devices) {
        let target = place(&room.view, path)?;
        mount_bind_recursive(path, &target)?;
    }
    let scratch = place(&room.view, &room.scratch)?;
    let owner = if is_root {
        format!(",uid={NOBODY},gid={NOBODY}")
    } else {
        String::new()
    };
    // The number of files is limited as well: each takes memory of the system.
    let options = format!(
        "mode=0700,nr_inodes=10000,size={}{owner}",
        room.scratch_bytes
    );
    mount(
        "beamgen",
        &scratch,
        "tmpfs",
        plain,
        CString::new(options)?.as_c_str(),
    )?;
    let proc = room.view.join("proc");
    fs::create_dir_all(&proc)?;
    make_read_only(&room.view, &scratch)?;
    let mut flags = plain | MountFlags::NOEXEC;
    // Root writes a map of users there once it is nobody.
    flags.set(MountFlags::RDONLY, !is_root);
    // Containers that hide parts of their own `/proc` may not mount another.
    Ok(mount("proc", &proc, "proc", flags, None).is_ok())
}

/// Makes an empty folder or file for a mount at `path` in the view.
fn place(view: &Path, path: &Path) -> io::Result<PathBuf> {
    let target = view.join(path.strip_prefix("/").unwrap_or(path));
    if path.is_dir() {
        fs::create_dir_all(&target)?;
    } else {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if !target.exists() {
            fs::File::create(&target)?;
        }
    }
    Ok(target)
}

/// Makes every mount of the view read-only but the scratch folder: a bind mount is writable at first,
/// and so are mounts below it.
fn make_read_only(view: &Path, scratch: &Path) -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(point), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let point = unescaped(point);
        if point.starts_with(view) && point != scratch {
            // Flags of the original must stay: a user namespace may not take them off.
            let flags = flags(options) | MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
            mount_remount(&point, flags, "")?;
        }
    }
    Ok(())
}

/// Returns the flags that the options of a mount name.
fn flags(options: &str) -> MountFlags {
    let named = options.split(',').map(|option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    named.collect()
}

/// Reads a path of `mountinfo`, in which spaces and some others are octal (`\040`).
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = text_of(others.get(..3));
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &others[3..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

fn text_of(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// Makes the view the root folder of this process and of its namespace.
pub(super) fn enter(view: &Path) -> io::Result<()> {
    std::env::set_current_dir(view)?;
    // The new root is mounted over the old one, and then the old one is taken away below it.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read() {
        assert_eq!(unescaped("/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescaped("/plain\\04"), Path::new("/plain\\04"));
        let options = flags("rw,nosuid,nodev,relatime");
        assert_eq!(
            options,
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME
        );
    }
}
