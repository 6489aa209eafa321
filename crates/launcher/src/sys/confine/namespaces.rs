//! Namespaces: other processes, the network, and the mounts of other programs do not exist in them.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use super::{NO_NOBODY, NOBODY};
use crate::LaunchError;

/// Moves this process into namespaces of its own; returns whether the system allows them. Processes
/// that it starts later are in a process namespace, of which the first one is the init.
pub(crate) fn enter() -> Result<bool, LaunchError> {
    let kinds = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    let Ok(map) = fs::read_to_string("/proc/self/uid_map") else {
        return Ok(false);
    };
    if geteuid().is_root() {
        if has_nobody(&map) {
            return Ok(unshare(kinds).is_ok());
        }
        if is_root_outside(&map) {
            return Err(LaunchError::NoSandbox(NO_NOBODY));
        }
    }
    let ids = Ids::of_this_process();
    if unshare(kinds | CloneFlags::CLONE_NEWUSER).is_err() {
        return Ok(false);
    }
    // AppArmor may allow the namespace and forbid its map (Ubuntu 24.04). Then mounts fail as well, and
    // Landlock has to protect the files. Everything else holds.
    let _ = ids.write().and_then(|()| keep_mounting());
    Ok(true)
}

/// Moves this process, which was root and is nobody, into a user namespace of its own, where the
/// system allows one; returns whether. It has its own count of processes, apart from other programs
/// of nobody.
pub(super) fn enter_user() -> bool {
    let ids = Ids::of_this_process();
    // A process that has changed its user does not own its files in `/proc` until it is dumpable.
    let entered = set_dumpable_behavior(DumpableBehavior::Dumpable).is_ok()
        && unshare(CloneFlags::CLONE_NEWUSER).is_ok();
    if entered {
        // Without a map the program sees the number that stands for all others, which is nobody's.
        let _ = ids.write();
    }
    entered
}

/// A user and a group, each with its number in a new user namespace and its number outside. A
/// process may map no others for itself.
struct Ids {
    user: String,
    group: String,
}

impl Ids {
    /// Reads the numbers, before this process leaves the namespace. Root of a namespace becomes
    /// nobody inside.
    fn of_this_process() -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        Self {
            user: format!("{} {user} 1", inside(user)),
            group: format!("{} {group} 1", inside(group)),
        }
    }

    /// Writes the numbers into the new namespace.
    fn write(&self) -> io::Result<()> {
        // Without this the system allows no map of groups.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", &self.user)?;
        fs::write("/proc/self/gid_map", &self.group)
    }
}

fn inside(id: u32) -> u32 {
    if id == 0 { NOBODY } else { id }
}

/// Lets the next program of this process mount. A user other than root would lose this right there.
fn keep_mounting() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// Whether a map of users has nobody, so that root can become nobody.
fn has_nobody(map: &str) -> bool {
    ranges(map).any(|[first, _, length]| (first..first + length).contains(&NOBODY.into()))
}

/// Whether the root of this namespace is root outside as well, so that no limit on processes binds it.
fn is_root_outside(map: &str) -> bool {
    ranges(map).any(|[first, outside, _]| first == 0 && outside == 0)
}

/// Returns the ranges of a map: the first number inside, the first number outside, the length.
fn ranges(map: &str) -> impl Iterator<Item = [u64; 3]> {
    map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(first)), Some(Ok(outside)), Some(Ok(length))) => {
                Some([first, outside, length])
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_say_whether_root_can_become_nobody() {
        let all = "         0          0 4294967295\n";
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        let alone = "         0       1000          1\n";
        assert!(has_nobody(all) && has_nobody(rootless) && !has_nobody(alone));
        assert!(is_root_outside(all) && !is_root_outside(rootless) && !is_root_outside(alone));
        assert_eq!((inside(0), inside(1000)), (NOBODY, 1000));
        assert!(!has_nobody("") && !is_root_outside("?"));
    }
}
