//! Starts a command's checkers.

use beamgen::checkers::Panel;
use beamgen::launcher::Launcher;

use crate::failure::Failure;

/// Starts the checkers that the settings name.
pub(crate) fn panel(config: &beamgen::Config) -> Result<Panel, Failure> {
    let mut panel = Panel::default();
    for (name, checker) in config.checkers.open(&Launcher::this_program())? {
        panel.add(name, checker);
    }
    Ok(panel)
}
