//! The files of a results folder besides the rows.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::measured::measured;
use super::outline::{Outline, UNFIT_NAME};
use super::report::Report;
use super::row::Row;
use super::store::{self, ROWS};
use super::summary::Summary;
use super::{csv, markdown, plots};
use crate::report::about::About;
use crate::report::folder::{RESULTS, read_results, write_report, write_results};
use crate::{Aggregated, Error};

/// The object in `results.json` that has the outline under `bench`.
#[derive(Serialize, Deserialize)]
struct Bench<O> {
    bench: O,
}

/// Writes `results.json` with the outline before any search runs, so that an unfinished folder can be identified.
///
/// # Errors
/// The file cannot be written.
pub(super) fn begin(folder: &Path, about: &About, outline: &Outline) -> Result<(), Error> {
    write_results(folder, about, &Bench { bench: outline }, &())
}

/// Writes the whole report of a finished folder, and returns its tables.
///
/// # Errors
/// A row is missing, or a file cannot be written.
pub(super) fn write(
    folder: &Path,
    about: &About,
    outline: &Outline,
    rows: &[Row],
) -> Result<(Vec<Summary>, Vec<Aggregated>), Error> {
    let source = folder.join(ROWS);
    let measured = measured(outline, rows, &source)?;
    let report = Report::of(outline, &measured);
    // The text links to figures, and only those with data are drawn, so the figures come first.
    let plots = plots::draw(folder, outline, &measured, &report.over_n)?;
    csv::write(&folder.join("results.csv"), &measured)?;
    let text = markdown::text(about, outline, &report, &plots);
    write_report(
        folder,
        "README.md",
        &format!("Bench of {}", about.date()),
        &text,
    )?;
    // Written last: in a new folder, an interrupted call leaves the file of `begin`, which has the outline alone.
    write_results(folder, about, &Bench { bench: outline }, &report)?;
    Ok((report.summary, report.aggregated))
}

/// The report of a folder that was drawn again.
#[derive(Debug)]
pub struct Redrawn {
    /// The measurement that a folder holds.
    pub outline: Outline,
    /// The rows of the main table, one for each cell on each set.
    pub summaries: Vec<Summary>,
    /// The choices of each aggregation among the scored samples of each pool.
    pub aggregated: Vec<Aggregated>,
}

/// Writes the report of a folder again, from the outline and the rows in the folder.
///
/// # Errors
/// The folder has no results, or they cannot be used or written.
pub fn redraw(folder: &Path) -> Result<Redrawn, Error> {
    let given = read_results::<Bench<Outline>>(folder)?;
    let (about, bench) = (given.about, given.outline.bench);
    // The folder may be from another source, with names that would break the tables or the page.
    if let Some(name) = bench.unfit_name() {
        return Err(Error::NoResults {
            path: folder.join(RESULTS),
            reason: format!("\"{name}\": {UNFIT_NAME}"),
        });
    }
    let rows = store::read(&folder.join(ROWS))?;
    let (summaries, aggregated) = write(folder, &about, &bench, &rows)?;
    Ok(Redrawn {
        outline: bench,
        summaries,
        aggregated,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::report::folder::Given;

    /// If a key of the settings is renamed, the old name must stay as an alias. Otherwise the shipped reports could
    /// not be drawn again.
    #[test]
    fn shipped_reports_can_be_drawn_again_and_have_no_undefined_figure() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/results");
        let mut found = 0;
        let mut folders = vec![shipped];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.with_file_name("report.md").exists() {
                    // A report of eval-prm.
                } else if path.file_name().is_some_and(|name| name == RESULTS) {
                    let text = fs::read(&path).expect("a file");
                    let given: Given<Bench<Outline>> = serde_json::from_slice(&text)
                        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                    assert!(!given.outline.bench.cells.is_empty());
                    let report = fs::read_to_string(path.with_file_name("README.md"));
                    let report = report.expect("a report");
                    for none in ["\u{221e}", "NaN", "(inf"] {
                        assert!(!report.contains(none), "{}: {none}", path.display());
                    }
                    found += 1;
                }
            }
        }
        assert!(found >= 3, "{found}");
    }
}
