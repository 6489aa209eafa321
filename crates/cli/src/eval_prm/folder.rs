//! The folder of a report.

use std::fs;
use std::path::Path;

use beamgen::eval::quality::ScoredChain;
use beamgen_labels::LabelRule;
use serde::{Deserialize, Serialize};

use super::data::SetOutline;
use super::results::SetReport;
use super::{markdown, plots};
use crate::failure::Failure;
use crate::report::about::About;
use crate::report::page::write_page;
use crate::report::write::write_file;

/// Raw scores, a chain a line.
const ROWS: &str = "rows.jsonl";

/// Everything but the rows.
const RESULTS: &str = "results.json";

/// The largest such files read.
const MAX_BYTES: u64 = 4 << 30;

/// What was measured, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The reward model, as it was named.
    pub model: String,
    pub threshold: f32,
    /// How labels were derived.
    pub rule: LabelRule,
    pub sets: Vec<SetOutline>,
}

/// What a report was written of; of each set its report and its rows.
pub struct Measured {
    pub outline: Outline,
    pub sets: Vec<SetReport>,
    pub rows: Vec<Vec<ScoredChain>>,
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

/// Makes the folder. One with a report is refused, before anything is scored.
pub fn create(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::Input(format!("{}: {error}", folder.display())))?;
    let rows = folder.join(ROWS);
    match rows.exists() {
        false => Ok(()),
        true => Err(Failure::Input(format!(
            "{}: is there already: choose another --report, or draw it anew with --redraw",
            rows.display()
        ))),
    }
}

/// Writes everything, a set's rows at the place of its outline.
pub fn write(
    folder: &Path,
    about: &About,
    outline: &Outline,
    rows: Vec<Vec<ScoredChain>>,
) -> Result<Measured, Failure> {
    let mut text = Vec::new();
    for (set, chains) in rows.into_iter().enumerate() {
        for chain in chains {
            serde_json::to_writer(&mut text, &Row { set, chain })
                .map_err(|error| Failure::Run(error.into()))?;
            text.push(b'\n');
        }
    }
    write_file(&folder.join(ROWS), &text)?;
    // A report is a function of its files, so the rows are read back.
    let rows = read(folder, outline.sets.len())?;
    report(folder, about, outline.clone(), rows)
}

/// Writes everything but the rows anew.
pub fn redraw(folder: &Path) -> Result<Measured, Failure> {
    let path = folder.join(RESULTS);
    let fault = |reason: String| {
        Failure::Input(format!(
            "{}: {reason}: give the folder of an eval-prm --report",
            path.display()
        ))
    };
    let text = beamgen_files::read_regular_file(&path, MAX_BYTES)
        .map_err(|error| fault(error.to_string()))?;
    let given: Given = serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))?;
    let rows = read(folder, given.outline.sets.len())?;
    report(folder, &given.about, given.outline, rows)
}

fn read(folder: &Path, sets: usize) -> Result<Vec<Vec<ScoredChain>>, Failure> {
    let path = folder.join(ROWS);
    let text = beamgen_files::read_text_file(&path, MAX_BYTES)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let mut rows = vec![Vec::new(); sets];
    for (number, line) in text.lines().enumerate() {
        let fault = |reason: String| {
            Failure::Input(format!(
                "{}: line {}: {reason}: it is not as it was written",
                path.display(),
                number + 1
            ))
        };
        let row: Row = serde_json::from_str(line).map_err(|error| fault(error.to_string()))?;
        row.chain
            .check()
            .map_err(|error| fault(error.to_string()))?;
        let set = rows.get_mut(row.set);
        set.ok_or_else(|| fault(format!("field \"set\": there are {sets}")))?
            .push(row.chain);
    }
    Ok(rows)
}

fn report(
    folder: &Path,
    about: &About,
    outline: Outline,
    rows: Vec<Vec<ScoredChain>>,
) -> Result<Measured, Failure> {
    let set = |(of, rows): (&SetOutline, &Vec<ScoredChain>)| {
        SetReport::of(&of.name, rows, outline.threshold)
    };
    let sets: Vec<SetReport> = outline.sets.iter().zip(&rows).map(set).collect();
    let plots = plots::draw(folder, outline.threshold, &sets)?;
    let text = markdown::text(about, &outline, &sets, &plots);
    write_file(&folder.join("report.md"), text.as_bytes())?;
    write_page(folder, &format!("Reward model, {}", about.date()), &text)?;
    let results = Results {
        about,
        outline: &outline,
        sets: &sets,
    };
    let mut text =
        serde_json::to_vec_pretty(&results).map_err(|error| Failure::Run(error.into()))?;
    text.push(b'\n');
    write_file(&folder.join(RESULTS), &text)?;
    Ok(Measured {
        outline,
        sets,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that is renamed takes its old name along, or these are measured anew.
    #[test]
    fn shipped_reports_can_be_drawn_anew() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for model in ["bundled", "random"] {
            let folder = root.join("benches/results/2026-11-23-eval-prm").join(model);
            let text = fs::read(folder.join(RESULTS)).expect("a file");
            let given: Given = serde_json::from_slice(&text).expect("results");
            let rows = read(&folder, given.outline.sets.len()).expect("rows");
            let chains: usize = rows.iter().map(Vec::len).sum();
            assert_eq!(chains, 500, "{model}");
        }
    }
}
