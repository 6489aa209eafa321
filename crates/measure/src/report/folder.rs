//! The folder of a report: `results.json`, the text with its page, and files of rows.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::about::About;
use super::write_file;
use crate::Error;

/// The file with everything but the rows.
pub(crate) const RESULTS: &str = "results.json";

/// The largest file of results or rows that is read.
pub(crate) const MAX_BYTES: u64 = 4 << 30;

/// The largest figure that is put into a page.
const MAX_FIGURE: u64 = 1 << 26;

/// `results.json`: the program, what was measured, and the figures.
#[derive(Serialize)]
struct Results<'a, O, F> {
    about: &'a About,
    #[serde(flatten)]
    outline: &'a O,
    #[serde(flatten)]
    figures: &'a F,
}

/// The parts of `results.json` that a report is drawn from besides the rows.
#[derive(Deserialize)]
pub(crate) struct Given<O> {
    pub about: About,
    #[serde(flatten)]
    pub outline: O,
}

/// Writes `results.json`; `outline` and `figures` are structs with a field for each key, or `()`
/// while there are no figures.
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

/// Reads `results.json`.
pub(crate) fn read_results<O: DeserializeOwned>(folder: &Path) -> Result<Given<O>, Error> {
    let path = folder.join(RESULTS);
    let text = beamgen_files::read_regular_file(&path, MAX_BYTES).map_err(|e| e.to_string());
    text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        .map_err(|reason| Error::NoResults { path, reason })
}

/// Writes a report in Markdown into the file `name`, and into `index.html` with its figures, which
/// are SVG files of the folder.
pub(crate) fn write_report(
    folder: &Path,
    name: &str,
    title: &str,
    markdown: &str,
) -> Result<(), Error> {
    write_file(&folder.join(name), markdown.as_bytes())?;
    let figure = |name: &str| {
        // Figures are in the folder itself, whatever else a report might name.
        let is_plain = name.ends_with(".svg") && !name.contains(['/', '\\']);
        let read = || beamgen_files::read_regular_file(&folder.join(name), MAX_FIGURE).ok();
        is_plain.then(read).flatten()
    };
    let page = beamgen_view::document(title, markdown, &figure);
    write_file(&folder.join("index.html"), page.as_bytes())
}
