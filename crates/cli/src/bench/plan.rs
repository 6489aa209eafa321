//! A bench that can be run: what it is, and the texts of its problems.

use std::path::Path;

use beamgen::eval::Problems;
use beamgen::{Config, ScorerKind};

use super::outline::{Cell, Outline};
use crate::args::BenchArgs;
use crate::failure::Failure;

/// A bench, ready to be run.
pub struct Plan {
    pub outline: Outline,
    /// The problems of each set of the outline.
    pub problems: Vec<Problems>,
}

/// The problem file of the command line, if there is one.
pub fn given_file(args: &BenchArgs) -> Option<&Path> {
    args.file.as_deref().or(args.problems.as_deref())
}

/// What only samples or votes is not charged for scores that nobody asks for.
pub fn unscored_unless_needed(config: &mut Config) {
    if config.search.needs_scorer().is_none() {
        config.models.scorer = ScorerKind::None;
    }
}

/// Cells, each once.
#[derive(Default)]
pub struct Cells(pub Vec<Cell>);

impl Cells {
    pub fn add(&mut self, run: String, mut config: Config) -> Result<(), Failure> {
        // A beam narrower than M expands by what it has.
        config.search.m = config.search.m.min(config.search.n);
        config.check().map_err(|error| {
            Failure::Input(format!(
                "run \"{run}\" at n = {}: {}",
                config.search.n,
                Failure::from(error)
            ))
        })?;
        let cell = Cell { run, config };
        if !self.0.iter().any(|there| there.label() == cell.label()) {
            self.0.push(cell);
        }
        Ok(())
    }
}
