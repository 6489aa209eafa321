//! The folder of a report.

use std::path::Path;

use beamgen::Aggregation;
use beamgen::eval::calibrate::{PolicyName, ScoreMap};
use beamgen::eval::quality::ScoredChain;
use beamgen_labels::LabelRule;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::data::SetOutline;
use super::probes::SetProbes;
use super::results::SetReport;
use super::{markdown, plots, probes};
use crate::Error;
use crate::report::about::About;
use crate::report::page::write_page;
use crate::report::{create_folder, write_file};

/// Raw scores, a chain a line.
const ROWS: &str = "rows.jsonl";

/// Raw scores of changed chains, a chain a line, if there are probes.
const PROBES: &str = "probes.jsonl";

/// Everything but the rows.
const RESULTS: &str = "results.json";

/// The largest such files read.
const MAX_BYTES: u64 = 4 << 30;

/// The subject of a report, and how it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The reward model, as it was named.
    pub model: String,
    /// A score below it flags a step.
    pub threshold: f32,
    /// The rule that labels were derived with.
    pub rule: LabelRule,
    /// How step scores become a chain's, if there are probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Aggregation>,
    /// The files.
    pub sets: Vec<SetOutline>,
    /// The calibration whose probabilities are shown with the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
}

/// A calibration in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    /// Its file, as it was named.
    pub name: String,
    /// The policy that it was fitted to.
    pub policy: PolicyName,
    /// The score of the chain so far that it takes.
    pub aggregation: Aggregation,
    /// The map from scores to probabilities.
    pub map: ScoreMap,
}

/// A report: what it is about, and the figures and the rows of each set.
pub struct Report {
    pub(super) outline: Outline,
    pub(super) sets: Vec<SetReport>,
    pub(super) rows: Vec<Vec<ScoredChain>>,
}

/// A line of the rows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The number of its set.
    set: usize,
    chain: ScoredChain,
}

#[derive(Serialize)]
struct Results<'a> {
    about: &'a About,
    outline: &'a Outline,
    sets: &'a [SetReport],
}

/// What a report is drawn from besides the rows.
#[derive(Deserialize)]
struct Given {
    about: About,
    outline: Outline,
}

/// Makes the folder, before anything is scored.
///
/// # Errors
/// The folder cannot be made, or has a report already.
pub fn create(folder: &Path) -> Result<(), Error> {
    create_folder(folder)?;
    let rows = folder.join(ROWS);
    match rows.exists() {
        false => Ok(()),
        true => Err(Error::Exists { path: rows }),
    }
}

/// The raw scores of a report.
pub struct Rows {
    /// The chains of each set with their scores.
    pub sets: Vec<Vec<ScoredChain>>,
    /// The scores of changed chains.
    pub(super) probes: Vec<probes::Row>,
}

/// Writes everything, a set's rows at the place of its outline.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, about: &About, outline: &Outline, rows: Rows) -> Result<Report, Error> {
    let of_set = |(set, chains): (usize, Vec<ScoredChain>)| {
        chains.into_iter().map(move |chain| Row { set, chain })
    };
    let sets = rows.sets.into_iter().enumerate().flat_map(of_set);
    write_lines(&folder.join(ROWS), lines(sets))?;
    if outline.probes.is_some() {
        write_lines(&folder.join(PROBES), lines(rows.probes))?;
    }
    // A report is a function of its files, so the rows are read back.
    let rows = read(folder, outline)?;
    draw(folder, about, outline.clone(), rows)
}

fn lines(rows: impl IntoIterator<Item = impl Serialize>) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, &row)?;
        text.push(b'\n');
    }
    Ok(text)
}

fn write_lines(path: &Path, lines: serde_json::Result<Vec<u8>>) -> Result<(), Error> {
    write_file(
        path,
        &lines.map_err(|error| Error::writing(path)(error.into()))?,
    )
}

/// Writes everything but the rows again.
///
/// # Errors
/// The folder has no report, or its files cannot be used or written.
pub fn redraw(folder: &Path) -> Result<Report, Error> {
    let path = folder.join(RESULTS);
    let fault = |reason: String| Error::NoResults {
        path: path.clone(),
        reason,
    };
    let text = beamgen_files::read_regular_file(&path, MAX_BYTES)
        .map_err(|error| fault(error.to_string()))?;
    let given: Given = serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))?;
    let rows = read(folder, &given.outline)?;
    draw(folder, &given.about, given.outline, rows)
}

fn read(folder: &Path, outline: &Outline) -> Result<Rows, Error> {
    let mut sets = vec![Vec::new(); outline.sets.len()];
    each(&folder.join(ROWS), |row: Row| {
        row.chain.check().map_err(|error| error.to_string())?;
        let count = sets.len();
        let set = sets.get_mut(row.set);
        let set = set.ok_or_else(|| format!("field \"set\": there are {count}"))?;
        set.push(row.chain);
        Ok(())
    })?;
    let mut changed = Vec::new();
    if outline.probes.is_some() {
        each(&folder.join(PROBES), |row: probes::Row| {
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

/// Calls `take` with every line of a file of rows; it says what is wrong with one.
fn each<T: DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), Error> {
    let text = beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::reading(path))?;
    for (number, line) in text.lines().enumerate() {
        let row = serde_json::from_str(line).map_err(|error| error.to_string());
        row.and_then(&mut take).map_err(|reason| {
            let line = number + 1;
            Error::reading(path)(format!(
                "line {line}: {reason}: it is not as it was written"
            ))
        })?;
    }
    Ok(())
}

/// Makes the report of raw scores.
#[must_use]
pub fn report(outline: Outline, rows: Rows) -> Report {
    let map = outline.calibration.as_ref();
    let map = map.map(|of| (&of.map, of.aggregation));
    let set = |(number, (of, chains)): (usize, (&SetOutline, &Vec<ScoredChain>))| SetReport {
        probes: outline.probes.map(|aggregation| {
            SetProbes::of(number, chains, &rows.probes, aggregation, outline.threshold)
        }),
        ..SetReport::of(&of.name, chains, outline.threshold, map)
    };
    let sets = outline.sets.iter().zip(&rows.sets).enumerate();
    Report {
        sets: sets.map(set).collect(),
        outline,
        rows: rows.sets,
    }
}

fn draw(folder: &Path, about: &About, outline: Outline, rows: Rows) -> Result<Report, Error> {
    let measured = report(outline, rows);
    let Report { outline, sets, .. } = &measured;
    let plots = plots::draw(folder, outline.threshold, sets)?;
    let text = markdown::text(about, outline, sets, &plots);
    write_file(&folder.join("report.md"), text.as_bytes())?;
    write_page(folder, &format!("Reward model, {}", about.date()), &text)?;
    let results = Results {
        about,
        outline,
        sets,
    };
    let path = folder.join(RESULTS);
    let mut text =
        serde_json::to_vec_pretty(&results).map_err(|error| Error::writing(&path)(error.into()))?;
    text.push(b'\n');
    write_file(&path, &text)?;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A field that is renamed takes its old name along, or these are measured anew.
    #[test]
    fn shipped_reports_can_be_drawn_anew() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for model in ["bundled", "random"] {
            let folder = root.join("benches/results/2026-11-23-eval-prm").join(model);
            let text = fs::read(folder.join(RESULTS)).expect("a file");
            let given: Given = serde_json::from_slice(&text).expect("results");
            let rows = read(&folder, &given.outline).expect("rows");
            let chains: usize = rows.sets.iter().map(Vec::len).sum();
            assert_eq!(chains, 500, "{model}");
        }
    }
}
