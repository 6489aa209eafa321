//! Solves equal problems under several strategies.
//!
//! A [`Plan`] says what is measured, a [`Measurement`] runs it and a store keeps a raw row per
//! problem. Everything after that is a function of the rows: a report is drawn from them as often
//! as one likes.

mod against;
mod allocation;
mod audit;
mod compare;
mod csv;
mod folder;
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
pub use measure::{Host, Measurement, Outcome};
pub use outline::{Cell, Outline, PlotOutline, SetOutline, UNFIT_NAME, is_fit_name};
pub use plan::{Cells, Plan, Search, crossed, unscored_unless_needed};
pub use row::{Chains, Depths, Row};
pub use summary::{COLUMNS, SOUND_COLUMNS, Sound, Summary, Twins};

use measured::{Measured, measured, measured_so_far};

use crate::Error;
use crate::rerank::Aggregated;

/// Puts the rows of a bench together, by set and then by cell, with what each aggregation chooses.
fn tables(outline: &Outline, rows: &[Row]) -> Result<(Vec<Summary>, Vec<Aggregated>), Error> {
    let measured = measured(outline, rows, "the rows".as_ref())?;
    let pools = measured.iter().filter_map(pools::Pools::of);
    let aggregated = pools.flat_map(|pool| pool.aggregated(&outline.sets[pool.set()].name));
    let aggregated = aggregated.collect();
    Ok((summed(outline, &measured), aggregated))
}

/// Puts the rows of a bench that was not finished together: the cells that have any.
fn summaries_so_far(outline: &Outline, rows: &[Row]) -> Vec<Summary> {
    summed(outline, &measured_so_far(outline, rows))
}

fn summed(outline: &Outline, cells: &[Measured<'_>]) -> Vec<Summary> {
    cells
        .iter()
        .map(|cell| soundness::summary(cell, outline))
        .collect()
}
