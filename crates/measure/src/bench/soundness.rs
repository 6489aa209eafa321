//! Right answers by sound chains, and right answers by chains with a wrong step.

use beamgen::eval::twins;

use super::audit::Audit;
use super::measured::{Measured, interval};
use super::outline::Outline;
use super::row::Row;
use super::summary::{Sound, Summary, Twins};

/// Returns the row of a cell in the table.
pub(super) fn summary(cell: &Measured<'_>, outline: &Outline) -> Summary {
    Summary {
        sound: sound(cell),
        twins: both_twins(cell),
        ..cell.summary(outline)
    }
}

/// Returns what the audits of a cell found; `None` if a search was not audited.
pub(super) fn sound(cell: &Measured<'_>) -> Option<Sound> {
    let rows: Vec<&Row> = cell.rows.iter().flatten().copied().collect();
    if rows.iter().any(|row| row.audit.is_none()) {
        return None;
    }
    let by_problem: Vec<f64> = cell
        .rows
        .iter()
        .map(|seeds| {
            let sound = seeds
                .iter()
                .filter(|row| row.correct && row.audit == Some(Audit::Sound));
            sound.count() as f64 / seeds.len() as f64
        })
        .collect();
    let right: Vec<Option<Audit>> = rows
        .iter()
        .filter(|row| row.correct)
        .map(|row| row.audit)
        .collect();
    // In the order of `Evidence::ALL`, by which tables look the numbers up.
    let unsound = [Audit::Checker, Audit::Label, Audit::Scorer]
        .map(|audit| right.iter().filter(|found| **found == Some(audit)).count());
    Some(Sound {
        share: interval(&by_problem).into(),
        right: right.len(),
        unsound,
    })
}

/// Returns the share of pairs of twins with right answers to both, seed by seed; `None` without
/// pairs.
fn both_twins(cell: &Measured<'_>) -> Option<Twins> {
    let by_id = cell.rows.iter().filter_map(|rows| {
        let id = rows.first()?.id.as_str();
        Some((id, rows.as_slice()))
    });
    // The id of a twin names the problem that it was made from.
    let pairs = twins::pairs(by_id);
    let shares: Vec<f64> = pairs
        .iter()
        .map(|&(one, other)| {
            let both = one
                .iter()
                .zip(other)
                // Both searches of a pair must be right with the same seed.
                .filter(|(a, b)| a.correct && b.correct);
            both.count() as f64 / one.len().max(1) as f64
        })
        .collect();
    (!shares.is_empty()).then(|| Twins {
        share: interval(&shares).into(),
        pairs: shares.len(),
    })
}
