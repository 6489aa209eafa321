//! Right answers by sound chains, and right ones by chains with a wrong step.

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
    let rows = || cell.rows.iter().flatten();
    let is_audited = rows().all(|row| row.audit.is_some());
    if !is_audited {
        return None;
    }
    let is_sound = |row: &&Row| row.correct && row.audit == Some(Audit::Sound);
    let part =
        |rows: &Vec<&Row>| rows.iter().copied().filter(is_sound).count() as f64 / rows.len() as f64;
    let by_problem: Vec<f64> = cell.rows.iter().map(part).collect();
    let count = |audit| {
        let found = rows().filter(|row| row.correct && row.audit == Some(audit));
        found.count()
    };
    Some(Sound {
        share: interval(&by_problem).into(),
        right: rows().filter(|row| row.correct).count(),
        unsound: [Audit::Checker, Audit::Label, Audit::Scorer].map(count),
    })
}

/// The share of pairs of twins that are right on both, each seed by itself; `None` without pairs.
fn both_twins(cell: &Measured<'_>) -> Option<Twins> {
    let by_id = cell.rows.iter().filter_map(|rows| {
        let id = rows.first()?.id.as_str();
        Some((id, rows.as_slice()))
    });
    let pairs = twins::pairs(by_id);
    let both = |&(one, other): &(&[&Row], &[&Row])| {
        let both = one
            .iter()
            .zip(other)
            .filter(|(a, b)| a.correct && b.correct);
        both.count() as f64 / one.len().max(1) as f64
    };
    let shares: Vec<f64> = pairs.iter().map(both).collect();
    (!shares.is_empty()).then(|| Twins {
        share: interval(&shares).into(),
        pairs: shares.len(),
    })
}
