//! Whoever follows a measurement.

use beamgen::Event;
use beamgen::scorer::ScoreError;

/// Hears how far a measurement is. Every method does nothing by default, and `()` hears nothing.
pub trait Watch {
    /// A measurement of `total` problems or chains begins. Its parts take different amounts of work,
    /// `work` in all.
    fn begin(&mut self, _total: usize, _unit: &'static str, _work: f64) {}

    /// A part with this name begins. Each problem in it takes `work`.
    fn part(&mut self, _name: &str, _work: f64) {}

    /// Something happened in a search.
    fn event(&mut self, _event: &Event<'_>) {}

    /// A problem or a chain is done; `correct` tells whether a problem's answer is right.
    fn done(&mut self, _correct: Option<bool>) {}

    /// The reward model refused a chain.
    fn refused(&mut self, _chain: &str, _reason: &ScoreError) {}

    /// Whether scoring has to stop after the chains that are being scored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Watch for () {}
