//! The scripts and styles of the pages. The files of one script are joined in the listed order.

/// Helpers for building elements, used by all scripts.
pub(crate) const DOM_SCRIPT: &str = include_str!("../assets/dom.js");

/// The script of the page for rating steps; needs [`DOM_SCRIPT`].
pub(crate) const ANNOTATE_SCRIPT: &str = include_str!("../assets/annotate.js");

/// The style of the page for rating steps.
pub(crate) const ANNOTATE_STYLE: &str = include_str!("../assets/annotate.css");

/// The scripts that show one search; a run's page and the live page use them.
pub(crate) const VIEW_SCRIPTS: [&str; 6] = [
    include_str!("../assets/chains.js"),
    DOM_SCRIPT,
    include_str!("../assets/rows.js"),
    include_str!("../assets/overview.js"),
    include_str!("../assets/detail.js"),
    include_str!("../assets/view.js"),
];

/// The script of a run's page; needs [`VIEW_SCRIPTS`].
pub(crate) const REPORT_SCRIPT: &str = include_str!("../assets/report.js");

/// The script of the live page; needs [`VIEW_SCRIPTS`].
pub(crate) const LIVE_SCRIPT: &str = include_str!("../assets/live.js");

/// The style of the form on the live page.
pub(crate) const LIVE_STYLE: &str = include_str!("../assets/live.css");

/// The colours and fonts, used by all pages.
pub(crate) const THEME: &str = include_str!("../assets/theme.css");

/// The style for [`VIEW_SCRIPTS`].
pub(crate) const VIEW_STYLE: &str = include_str!("../assets/view.css");

/// The style of the list of problems and of the figures on a run's page.
pub(crate) const REPORT_STYLE: &str = include_str!("../assets/report.css");

/// The style of a page that shows a Markdown report.
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
