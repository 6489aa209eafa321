//! Right answers by sound chains, and pairs of twins with two right answers.

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
    // The order is that of `Evidence::ALL`, because tables index `unsound` by it.
    let unsound = [Audit::Checker, Audit::Label, Audit::Scorer]
        .map(|audit| right.iter().filter(|found| **found == Some(audit)).count());
    Some(Sound {
        share: interval(&by_problem).into(),
        right: right.len(),
        unsound,
    })
}

/// Returns the share of pairs of twins in which both answers are right with the same seed. Returns `None` if the set
/// has no twins.
fn both_twins(cell: &Measured<'_>) -> Option<Twins> {
    let by_id = cell.rows.iter().filter_map(|rows| {
        let id = rows.first()?.id.as_str();
        Some((id, rows.as_slice()))
    });
    // The id of a twin is that of its problem with a suffix.
    let pairs = twins::pairs(by_id);
    let shares: Vec<f64> = pairs
        .iter()
        .map(|&(one, other)| {
            let both = one
                .iter()
                .zip(other)
                // A pair counts for a seed if both searches with this seed are right.
                .filter(|(a, b)| a.correct && b.correct);
            both.count() as f64 / one.len().max(1) as f64
        })
        .collect();
    (!shares.is_empty()).then(|| Twins {
        share: interval(&shares).into(),
        pairs: shares.len(),
    })
}
