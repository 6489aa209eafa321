//! The folder of a report.

use std::path::Path;

use beamgen::eval::quality::ScoredChain;
use serde::{Deserialize, Serialize};

use super::outline::Outline;
use super::probes::SetProbes;
use super::results::SetReport;
use super::{markdown, plots, probes};
use crate::Error;
use crate::report::about::About;
use crate::report::folder::{
    ROWS, each, free_folder, read_results, write_lines, write_report, write_results,
};

/// The file with the scores of changed chains, which exists only if probes were made.
const PROBES: &str = "probes.jsonl";

/// A report in memory: the outline, and the figures and rows of each set.
pub struct Report {
    pub(super) outline: Outline,
    pub(super) sets: Vec<SetReport>,
    pub(super) rows: Vec<Vec<ScoredChain>>,
}

/// A line of the rows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    set: usize,
    chain: ScoredChain,
}

/// The object in `results.json` that has the outline under `outline`.
#[derive(Serialize, Deserialize)]
struct Outlined<O> {
    outline: O,
}

/// The object in `results.json` that has the figures under `sets`.
#[derive(Serialize)]
struct Figures<'a> {
    sets: &'a [SetReport],
}

/// Makes the folder of a report. Callers do this before they score chains, which may take hours.
///
/// # Errors
/// The folder cannot be made, or has a report already.
pub fn create(folder: &Path) -> Result<(), Error> {
    free_folder(folder)
}

/// The raw scores of a report.
pub struct Rows {
    /// The chains of each set with their scores.
    pub sets: Vec<Vec<ScoredChain>>,
    /// The scores of changed chains.
    pub(super) probes: Vec<probes::Row>,
}

/// Writes the rows and the report of an evaluation. The sets of `rows` are in the order of the outline.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, about: &About, outline: &Outline, rows: Rows) -> Result<Report, Error> {
    let sets = rows
        .sets
        .into_iter()
        .enumerate()
        .flat_map(|(set, chains)| chains.into_iter().map(move |chain| Row { set, chain }));
    write_lines(&folder.join(ROWS), sets)?;
    if outline.probes.is_some() {
        write_lines(&folder.join(PROBES), rows.probes)?;
    }
    // A report is a function of its files, so the rows are read back.
    let rows = read(folder, outline)?;
    draw(folder, about, outline.clone(), rows)
}

/// Writes the report of a folder again, from its outline and its rows.
///
/// # Errors
/// The folder has no report, or its files cannot be used or written.
pub fn redraw(folder: &Path) -> Result<Report, Error> {
    let given = read_results::<Outlined<Outline>>(folder)?;
    let outline = given.outline.outline;
    let rows = read(folder, &outline)?;
    draw(folder, &given.about, outline, rows)
}

fn read(folder: &Path, outline: &Outline) -> Result<Rows, Error> {
    let mut sets = vec![Vec::new(); outline.sets.len()];
    each(&folder.join(ROWS), |row: Row| {
        // The file may have been edited, and invalid scores would give meaningless figures.
        row.chain.check().map_err(|error| error.to_string())?;
        let count = sets.len();
        let set = sets.get_mut(row.set);
        let set = set.ok_or_else(|| format!("field \"set\": the report has only {count} sets"))?;
        set.push(row.chain);
        Ok(())
    })?;
    let mut changed = Vec::new();
    if outline.probes.is_some() {
        each(&folder.join(PROBES), |row: probes::Row| {
            // A row of a probe has the index of its chain, so it is checked against the chains.
            row.check(&sets)?;
            changed.push(row);
            Ok(())
        })?;
    }
    Ok(Rows {
        sets,
        probes: changed,
    })
}

/// Makes the report of raw scores.
#[must_use]
pub fn report(outline: Outline, rows: Rows) -> Report {
    let map = outline.calibration.as_ref();
    let map = map.map(|of| (&of.map, of.aggregation));
    let sets = outline.sets.iter().zip(&rows.sets).enumerate();
    Report {
        sets: sets
            .map(|(number, (of, chains))| SetReport {
                probes: outline.probes.map(|aggregation| {
                    SetProbes::of(number, chains, &rows.probes, aggregation, outline.threshold)
                }),
                ..SetReport::of(&of.name, chains, outline.threshold, map)
            })
            .collect(),
        outline,
        rows: rows.sets,
    }
}

fn draw(folder: &Path, about: &About, outline: Outline, rows: Rows) -> Result<Report, Error> {
    let measured = report(outline, rows);
    let Report { outline, sets, .. } = &measured;
    // The text links to figures, and only those with data are drawn, so the figures come first.
    let plots = plots::draw(folder, outline.threshold, sets)?;
    let text = markdown::text(about, outline, sets, &plots);
    write_report(
        folder,
        "report.md",
        &format!("Reward model, {}", about.date()),
        &text,
    )?;
    write_results(folder, about, &Outlined { outline }, &Figures { sets })?;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a field is renamed, the old name must stay as an alias. Otherwise the shipped reports could not be drawn
    /// again.
    #[test]
    fn shipped_reports_can_be_drawn_again() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for model in ["bundled", "random"] {
            let folder = root.join("benches/results/2026-11-23-eval-prm").join(model);
            let given = read_results::<Outlined<Outline>>(&folder).expect("results");
            let rows = read(&folder, &given.outline.outline).expect("rows");
            let chains: usize = rows.sets.iter().map(Vec::len).sum();
            assert_eq!(chains, 500, "{model}");
        }
    }
}
