//! The interface through which a caller follows a measurement.

use beamgen::Event;
use beamgen::scorer::ScoreError;

/// Receives the progress of a measurement. Every method does nothing by default, and `()` ignores
/// all progress.
pub trait Watch {
    /// A measurement of `total` problems or chains begins; `unit` is their name in plural. `work`
    /// is the size of the whole measurement in arbitrary units, since its parts differ in cost.
    fn begin(&mut self, _total: usize, _unit: &'static str, _work: f64) {}

    /// A part with this name begins. Each of its problems takes `work` units.
    fn part(&mut self, _name: &str, _work: f64) {}

    /// A search reports an event.
    fn event(&mut self, _event: &Event<'_>) {}

    /// A problem or a chain is done; `correct` is whether a problem's answer is right, `None` for
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
