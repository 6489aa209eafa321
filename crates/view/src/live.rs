//! The live page of a server: people enter problems and watch the search.

use std::fmt::Write;

use beamgen_search::StrategyName;

use crate::assets::{LIVE_SCRIPT, LIVE_STYLE, THEME, VIEW_SCRIPTS, VIEW_STYLE};
use crate::page::{May, Page};

/// The numeric settings on the page: the key in requests, the label, and the minimum.
const NUMBERS: [(&str, &str, &str); 6] = [
    ("n", "N", "1"),
    ("m", "M", "1"),
    ("seed", "seed", "0"),
    ("budget", "token budget", "0"),
    ("threshold", "threshold", "0"),
    ("deadline", "deadline in seconds", "0"),
];

/// A page and the content security policy that its server has to send as a header.
#[derive(Clone, Debug)]
pub struct LivePage {
    /// The whole page, with its scripts and styles.
    pub html: String,
    /// The value of the header `Content-Security-Policy`.
    pub policy: String,
}

/// Makes the page on which people enter a problem and watch the search. The page sends requests
/// only to its own server, by the routes of docs/reference/http.md.
#[must_use]
pub fn live_page() -> LivePage {
    Page {
        title: "beamgen",
        styles: &[THEME, VIEW_STYLE, LIVE_STYLE],
        scripts: &[&VIEW_SCRIPTS[..], &[LIVE_SCRIPT]].concat(),
        data: Vec::new(),
        body: &body(),
        may: May::AskItsServer,
    }
    .live()
}

impl Page<'_> {
    /// Renders the page together with the policy for the header.
    pub(crate) fn live(&self) -> LivePage {
        LivePage {
            html: self.html(),
            // Browsers ignore `frame-ancestors` in a page, so only the header has it.
            policy: format!("{}; frame-ancestors 'none'", self.policy()),
        }
    }
}

fn body() -> String {
    let mut html = String::from(
        "<main>\n<h1>beamgen</h1>\n\
         <p class=\"dim\">A generator proposes steps, a reward model scores them, the search keeps the promising chains. Watch it.</p>\n\
         <form id=\"ask\">\n\
         <label>Problem<textarea id=\"text\" rows=\"3\" spellcheck=\"false\"></textarea></label>\n\
         <div class=\"line\"><label>Sample <select id=\"samples\"></select></label>\n\
         <label>Preset <select id=\"preset\" aria-describedby=\"summary\"></select></label>\n\
         <span id=\"summary\" class=\"dim\"></span></div>\n\
         <details><summary>Settings that override the preset</summary><div class=\"line\">\n\
         <label>strategy <select data-key=\"strategy\"><option value=\"\">from the preset</option>",
    );
    for strategy in StrategyName::all() {
        let _ = write!(html, "<option>{}</option>", strategy.name());
    }
    html.push_str("</select></label>\n");
    for (key, name, least) in NUMBERS {
        let _ = writeln!(
            html,
            "<label>{name} <input type=\"number\" data-key=\"{key}\" data-kind=\"number\" min=\"{least}\" step=\"any\"></label>"
        );
    }
    html.push_str(
        "</div></details>\n\
         <p id=\"key-field\" hidden><label>Key of the server <input id=\"key\" type=\"password\" autocomplete=\"off\"></label></p>\n\
         <div class=\"line\"><button id=\"go\" type=\"submit\">Solve</button>\n\
         <button id=\"stop\" type=\"button\" class=\"plain\" disabled>Cancel</button></div>\n\
         <p id=\"status\" class=\"dim\" role=\"status\"></p>\n</form>\n\
         <div id=\"result\"></div>\n\
         <div id=\"view\"></div>\n\
         <noscript><p>This page needs JavaScript to show a search.</p></noscript>\n</main>\n",
    );
    html
}
