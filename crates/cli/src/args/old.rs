//! Earlier spellings of flags, which are accepted for one release with a note.

use std::ffi::OsString;

use clap::Command;

/// Earlier and present spellings of flags. A pair applies to every command that has the present
/// flag.
const OLD: [(&str, &str); 8] = [
    ("rollouts", "rollout-label"),
    ("threshold", "wrong-below"),
    ("train", "train-out"),
    ("test", "test-out"),
    ("max-tokens", "max-request-tokens"),
    ("max-tokens", "max-example-tokens"),
    ("reach", "dependency-distance"),
    ("gate-problems", "evaluation-problems"),
];

/// Adds the earlier spellings as hidden aliases, to a command and all its subcommands.
pub(super) fn accepted(command: Command) -> Command {
    let command = command.mut_subcommands(accepted);
    OLD.iter().fold(command, |command, (old, new)| {
        command.mut_args(|arg| match arg.get_long() {
            Some(long) if long == *new => arg.alias(*old),
            _ => arg,
        })
    })
}

/// Returns a note for each earlier spelling that was typed.
pub(super) fn notes(command: &Command, typed: impl Iterator<Item = OsString>) -> Vec<String> {
    let has = |new: &str| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some(new))
    };
    let typed = typed.map(|typed| typed.to_string_lossy().into_owned());
    // Arguments after `--` are values, not flags.
    let notes = typed.take_while(|typed| typed != "--").filter_map(|typed| {
        let name = typed.strip_prefix("--")?.split('=').next()?;
        // A spelling may be an earlier one here and a present one in another command, such as
        // --threshold.
        let (old, new) = OLD.iter().find(|(old, new)| *old == name && has(new))?;
        Some(format!("note: --{old} is now called --{new}"))
    });
    notes.collect()
}
