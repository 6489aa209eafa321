//! A bench that can be run: what it is, and the texts of its problems.

use beamgen::Config;
use beamgen::eval::Problems;

use super::outline::{Cell, Outline};

/// A bench, ready to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The measured quantity.
    pub outline: Outline,
    /// The problems of each set of the outline.
    pub problems: Vec<Problems>,
}

/// Cells, each once.
#[derive(Debug, Default)]
pub struct Cells(pub Vec<Cell>);

impl Cells {
    /// Adds a run at the number of chains of its settings.
    ///
    /// # Errors
    /// The settings do not go together.
    pub fn add(&mut self, run: String, mut config: Config) -> Result<(), beamgen::Error> {
        // A beam narrower than M expands by what it has.
        config.search.m = config.search.m.min(config.search.n);
        config.check()?;
        let cell = Cell { run, config };
        if !self.0.iter().any(|there| there.label() == cell.label()) {
            self.0.push(cell);
        }
        Ok(())
    }
}
