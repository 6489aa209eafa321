//! A report in Markdown as a page for a browser.

use std::path::Path;

use crate::Error;
use crate::report::write_file;

/// The largest figure that is put into a page.
const MAX_FIGURE: u64 = 1 << 26;

/// Writes `index.html`: the report with its figures, which are SVG files of the folder, in one
/// file.
pub fn write_page(folder: &Path, title: &str, markdown: &str) -> Result<(), Error> {
    let figure = |name: &str| {
        // Figures are in the folder itself, whatever else a report might name.
        let is_plain = name.ends_with(".svg") && !name.contains(['/', '\\']);
        let read = || beamgen_files::read_regular_file(&folder.join(name), MAX_FIGURE).ok();
        is_plain.then(read).flatten()
    };
    let page = beamgen_view::document(title, markdown, &figure);
    write_file(&folder.join("index.html"), page.as_bytes())
}
