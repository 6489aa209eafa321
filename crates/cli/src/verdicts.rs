//! Runs a command's checkers on labelled chains.

use beamgen::checkers::{CheckItem, Opinion, Panel};
use beamgen::launcher::Launcher;
use beamgen_labels::LabelledChain;

use crate::failure::Failure;

/// The number of chains that are checked together, so that a checker command gets many steps at a
/// time.
pub(crate) const AT_ONCE: usize = 64;

/// Starts the checkers that the settings name.
pub(crate) fn panel(config: &beamgen::Config) -> Result<Panel, Failure> {
    let mut panel = Panel::default();
    for (name, checker) in config.checkers.open(&Launcher::this_program())? {
        panel.add(name, checker);
    }
    Ok(panel)
}

/// Returns the opinion of each checker on each step of each chain, indexed
/// `[chain][step][checker]`.
pub(crate) fn of(panel: &mut Panel, chains: &[LabelledChain]) -> Vec<Vec<Vec<Opinion>>> {
    // All chains are opened before the check, so that a command can work on several at once.
    let ids: Vec<_> = chains.iter().map(|c| panel.open(&c.problem)).collect();
    let items = ids.iter().zip(chains).map(|(&id, chain)| CheckItem {
        id,
        steps: chain.steps.iter().map(|step| step.text.as_str()).collect(),
    });
    let said = panel.check(&items.collect::<Vec<_>>());
    for id in ids {
        panel.release(id);
    }
    said
}
