//! Evaluation of a reward model on labelled chains: how well it finds the first wrong step
//! (`ProcessBench`, 2412.06559), with many further figures, and how it can be gamed (probes).

mod data;
mod folder;
mod markdown;
mod outline;
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
pub use probes::SetProbes;
pub use summary::Summary;

use crate::{Error, Watch, scores};

/// The seed of every bootstrap, so that a report drawn again is the same.
const SEED: u64 = 0;

/// Scores the chains of the sets and, with `probes`, changed copies of the chains. A chain that the
/// model refuses has no scores.
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
        // After the chains themselves, because effects are differences to their scores.
        probes::score(model, &sets, watch)?
    } else {
        Vec::new()
    };
    Ok(Rows {
        sets: sets.into_iter().map(|set| set.rows).collect(),
        probes,
    })
}
