//! The results folder of a reranking: rows, report and figures.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::Pools;
use super::outline::Outline;
use super::report::Report;
use super::row::Row;
use super::{markdown, plots};
use crate::Error;
use crate::report::about::About;
use crate::report::folder::{
    ROWS, each, free_folder, read_results, write_lines, write_report, write_results,
};

/// The object in `results.json` that has the outline under `pool`.
#[derive(Serialize, Deserialize)]
struct Reranked<O> {
    pool: O,
}

/// Makes the results folder. Callers do this before they score solutions, which may take hours.
///
/// # Errors
/// The folder cannot be made, or has rows already.
pub fn create(folder: &Path) -> Result<(), Error> {
    free_folder(folder)
}

/// Returns whether `folder` has a report of pools, and not of a bench or an evaluation.
#[must_use]
pub fn is_pool(folder: &Path) -> bool {
    // The key `pool` suffices, since the outline may be of another version.
    read_results::<Reranked<serde_json::Value>>(folder).is_ok()
}

impl Pools {
    /// Computes the report in memory, without writing files.
    #[must_use]
    pub fn report(self) -> Report {
        Report::of(self.outline, &self.rows)
    }

    /// Writes the rows and their report into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(self, folder: &Path, about: &About) -> Result<Report, Error> {
        write_lines(&folder.join(ROWS), &self.rows)?;
        // A report is a function of its files, so the rows are read back.
        let rows = read(folder, &self.outline)?;
        draw(folder, about, self.outline, &rows)
    }
}

/// Writes the report of a folder again, from its outline and its rows.
///
/// # Errors
/// The folder has no report of pools, or its files cannot be used or written.
pub fn redraw(folder: &Path) -> Result<Report, Error> {
    let given = read_results::<Reranked<Outline>>(folder)?;
    let outline = given.outline.pool;
    let rows = read(folder, &outline)?;
    draw(folder, &given.about, outline, &rows)
}

fn read(folder: &Path, outline: &Outline) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    each(&folder.join(ROWS), |row: Row| {
        row.check(outline.sets.len())?;
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn draw(folder: &Path, about: &About, outline: Outline, rows: &[Row]) -> Result<Report, Error> {
    let report = Report::of(outline, rows);
    // The text links to figures, and only those with data are drawn, so the figures come first.
    let plots = plots::draw(folder, &report)?;
    let text = markdown::text(about, &report, &plots);
    let title = format!("Pools of {}", about.date());
    write_report(folder, "README.md", &title, &text)?;
    let outline = Reranked {
        pool: &report.outline,
    };
    write_results(folder, about, &outline, &report)?;
    Ok(report)
}
