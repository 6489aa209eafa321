//! The scripts and styles of the pages, in the order in which they are joined.

/// Elements and text.
pub(crate) const DOM_SCRIPT: &str = include_str!("../assets/dom.js");

/// The page on which a person rates steps, on top of the elements.
pub(crate) const ANNOTATE_SCRIPT: &str = include_str!("../assets/annotate.js");

/// The page on which a person rates steps.
pub(crate) const ANNOTATE_STYLE: &str = include_str!("../assets/annotate.css");

/// The view of a search: what all pages share.
pub(crate) const VIEW_SCRIPTS: [&str; 6] = [
    include_str!("../assets/chains.js"),
    DOM_SCRIPT,
    include_str!("../assets/rows.js"),
    include_str!("../assets/overview.js"),
    include_str!("../assets/detail.js"),
    include_str!("../assets/view.js"),
];

/// The page of a run, on top of the view.
pub(crate) const REPORT_SCRIPT: &str = include_str!("../assets/report.js");

/// The live page, on top of the view.
pub(crate) const LIVE_SCRIPT: &str = include_str!("../assets/live.js");

/// The live page.
pub(crate) const LIVE_STYLE: &str = include_str!("../assets/live.css");

/// Colours and text.
pub(crate) const THEME: &str = include_str!("../assets/theme.css");

/// The view of a search.
pub(crate) const VIEW_STYLE: &str = include_str!("../assets/view.css");

/// The page of a run.
pub(crate) const REPORT_STYLE: &str = include_str!("../assets/report.css");

/// A report in Markdown.
pub(crate) const DOCUMENT_STYLE: &str = include_str!("../assets/document.css");

#[cfg(test)]
mod tests {
    use super::VIEW_SCRIPTS;

    #[test]
    fn the_scripts_and_the_library_draw_the_same_line_between_scores() {
        let (sure, doubtful) = (crate::SURE, crate::DOUBTFUL);
        for constant in [
            format!("const SURE = {sure};"),
            format!("const DOUBTFUL = {doubtful};"),
        ] {
            assert!(VIEW_SCRIPTS[0].contains(&constant), "{constant}");
        }
    }
}
