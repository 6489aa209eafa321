//! The page of a run: its figures, and a list of problems that open as searches.

use std::fmt::Write;

use beamgen_eval::metrics::share;
use beamgen_eval::number::operations;
use beamgen_eval::{Record, RunHeader, Spent};
use serde::Serialize;
use serde_json::Value;

use crate::assets::{REPORT_SCRIPT, REPORT_STYLE, THEME, VIEW_SCRIPTS, VIEW_STYLE};
use crate::calibration::calibration;
use crate::failures::{Failures, failures};
use crate::page::{May, Page, escaped, json};
use crate::problem::Problem;
use crate::search::{Check, Search, aggregation};

/// The contents of a run's page, as [`report`] renders it.
pub struct Run<'a> {
    /// The name of the run's file.
    pub name: &'a str,
    /// The first line of the run's file, with the settings.
    pub header: &'a RunHeader,
    /// The problems of the run, each at most once.
    pub records: &'a [Record],
    /// A function that decides which steps are right, if the steps can be checked.
    pub check: Check<'a>,
}

/// The JSON block with the problems, which the page's script reads.
#[derive(Serialize)]
struct RunData<'a> {
    stem: &'a str,
    problems: Vec<Problem<'a>>,
}

/// Renders the page of a run as one file: figures, a reliability diagram, the problems by outcome
/// and score, and each problem's search.
#[must_use]
pub fn report(run: &Run<'_>) -> String {
    let aggregation = aggregation(run.header);
    let searches: Vec<Search> = run
        .records
        .iter()
        .map(|record| Search::of(record, aggregation, run.check))
        .collect();
    let run_data = RunData {
        stem: run.name.strip_suffix(".jsonl").unwrap_or(run.name),
        problems: run
            .records
            .iter()
            .zip(&searches)
            .map(|(record, search)| Problem::of(record, search))
            .collect(),
    };
    let mut data = vec![("run".to_owned(), json(&run_data))];
    // Each search is a separate block, which is parsed only when its problem is opened.
    data.extend(
        searches
            .iter()
            .enumerate()
            .map(|(at, search)| (format!("nodes-{at}"), json(&search.steps))),
    );
    Page {
        title: &format!("{} \u{2013} beamgen", run.name),
        styles: &[THEME, VIEW_STYLE, REPORT_STYLE],
        scripts: &[&VIEW_SCRIPTS[..], &[REPORT_SCRIPT]].concat(),
        data,
        body: &body(run, &failures(run.records.iter().zip(&searches))),
        may: May::ShowItself,
    }
    .html()
}

fn body(run: &Run<'_>, failures: &[Failures]) -> String {
    let mut html = String::from("<main>\n<section id=\"list\">\n<div class=\"run-head\">\n<div>\n");
    let _ = writeln!(html, "<h1>{}</h1>", escaped(run.name));
    if let Some(line) = described(run.header) {
        let _ = writeln!(html, "<p class=\"dim\">{}</p>", escaped(&line));
    }
    figures(&mut html, run.records);
    settings(&mut html, run.header);
    html.push_str("</div>\n");
    html.push_str(&calibration(run.records).unwrap_or_default());
    html.push_str("</div>\n");
    causes(&mut html, failures);
    html.push_str(
        "<h2>Problems</h2>\n<div class=\"controls\">\n\
         <label>Sort <select id=\"order\">\
         <option value=\"outcome\">by outcome, most certain mistakes first</option>\
         <option value=\"surest\">most certain first</option>\
         <option value=\"unsurest\">least certain first</option>\
         <option value=\"tokens\">most tokens first</option>\
         <option value=\"file\">as in the file</option></select></label>\n\
         <label>Show <select id=\"only\"><option value=\"\">all outcomes</option></select></label>\n\
         <label>Find <input id=\"find\" type=\"search\" placeholder=\"id or words\"></label>\n\
         <span id=\"found\" class=\"dim\" role=\"status\"></span>\n</div>\n\
         <p id=\"columns\" class=\"columns\"><span>outcome</span><span>id</span><span>problem</span><span>answer</span>\
         <span>score</span><span>cost</span></p>\n\
         <ul id=\"problems\" class=\"problems\"></ul>\n</section>\n\
         <section id=\"problem\" aria-label=\"Problem\" hidden></section>\n\
         <noscript><p>This page needs JavaScript to show its problems.</p></noscript>\n</main>\n",
    );
    html
}

/// Returns the strategy and the size of the search; `None` if the header has no settings of a
/// search.
fn described(header: &RunHeader) -> Option<String> {
    let search = header.settings.get("search")?;
    let shown = |key: &str| match search.get(key)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut line = shown("strategy")?;
    for (name, key) in [("N", "n"), ("M", "m"), ("seed", "seed")] {
        if let Some(value) = shown(key) {
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
    html.push_str("<ul class=\"figures\">\n");
    let mut figure = |value: String, name: &str| {
        let _ = writeln!(html, "<li><b>{value}</b><span>{name}</span></li>");
    };
    let problems = if records.len() == 1 {
        "problem"
    } else {
        "problems"
    };
    figure(records.len().to_string(), problems);
    if let Some(accuracy) = share(right, grades().count()) {
        let percent = [accuracy.mean, accuracy.low, accuracy.high];
        let [mean, low, high] = percent.map(|share| share * 100.0);
        let name = format!("right (95 %: {low:.1} to {high:.1})");
        figure(format!("{mean:.1} %"), &name);
    }
    let unsound = records.iter().filter_map(Record::right_but_unsound).count();
    // Most runs check no steps, so the figure is shown only if it is not 0.
    if unsound > 0 {
        figure(unsound.to_string(), "right, but unsound");
    }
    let (generated, scored) = (mean(spent.generated_tokens), mean(spent.scored_tokens));
    figure(format!("{generated:.0}"), "tokens generated a problem");
    figure(format!("{scored:.0}"), "tokens scored a problem");
    figure(format!("{:.1}", spent.seconds), "seconds of work");
    if let Some(flops) = spent.total_flops() {
        let each = operations(flops / records.len().max(1) as u64);
        figure(each, "FLOPs a problem");
    }
    if let Some(width) = spent.width.mean() {
        figure(format!("{width:.2}"), "chains continued after a step");
    }
    html.push_str("</ul>\n");
}

/// Lists why problems failed, with what to do.
fn causes(html: &mut String, failures: &[Failures]) {
    let all: usize = failures.iter().map(|of| of.ids.len()).sum();
    if all == 0 {
        return;
    }
    let failed = if all == 1 {
        "1 problem"
    } else {
        &format!("{all} problems")
    };
    let _ = writeln!(html, "<h2>Why {failed} failed</h2>\n<ul class=\"causes\">");
    for of in failures {
        let _ = writeln!(
            html,
            "<li><b>{}</b> {}: <span class=\"dim\">{}</span></li>",
            of.ids.len(),
            escaped(of.words),
            with_code(of.advice)
        );
    }
    html.push_str("</ul>\n");
}

/// Returns the text as HTML, in which words between backticks are code.
fn with_code(text: &str) -> String {
    let mut html = String::new();
    for (i, part) in text.split('`').enumerate() {
        let part = escaped(part);
        if i % 2 == 1 {
            let _ = write!(html, "<code>{part}</code>");
        } else {
            html.push_str(&part);
        }
    }
    html
}

fn settings(html: &mut String, header: &RunHeader) {
    let mut text = String::new();
    // First the settings as given, then what the run derived from them, e.g. device and memory.
    for part in [&header.settings, &header.effective] {
        if !part.is_empty() {
            let pretty = serde_json::to_string_pretty(part).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::Cause;

    #[test]
    fn causes_have_their_commands_as_code() {
        let mut html = String::new();
        let failures = [Failures {
            cause: Cause::Choice,
            words: "a < b",
            advice: "try `beamgen bench`, or more",
            ids: vec!["p".to_owned()],
        }];
        causes(&mut html, &failures);
        assert!(html.contains("<h2>Why 1 problem failed</h2>"), "{html}");
        let line = "<li><b>1</b> a &lt; b: <span class=\"dim\">try <code>beamgen bench</code>, or more</span></li>";
        assert!(html.contains(line), "{html}");
        html.clear();
        causes(&mut html, &[]);
        assert_eq!(html, "");
    }
}
