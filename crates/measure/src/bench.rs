//! Solves equal problems under several strategies.
//!
//! A [`Plan`] describes the bench, and a [`Measurement`] runs it. A raw row is stored for each problem. Reports are
//! functions of these rows, so they can be drawn again at any time.

mod against;
mod allocation;
mod audit;
mod compare;
mod csv;
mod folder;
mod headline;
mod markdown;
mod measure;
mod measured;
mod outline;
mod over_n;
mod plan;
mod plots;
mod pools;
mod report;
mod row;
mod share;
mod soundness;
mod store;
mod summary;

pub use audit::Audit;
pub use folder::{Redrawn, redraw};
pub use measure::{Host, Measurement, Outcome, SearchForecast};
pub use outline::{Cell, Outline, PlotOutline, SetOutline, UNFIT_NAME, is_fit_name};
pub use plan::{Cells, Plan, Search, crossed, unscored_unless_needed};
pub use row::{Chains, Depths, Row};
pub use summary::{COLUMNS, SOUND_COLUMNS, Sound, Summary, Twins};

use measured::{Measured, measured, measured_so_far};

use crate::Error;
use crate::rerank::Aggregated;

/// Computes the tables of a finished bench: the summary of each cell on each set, and the choices of each
/// aggregation.
fn tables(outline: &Outline, rows: &[Row]) -> Result<(Vec<Summary>, Vec<Aggregated>), Error> {
    let measured = measured(outline, rows, "the rows".as_ref())?;
    // Only the largest plain search of each kind keeps its chains, so few cells have a pool.
    let pools = measured.iter().filter_map(pools::Pools::of);
    let aggregated = pools.flat_map(|pool| pool.aggregated(&outline.sets[pool.set()].name));
    let aggregated = aggregated.collect();
    Ok((summed(outline, &measured), aggregated))
}

/// Summarises an unfinished bench; cells without rows are left out.
fn summaries_so_far(outline: &Outline, rows: &[Row]) -> Vec<Summary> {
    summed(outline, &measured_so_far(outline, rows))
}

fn summed(outline: &Outline, cells: &[Measured<'_>]) -> Vec<Summary> {
    cells
        .iter()
        .map(|cell| soundness::summary(cell, outline))
        .collect()
}
