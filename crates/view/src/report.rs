//! The page of a run.

use std::fmt::Write;

use beamgen_eval::metrics::share;
use beamgen_eval::{Record, RunHeader, Spent};
use serde::Serialize;

use crate::assets::{REPORT_SCRIPT, REPORT_STYLE, THEME, VIEW_SCRIPTS, VIEW_STYLE};
use crate::calibration::calibration;
use crate::page::{May, Page, escaped, json};
use crate::problem::Problem;
use crate::search::{Check, Search, aggregation};

/// What a page of a run is made of.
pub struct Run<'a> {
    /// The name of the run's file.
    pub name: &'a str,
    /// Its first line.
    pub header: &'a RunHeader,
    /// Its problems, each once.
    pub records: &'a [Record],
    /// Says which steps are right, where that can be told.
    pub check: Check<'a>,
}

/// What the script is told of the run.
#[derive(Serialize)]
struct Told<'a> {
    stem: &'a str,
    problems: Vec<Problem<'a>>,
}

/// The page of a run, in one file: its problems by outcome and by certainty, a picture of how far
/// scores can be trusted, and each problem with its search.
#[must_use]
pub fn report(run: &Run<'_>) -> String {
    let aggregation = aggregation(run.header);
    let searches: Vec<Search> = run
        .records
        .iter()
        .map(|record| Search::of(record, aggregation, run.check))
        .collect();
    let told = Told {
        stem: run.name.strip_suffix(".jsonl").unwrap_or(run.name),
        problems: run
            .records
            .iter()
            .zip(&searches)
            .map(|(record, search)| Problem::of(record, search))
            .collect(),
    };
    let mut data = vec![("run".to_owned(), json(&told))];
    // Each search in a block of its own: it is parsed when it is looked at.
    data.extend(
        searches
            .iter()
            .enumerate()
            .map(|(at, search)| (format!("nodes-{at}"), json(&search.steps))),
    );
    let mut scripts = VIEW_SCRIPTS.to_vec();
    scripts.push(REPORT_SCRIPT);
    Page {
        title: &format!("{} \u{2013} beamgen", run.name),
        styles: &[THEME, VIEW_STYLE, REPORT_STYLE],
        scripts: &scripts,
        data,
        body: &body(run),
        may: May::ShowItself,
    }
    .html()
}

fn body(run: &Run<'_>) -> String {
    let mut html = String::from("<main>\n<section id=\"list\">\n<div class=\"run-head\">\n<div>\n");
    let _ = writeln!(html, "<h1>{}</h1>", escaped(run.name));
    if let Some(line) = described(run.header) {
        let _ = writeln!(html, "<p class=\"dim\">{}</p>", escaped(&line));
    }
    figures(&mut html, run.records);
    settings(&mut html, run.header);
    html.push_str("</div>\n");
    html.push_str(&calibration(run.records).unwrap_or_default());
    html.push_str(
        "</div>\n<h2>Problems</h2>\n<div class=\"controls\">\n\
         <label>Sort <select id=\"order\">\
         <option value=\"outcome\">by outcome, surest mistakes first</option>\
         <option value=\"surest\">surest first</option>\
         <option value=\"unsurest\">least sure first</option>\
         <option value=\"tokens\">most tokens first</option>\
         <option value=\"file\">as in the file</option></select></label>\n\
         <label>Show <select id=\"only\"><option value=\"\">all outcomes</option></select></label>\n\
         <label>Find <input id=\"find\" type=\"search\" placeholder=\"id or words\"></label>\n\
         <span id=\"found\" class=\"dim\" role=\"status\"></span>\n</div>\n\
         <ul id=\"problems\" class=\"problems\"></ul>\n</section>\n\
         <section id=\"problem\" aria-label=\"Problem\" hidden></section>\n\
         <noscript><p>This page shows its problems by a script.</p></noscript>\n</main>\n",
    );
    html
}

/// The strategy and its size.
fn described(header: &RunHeader) -> Option<String> {
    let search = header.settings.get("search")?;
    let of = |key: &str| {
        let value = search.get(key)?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
    };
    let mut line = of("strategy")?;
    for (name, key) in [("N", "n"), ("M", "m"), ("seed", "seed")] {
        if let Some(value) = of(key) {
            let _ = write!(line, ", {name} = {value}");
        }
    }
    Some(line)
}

fn figures(html: &mut String, records: &[Record]) {
    let grades = || records.iter().filter_map(|record| record.correct);
    let right = grades().filter(|&correct| correct).count();
    let mut spent = Spent::default();
    for record in records {
        spent.add(&record.ledger);
    }
    let mean = |total: u64| total as f64 / records.len().max(1) as f64;
    let mut figures = vec![(records.len().to_string(), "problems".to_owned())];
    if let Some(accuracy) = share(right, grades().count()) {
        figures.push((
            format!("{:.1} %", accuracy.mean * 100.0),
            format!(
                "right (95 %: {:.1} to {:.1})",
                accuracy.low * 100.0,
                accuracy.high * 100.0
            ),
        ));
    }
    figures.push((
        format!("{:.0}", mean(spent.generated_tokens)),
        "tokens generated a problem".to_owned(),
    ));
    figures.push((
        format!("{:.0}", mean(spent.scored_tokens)),
        "tokens scored a problem".to_owned(),
    ));
    figures.push((
        format!("{:.1}", spent.seconds),
        "seconds of work".to_owned(),
    ));
    html.push_str("<ul class=\"figures\">\n");
    for (value, name) in figures {
        let _ = writeln!(html, "<li><b>{value}</b><span>{name}</span></li>");
    }
    html.push_str("</ul>\n");
}

fn settings(html: &mut String, header: &RunHeader) {
    let mut text = String::new();
    for of in [&header.settings, &header.effective] {
        if !of.is_empty() {
            let pretty = serde_json::to_string_pretty(of).unwrap_or_default();
            let _ = writeln!(text, "{pretty}");
        }
    }
    if !text.is_empty() {
        let _ = writeln!(
            html,
            "<details class=\"settings\"><summary>Settings of the run</summary><pre tabindex=\"0\">{}</pre></details>",
            escaped(&text)
        );
    }
}
