//! The page on which a person rates steps.

use crate::LivePage;
use crate::assets::{ANNOTATE_SCRIPT, ANNOTATE_STYLE, DOM_SCRIPT, THEME};
use crate::page::{May, Page};

/// Makes the page for rating steps. The page posts lists of acts to `act`, relative to its own
/// address, and shows the view that the server returns.
#[must_use]
pub fn annotate_page() -> LivePage {
    Page {
        title: "Rate steps",
        styles: &[THEME, ANNOTATE_STYLE],
        scripts: &[DOM_SCRIPT, ANNOTATE_SCRIPT],
        data: Vec::new(),
        body: BODY,
        may: May::AskItsServer,
    }
    .live()
}

const BODY: &str = "<main>
<h1>Rate the steps</h1>
<p id=\"progress\" class=\"dim\" role=\"status\"></p>
<p id=\"fault\" class=\"bad\" role=\"alert\"></p>
<section class=\"card\" aria-label=\"Problem\"><p id=\"problem\" class=\"text\"></p>
<details id=\"reference\" hidden><summary>Reference answer</summary><p id=\"answer\" class=\"text\"></p></details></section>
<h2 id=\"steps-title\">Steps</h2>
<ol id=\"steps\" aria-labelledby=\"steps-title\"></ol>
<div class=\"line\" role=\"group\" aria-label=\"Rating of the current step\">
<button id=\"right\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"1\">Right <kbd>1</kbd></button>
<button id=\"neutral\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"0\">Neutral <kbd>0</kbd></button>
<button id=\"wrong\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"-\">Wrong <kbd>-</kbd></button>
<button id=\"undo\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"u\">Undo <kbd>u</kbd></button>
</div>
<form id=\"remark\"><label>Comment on the current step <kbd>c</kbd>
<input id=\"comment\" type=\"text\" autocomplete=\"off\"></label>
<button class=\"plain\" type=\"submit\">Save comment</button></form>
<div class=\"line\">
<button id=\"previous\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"ArrowLeft\">Previous chain <kbd>\u{2190}</kbd></button>
<button id=\"next\" class=\"plain\" type=\"button\" aria-keyshortcuts=\"ArrowRight\">Next chain <kbd>\u{2192}</kbd></button>
<label><input id=\"stops\" type=\"checkbox\"> A chain is done at its first wrong step</label>
</div>
<p class=\"dim\">Right: the step is correct and helps. Neutral: it is correct or cannot be judged, and does not help. Wrong: it is
incorrect. \u{2191} and \u{2193} move among the steps. Every rating is saved at once.</p>
<noscript><p>This page needs its script.</p></noscript>
</main>
";
