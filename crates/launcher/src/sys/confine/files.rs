//! Landlock: the files that the program may read, and the folder in which it may write.

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};

use super::view::DEVICES;
use crate::terms::Room;

/// The newest version of Landlock of which all rules are asked for. An older system has a part.
const VERSION: ABI = ABI::V6;

/// Opens the paths of a room. `None` where the system has no Landlock.
pub(super) fn rules(room: &Room, has_proc: bool) -> Option<RulesetCreated> {
    let read = AccessFs::from_read(VERSION);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    // A file of a device in the scratch folder would be one that the program makes itself.
    let write = AccessFs::from_all(VERSION)
        & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(VERSION)))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(&room.readable, read)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(DEVICES, devices)))
        .ok()?;
    let scratch = PathFd::new(&room.scratch).ok()?;
    let rules = rules.add_rule(PathBeneath::new(scratch, write)).ok()?;
    if has_proc {
        let shown = AccessFs::ReadFile | AccessFs::ReadDir;
        return rules.add_rules(path_beneath_rules(["/proc"], shown)).ok();
    }
    Some(rules)
}

/// Restricts this process for good; returns the version of Landlock. `None` where the system has no
/// Landlock.
pub(super) fn restrict(rules: RulesetCreated) -> Option<u8> {
    match rules.restrict_self().ok()? {
        RestrictionStatus {
            landlock: LandlockStatus::Available { effective_abi, .. },
            no_new_privs: true,
            ..
        } => u8::try_from(effective_abi as i32).ok(),
        _ => None,
    }
}
