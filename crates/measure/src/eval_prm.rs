//! Evaluation of a reward model on labelled chains. The main figure is how well the model finds the first wrong step
//! (`ProcessBench`, arXiv 2412.06559). Probes test whether tricks can raise its scores.

mod data;
mod folder;
mod markdown;
mod outline;
mod partial;
mod plots;
mod probes;
mod results;
mod summary;
#[cfg(test)]
mod tests;

use beamgen::scorer::Scorer;

pub use data::{Set, open};
pub use folder::{Report, Rows, create, redraw, report, write};
pub use outline::{Calibrated, Outline, SetOutline};
pub use partial::{Partial, PartialRow, partial};
pub use probes::SetProbes;
pub use summary::Summary;

use crate::{Error, Watch, scores};

/// The seed of every bootstrap, so that a report drawn again is the same.
const SEED: u64 = 0;

/// Scores the chains of the sets, and changed copies of them if `probes` is true. A chain that the model refuses has
/// no scores.
///
/// # Errors
/// The model is lost, or the caller cancelled.
pub fn score(
    model: &mut dyn Scorer,
    mut sets: Vec<Set>,
    probes: bool,
    watch: &mut dyn Watch,
) -> Result<Rows, Error> {
    let total = sets.iter().map(|set| set.chains.len()).sum();
    watch.begin(total, "chains", total as f64);
    for set in &mut sets {
        let judged = scores::judge(model, &set.chains, watch)?;
        for (row, scores) in set.rows.iter_mut().zip(judged) {
            row.scores = scores;
        }
    }
    let probes = if probes {
        // Effects of probes are differences to the chains' own scores, so the chains are scored first.
        probes::score(model, &sets, watch)?
    } else {
        Vec::new()
    };
    Ok(Rows {
        sets: sets.into_iter().map(|set| set.rows).collect(),
        probes,
    })
}
