//! Everything that is reported, computed from the rows, and the files it goes to.

use std::fs;
use std::path::Path;

use beamgen::ScorerKind;
use serde::{Deserialize, Serialize};

use super::about::About;
use super::against::{Answer, answers};
use super::allocation::{Allocation, allocation};
use super::compare::{Difference, difference};
use super::measured::{Measured, Summary, measured};
use super::plan::{Outline, UNFIT_NAME};
use super::pools::{PoolCurve, Pools};
use super::row::Row;
use super::store::{self, ROWS};
use super::{csv, markdown, plots};
use crate::failure::Failure;

/// The file with everything but the rows.
const RESULTS: &str = "results.json";

/// The largest such file read.
const MAX_RESULTS: u64 = 1 << 30;

/// What is computed from the rows.
#[derive(Serialize)]
pub struct Report {
    pub summary: Vec<Summary>,
    /// Each strategy against the baseline.
    pub against: Vec<Answer>,
    pub compare: Vec<Difference>,
    pub pools: Vec<PoolCurve>,
    pub difficulty: Vec<Allocation>,
}

impl Report {
    pub fn of(outline: &Outline, measured: &[Measured<'_>]) -> Self {
        let summary = measured.iter().map(|cell| cell.summary(outline)).collect();
        let mut report = Self {
            summary,
            against: Vec::new(),
            compare: Vec::new(),
            pools: Vec::new(),
            difficulty: Vec::new(),
        };
        for (set, of) in outline.sets.iter().enumerate() {
            let cells: Vec<&Measured<'_>> =
                measured.iter().filter(|cell| cell.set == set).collect();
            report.add_set(outline, &of.name, &cells);
        }
        report
    }

    /// `cells` are all of the outline's, in order, on one set.
    fn add_set(&mut self, outline: &Outline, set: &str, cells: &[&Measured<'_>]) {
        let is_baseline = |cell: &&&Measured<'_>| Some(&cell.cell.run) == outline.baseline.as_ref();
        let mut baseline: Vec<&Measured<'_>> = cells.iter().filter(is_baseline).copied().collect();
        baseline.sort_by_key(|cell| cell.n());
        let others: Vec<&Measured<'_>> = cells
            .iter()
            .filter(|cell| !is_baseline(cell))
            .copied()
            .collect();
        self.against.extend(answers(set, &baseline, &others));
        for &(a, b) in &outline.compare {
            self.compare.push(difference(set, cells[a], cells[b]));
        }
        let pools: Vec<Pools<'_, '_>> = cells.iter().filter_map(|cell| Pools::of(cell)).collect();
        self.pools.extend(pools.iter().map(|pool| pool.curve(set)));
        if let Some(pool) = pools.iter().max_by_key(|pool| pool.samples_a_problem()) {
            let of = (pool.name(), pool.samples_a_problem());
            // The checker knows the answers: a ceiling and nothing to choose.
            let is_choice =
                |cell: &&&Measured<'_>| cell.cell.config.models.scorer != ScorerKind::Exact;
            let choices: Vec<&Measured<'_>> = cells.iter().filter(is_choice).copied().collect();
            self.difficulty
                .push(allocation(set, of, &pool.pass_rates(), &choices, &baseline));
        }
    }
}

/// `results.json`.
#[derive(Serialize)]
struct Results<'a> {
    about: &'a About,
    bench: &'a Outline,
    #[serde(flatten)]
    report: Option<&'a Report>,
}

/// What a report is drawn from besides the rows.
#[derive(Deserialize)]
struct Given {
    about: About,
    bench: Outline,
}

/// Notes what is going to be run, so that the folder explains itself from the start.
pub fn begin(folder: &Path, about: &About, outline: &Outline) -> Result<(), Failure> {
    write_results(
        folder,
        &Results {
            about,
            bench: outline,
            report: None,
        },
    )
}

/// Writes the whole report of a finished folder.
pub fn write(
    folder: &Path,
    about: &About,
    outline: &Outline,
    rows: &[Row],
) -> Result<Report, Failure> {
    let source = folder.join(ROWS);
    let measured = measured(outline, rows, &source.display().to_string())?;
    let report = Report::of(outline, &measured);
    let plots = plots::draw(folder, outline, &measured)?;
    csv::write(&folder.join("results.csv"), outline, &measured)?;
    let text = markdown::text(about, outline, &report, &plots);
    write_file(&folder.join("README.md"), text.as_bytes())?;
    write_results(
        folder,
        &Results {
            about,
            bench: outline,
            report: Some(&report),
        },
    )?;
    Ok(report)
}

/// Writes the report of a folder anew from what is in it.
pub fn redraw(folder: &Path) -> Result<(Outline, Report), Failure> {
    let path = folder.join(RESULTS);
    let fault = |reason: String| {
        Failure::Input(format!(
            "{}: {reason}: give the folder of a bench --out",
            path.display()
        ))
    };
    let text = beamgen_files::read_regular_file(&path, MAX_RESULTS)
        .map_err(|error| fault(error.to_string()))?;
    let given: Given = serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))?;
    if let Some(name) = given.bench.unfit_name() {
        return Err(fault(format!("\"{name}\": {UNFIT_NAME}")));
    }
    let rows = store::read(&folder.join(ROWS))?;
    let report = write(folder, &given.about, &given.bench, &rows)?;
    Ok((given.bench, report))
}

fn write_results(folder: &Path, results: &Results<'_>) -> Result<(), Failure> {
    let mut text =
        serde_json::to_vec_pretty(results).map_err(|error| Failure::Run(error.into()))?;
    text.push(b'\n');
    write_file(&folder.join(RESULTS), &text)
}

/// Writes a file aside and renames it, so that a kill leaves the old or the new one.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let aside = path.with_extension("part");
    fs::write(&aside, bytes)
        .and_then(|()| fs::rename(&aside, path))
        .map_err(|error| {
            Failure::Run(anyhow::Error::new(error).context(path.display().to_string()))
        })
}
