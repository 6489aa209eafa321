//! The folder of a report: `results.json`, the text with its HTML page, and the files of rows.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::about::About;
use super::{create_folder, write_file};
use crate::Error;

/// The file with everything but the rows.
pub(crate) const RESULTS: &str = "results.json";

/// The file of raw rows, a JSON object on each line.
pub(crate) const ROWS: &str = "rows.jsonl";

/// The largest accepted file of results or rows, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// The largest SVG file that is embedded in the page, in bytes.
const MAX_FIGURE: u64 = 1 << 26;

/// The contents of `results.json`. The fields of `outline` and `figures` are keys next to `about`.
#[derive(Serialize)]
struct Results<'a, O, F> {
    about: &'a About,
    #[serde(flatten)]
    outline: &'a O,
    #[serde(flatten)]
    figures: &'a F,
}

/// The parts of `results.json` that are needed to draw a report again. Figures are computed again from the rows.
#[derive(Deserialize)]
pub(crate) struct Given<O> {
    pub about: About,
    #[serde(flatten)]
    pub outline: O,
}

/// Writes `results.json`. `outline` and `figures` are structs whose fields become keys. `()` stands for no figures.
pub(crate) fn write_results(
    folder: &Path,
    about: &About,
    outline: &impl Serialize,
    figures: &impl Serialize,
) -> Result<(), Error> {
    let path = folder.join(RESULTS);
    let results = Results {
        about,
        outline,
        figures,
    };
    let mut text =
        serde_json::to_vec_pretty(&results).map_err(|error| Error::writing(&path)(error.into()))?;
    text.push(b'\n');
    write_file(&path, &text)
}

/// Reads `results.json`; its figures are ignored, because they are computed again from the rows.
pub(crate) fn read_results<O: DeserializeOwned>(folder: &Path) -> Result<Given<O>, Error> {
    let path = folder.join(RESULTS);
    let text = beamgen_files::read_regular_file(&path, MAX_BYTES).map_err(|e| e.to_string());
    text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        .map_err(|reason| Error::NoResults { path, reason })
}

/// Writes a Markdown report to the file `name`, and as HTML to `index.html`. The page embeds the SVG figures of the
/// folder.
pub(crate) fn write_report(
    folder: &Path,
    name: &str,
    title: &str,
    markdown: &str,
) -> Result<(), Error> {
    write_file(&folder.join(name), markdown.as_bytes())?;
    // The figures are embedded, so that the page can be sent as a single file.
    let page = beamgen_view::document(title, markdown, &|name: &str| {
        // Figures are in the folder itself, whatever else a report might name.
        let is_plain = name.ends_with(".svg") && !name.contains(['/', '\\']);
        is_plain
            .then(|| beamgen_files::read_regular_file(&folder.join(name), MAX_FIGURE).ok())
            .flatten()
    });
    write_file(&folder.join("index.html"), page.as_bytes())
}

/// Makes the folder; returns an error if it already has rows.
pub(crate) fn free_folder(folder: &Path) -> Result<(), Error> {
    create_folder(folder)?;
    let rows = folder.join(ROWS);
    if !rows.exists() {
        Ok(())
    } else {
        Err(Error::Exists { path: rows })
    }
}

pub(crate) fn write_lines(
    path: &Path,
    rows: impl IntoIterator<Item = impl Serialize>,
) -> Result<(), Error> {
    let mut text = Vec::new();
    for row in rows {
        let written = serde_json::to_writer(&mut text, &row);
        written.map_err(|error| Error::writing(path)(error.into()))?;
        text.push(b'\n');
    }
    // The file is replaced atomically, so a crash leaves no incomplete file.
    write_file(path, &text)
}

/// Calls `take` with each row of a file. An error of `take` gets the number of the line.
pub(crate) fn each<T: DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), Error> {
    let text = beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::reading(path))?;
    for (number, line) in text.lines().enumerate() {
        let row = serde_json::from_str(line).map_err(|error| error.to_string());
        row.and_then(&mut take).map_err(|reason| {
            let line = number + 1;
            Error::reading(path)(format!(
                "line {line}: {reason}: restore the file as beamgen wrote it"
            ))
        })?;
    }
    Ok(())
}
