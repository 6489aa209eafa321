//! A search in a notebook's output.

use beamgen_eval::Record;
use beamgen_search::Aggregation;

use crate::assets::{ALONE_SCRIPT, THEME, VIEW_SCRIPTS, VIEW_STYLE};
use crate::page::{May, Page, escaped, json};
use crate::problem::Problem;
use crate::search::{Search, unchecked};

/// Markup that shows one search: a frame with a page of its own, which can reach neither the
/// notebook nor the network.
#[must_use]
pub fn notebook(record: &Record, aggregation: Aggregation) -> String {
    let search = Search::of(record, aggregation, &unchecked);
    let mut scripts = VIEW_SCRIPTS.to_vec();
    scripts.push(ALONE_SCRIPT);
    let page = Page {
        title: &record.id,
        styles: &[THEME, VIEW_STYLE],
        scripts: &scripts,
        data: vec![
            ("problem".to_owned(), json(&Problem::of(record, &search))),
            ("nodes".to_owned(), json(&search.steps)),
        ],
        body: "<main id=\"view\"></main>\n",
        may: May::ShowItself,
    };
    format!(
        "<iframe title=\"Search of beamgen\" sandbox=\"allow-scripts allow-downloads\" width=\"100%\" height=\"720\" \
         frameborder=\"0\" srcdoc=\"{}\"></iframe>",
        escaped(&page.html())
    )
}
