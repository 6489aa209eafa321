//! The interface by which a caller follows and cancels a measurement.

use beamgen::Event;
use beamgen::scorer::ScoreError;

/// Receives the progress of a measurement. By default every method does nothing, so `()` ignores all progress.
pub trait Watch {
    /// Called when a measurement of `total` items begins; `unit` names the items in plural. `work` is the total work
    /// in arbitrary units, because items differ in cost.
    fn begin(&mut self, _total: usize, _unit: &'static str, _work: f64) {}

    /// Called when a part of the measurement begins. Each of its items takes `work` units.
    fn part(&mut self, _name: &str, _work: f64) {}

    /// Called for each event of a search, for example a finished step.
    fn event(&mut self, _event: &Event<'_>) {}

    /// Called after each problem or chain. `correct` tells whether the answer of a problem is right; it is `None` for
    /// chains.
    fn done(&mut self, _correct: Option<bool>) {}

    /// The reward model refused a chain.
    fn refused(&mut self, _chain: &str, _reason: &ScoreError) {}

    /// Whether scoring has to stop after the chains that are being scored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Watch for () {}
