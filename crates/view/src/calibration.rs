//! A reliability diagram in SVG: the share of right answers by the score of the chosen chain.

use std::fmt::Write;

use beamgen_eval::Record;
use beamgen_eval::quality::{Bin, Binning, ScoredChain, View};

/// The seed for the intervals. A constant, so that writing the same page again gives the same
/// bytes.
const SEED: u64 = 0;

/// The number of bars in the histogram of scores.
const BARS: usize = 20;

/// The width of the plotting area, in SVG units.
const WIDE: f64 = 380.0;
/// The height of the plotting area, in SVG units.
const HIGH: f64 = 170.0;
/// The space left of the plotting area for its labels, in SVG units.
const LEFT: f64 = 62.0;
/// The space above the plotting area, in SVG units.
const TOP: f64 = 10.0;
/// The height of the right and of the wrong half of the histogram, in SVG units.
const BAR: f64 = 24.0;

/// Returns the diagram with a caption and a table of its numbers for readers who cannot see
/// pictures. `None` if no problem has both a score and a grade.
pub(crate) fn calibration(records: &[Record]) -> Option<String> {
    let graded: Vec<ScoredChain> = records
        .iter()
        .filter_map(|record| Some((record.correct?, record.score?)))
        .enumerate()
        // The binning expects chains of labelled steps: each problem becomes one step.
        .map(|(at, (correct, score))| ScoredChain {
            id: at.to_string(),
            problem: at as u32,
            labels: vec![Some(f64::from(u8::from(correct)))],
            scores: Some(vec![score.clamp(0.0, 1.0)]),
            lengths: vec![1],
            ..ScoredChain::default()
        })
        .collect();
    if graded.is_empty() {
        return None;
    }
    // Reports on labelled chains use the same code, so the bins are formed alike.
    let view = View::new(&graded, crate::DOUBTFUL, |_| true);
    // Scores crowd near 0 and 1; bins of equal width would leave the middle nearly empty.
    let bins = view.calibration(Binning::EqualMass, SEED);
    let mut html = String::from("<figure class=\"calibration\">\n");
    picture(&mut html, &bins, &view.histogram(BARS));
    let count = graded.len();
    let _ = writeln!(
        html,
        "<figcaption>How often answers are right, by the score of their chain: {count} graded problems in bins of equal size, \
         with 95 % intervals; on the dashed line scores are probabilities. Below: right answers up, wrong ones down."
    );
    table(&mut html, &bins);
    html.push_str("</figcaption>\n</figure>\n");
    Some(html)
}

fn picture(html: &mut String, bins: &[Bin], histogram: &[(usize, usize)]) {
    let x = |share: f64| LEFT + share * WIDE;
    let y = |share: f64| TOP + (1.0 - share) * HIGH;
    let middle = TOP + HIGH + 46.0 + BAR;
    let (width, height) = (LEFT + WIDE + 12.0, middle + BAR + 20.0);
    let _ = writeln!(
        html,
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Calibration: the table below has the numbers\">"
    );
    for tenth in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            html,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0} %</text>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{tenth}</text>",
            LEFT + WIDE,
            LEFT - 6.0,
            y(tenth) + 4.0,
            tenth * 100.0,
            x(tenth),
            TOP + HIGH + 16.0,
            y = y(tenth),
        );
    }
    let _ = writeln!(
        html,
        "<line class=\"diagonal\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0)
    );
    let _ = writeln!(
        html,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">score of the chosen chain</text>\
         <text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">right answers</text>",
        x(0.5),
        TOP + HIGH + 32.0,
        y(0.5)
    );
    for bin in bins {
        let (at, right) = (x(bin.score), y(bin.label.value));
        if let Some((low, high)) = bin.label.interval {
            let _ = writeln!(
                html,
                "<line class=\"interval\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(low),
                y(high)
            );
        }
        let _ = writeln!(
            html,
            "<circle class=\"point\" cx=\"{at:.1}\" cy=\"{right:.1}\" r=\"4\"/>"
        );
    }
    // Bars have logarithmic heights. Otherwise a few wrong answers would be invisible next to many
    // right ones.
    let tall = |count: usize| (count as f64).ln_1p();
    let most = histogram
        .iter()
        .map(|&(right, wrong)| tall(right).max(tall(wrong)))
        .fold(1.0, f64::max);
    let step = WIDE / histogram.len() as f64;
    for (at, &(right, wrong)) in histogram.iter().enumerate() {
        let (up, down) = (tall(right) / most * BAR, tall(wrong) / most * BAR);
        let left = LEFT + at as f64 * step + 1.0;
        let wide = step - 2.0;
        let _ = writeln!(
            html,
            "<rect class=\"right\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{up:.1}\"/>\
             <rect class=\"wrong\" x=\"{left:.1}\" y=\"{middle:.1}\" width=\"{wide:.1}\" height=\"{down:.1}\"/>",
            middle - up
        );
    }
    let _ = writeln!(
        html,
        "<line class=\"frame\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{middle}\" y2=\"{middle}\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">right</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">wrong</text>\n</svg>",
        LEFT + WIDE,
        LEFT - 6.0,
        middle - 8.0,
        LEFT - 6.0,
        middle + 14.0
    );
}

fn table(html: &mut String, bins: &[Bin]) {
    html.push_str(
        "<details><summary>Numbers</summary><table><thead><tr><th scope=\"col\">scores</th><th scope=\"col\">problems</th>\
         <th scope=\"col\">mean score</th><th scope=\"col\">right</th></tr></thead><tbody>\n",
    );
    for bin in bins {
        let interval = bin.label.interval.map_or(String::new(), |(low, high)| {
            format!(" ({:.0} to {:.0})", low * 100.0, high * 100.0)
        });
        let _ = writeln!(
            html,
            "<tr><td>{:.3} to {:.3}</td><td>{}</td><td>{:.3}</td><td>{:.1} %{interval}</td></tr>",
            bin.from,
            bin.to,
            bin.steps,
            bin.score,
            bin.label.value * 100.0
        );
    }
    html.push_str("</tbody></table></details>\n");
}
