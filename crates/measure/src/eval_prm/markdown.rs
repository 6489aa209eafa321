//! The report of an evaluation as Markdown, the file `report.md`.

mod probes;

use std::fmt::Write;

use beamgen::Aggregation;
use beamgen::eval::metrics::RESAMPLES;
use beamgen::eval::quality::{BINS, Best, Bin, Figure, LENGTH_BINS, LONGEST_POSITION, Measure};

use super::outline::{Calibrated, Outline, SetOutline};
use super::results::{Breakdown, Group, Scorer, SetReport};
use crate::report::about::About;
use crate::report::chart::Plot;
use crate::report::markdown::{Column, between, code, columns, decimal, plain, share, table};
use crate::{counted, grouped, percent};

pub(super) fn text(about: &About, outline: &Outline, sets: &[SetReport], plots: &[Plot]) -> String {
    let mut out = String::new();
    head(&mut out, about, outline);
    if let Some(aggregation) = outline.probes {
        probes::head(&mut out, sets, aggregation, outline.threshold);
    }
    if let Some(of) = &outline.calibration {
        calibrated(&mut out, of);
    }
    for (number, (of, set)) in outline.sets.iter().zip(sets).enumerate() {
        one_set(&mut out, of, set, outline.threshold);
        Plot::show(&mut out, plots, number);
    }
    out
}

fn head(out: &mut String, about: &About, outline: &Outline) {
    let threshold = outline.threshold;
    let title = format!("Step scores of {}, {}", plain(&outline.model), about.date());
    out.push_str(&about.heading(&title, ""));
    let rule = serde_json::to_string(&outline.rule).unwrap_or_default();
    let _ = write!(
        out,
        "A score is the probability that a step is right; one below {threshold} flags the step. Labels were derived with \
         {}. A label above one half is right, below it wrong; exactly one half is neither. In parentheses: 95 % percentile \
         bootstrap intervals of {RESAMPLES} draws of *problems*, all chains of a problem together, and where all draws are equal \
         Wilson's interval over the problems; none for a single problem. \
         `-`: the data do not define the figure. Steps of chains that the model refused have no score and are in no figure of \
         steps; the chains are misses among first errors.\n\n\
         - **on wrong, on right, F1** (ProcessBench): wrong chains whose first wrong step is the first flagged one, right chains \
         without a flag, and their harmonic mean. **Best**: at the threshold, of 0.01 to 0.99, that is best on these very \
         data: an upper bound.\n\
         - **first error flagged** (PRMBench): wrong chains whose first wrong step is flagged, whatever stands before it. \
         **PRMScore**: half the F1 of right steps and half that of wrong ones.\n\
         - **ROC area**: the probability that a right step has a higher score than a wrong one, ties counting half.\n\
         - **Brier**: mean squared distance of score and label. **ECE**: mean distance of score and label by bins, {BINS} \
         equally wide ones or {BINS} with equally many steps (equal scores share a bin). Resampling adds to it, so that its \
         intervals lean upwards.\n\
         - **Certainty**: mean distance of the scores from one half (0 to 0.5), and their mean entropy in bits.\n\
         - **Outcome drift**: chains of two steps or more whose lowest score is the last step's.\n\
         - **Score and length**: Pearson's correlation of score and characters, within right and within wrong steps.\n\
         - **Baselines** give every step the mean label, of all steps (prior), of steps of about that length ({LENGTH_BINS} \
         bins with equally many steps), or of steps with that number ({LONGEST_POSITION} and later together). They are fitted \
         on these very data, so they are the best that can be had without reading.\n\n\
         `results.json` has all figures, `rows.jsonl` the raw scores; `beamgen eval-prm --redraw` writes everything else anew \
         from them.\n",
        code(&rule),
    );
}

fn calibrated(out: &mut String, of: &Calibrated) {
    let _ = writeln!(
        out,
        "\n**calibrated**: the scores (the {} of the chain so far) put through {}, which was fitted to the policy {}. Right and wrong there mean what the \
         labels of the data below mean.",
        if of.aggregation == Aggregation::Min {
            "lowest"
        } else {
            "newest"
        },
        code(&of.name),
        plain(&of.policy.to_string()),
    );
}

fn one_set(out: &mut String, of: &SetOutline, set: &SetReport, threshold: f32) {
    let counts = &set.counts;
    let _ = write!(
        out,
        "\n## {}\n\n{}, read as {}; records left out: {}. {} of {}, {} refused by the model. First errors are \
         known of {}. {} a label: {} right, {} wrong{}; mean label {}.\n\n",
        plain(&set.name),
        code(&of.source),
        plain(&of.format),
        of.rejected,
        counted(counts.chains, "chain", "chains"),
        counted(counts.problems, "problem", "problems"),
        count(counts.refused),
        counted(counts.first_errors, "chain", "chains"),
        counted(counts.steps, "scored step has", "scored steps have"),
        count(counts.right),
        count(counts.wrong),
        // The remaining steps have a label of exactly one half.
        match counts.steps - counts.right - counts.wrong {
            0 => String::new(),
            neither => format!(", {} neither", count(neither)),
        },
        set.mean_label.map_or("-".to_owned(), decimal),
    );
    if let Some(lopsided) = set.lopsided() {
        let _ = writeln!(out, "**{lopsided}.**\n");
    }
    figures(out, set, threshold);
    calibration(out, set);
    by_position(out, &set.by_position);
    for breakdown in &set.breakdowns {
        groups(out, breakdown);
    }
    if let Some(of) = &set.probes {
        probes::one_set(out, of);
    }
}

/// Returns the heading of a measure, and the function that formats its values.
fn title(of: Measure) -> (&'static str, fn(f64) -> String) {
    match of {
        Measure::OnWrong => ("on wrong, %", share),
        Measure::OnRight => ("on right, %", share),
        Measure::FirstErrorF1 => ("F1 of first errors, %", share),
        Measure::FirstErrorFlagged => ("first error flagged, %", share),
        Measure::PrmScore => ("PRMScore, %", share),
        Measure::F1Right => ("F1 of right steps, %", share),
        Measure::F1Wrong => ("F1 of wrong steps, %", share),
        Measure::BalancedAccuracy => ("balanced accuracy, %", share),
        Measure::Auc => ("ROC area", decimal),
        Measure::Brier => ("Brier", decimal),
        Measure::EceWidth => ("ECE, equal width", decimal),
        Measure::EceMass => ("ECE, equal mass", decimal),
        Measure::ScoreRight => ("mean score of right steps", decimal),
        Measure::ScoreWrong => ("mean score of wrong steps", decimal),
        Measure::Certainty => ("distance from one half", decimal),
        Measure::Entropy => ("entropy, bits", decimal),
        Measure::OutcomeDrift => ("minimum in the last step, %", share),
        Measure::LengthRight => ("score and length, right steps", signed),
        Measure::LengthWrong => ("score and length, wrong steps", signed),
    }
}

fn figures(out: &mut String, set: &SetReport, threshold: f32) {
    let calibrated = set.calibrated.as_ref().map(|of| &of.model);
    let scorers = std::iter::once(&set.model).chain(calibrated);
    let scorers: Vec<&Scorer> = scorers.chain(&set.baselines).collect();
    let figure = format!("figure at {threshold}");
    let mut head = vec![figure.as_str()];
    head.extend(scorers.iter().map(|scorer| scorer.name));
    let mut rows: Vec<Vec<String>> = Measure::ALL
        .iter()
        .map(|&of| {
            let mut row = vec![title(of).0.to_owned()];
            row.extend(
                scorers
                    .iter()
                    .map(|scorer| cell(scorer.figures.get(of), of)),
            );
            row
        })
        .collect();
    rows.push(best(&scorers, "best F1 of first errors, %", |scorer| {
        scorer.best_first_error_f1
    }));
    rows.push(best(&scorers, "best F1 of wrong steps, %", |scorer| {
        scorer.best_f1_wrong
    }));
    table(out, &head, rows.into_iter());
}

/// Returns a table row with each scorer's best value over thresholds.
fn best(scorers: &[&Scorer], name: &str, value: fn(&Scorer) -> Option<Best>) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(scorers.iter().map(|scorer| {
        value(scorer).map_or("-".to_owned(), |best| {
            format!("{:.1} at {}", best.value * 100.0, best.threshold)
        })
    }));
    row
}

const BINS_SHOWN: [Column<Bin>; 4] = [
    ("scores", |bin| format!("{:.3} to {:.3}", bin.from, bin.to)),
    ("steps", |bin| count(bin.steps)),
    ("mean score", |bin| decimal(bin.score)),
    ("mean label", |bin| written(Some(bin.label), decimal)),
];

fn calibration(out: &mut String, set: &SetReport) {
    let after = set.calibrated.as_ref().map(|of| &of.equal_mass);
    let bins = [
        ("equally many steps", &set.calibration.equal_mass),
        ("equal width", &set.calibration.equal_width),
    ];
    let after = after.map(|bins| ("equally many steps, calibrated", bins));
    for (name, bins) in bins.into_iter().chain(after) {
        if bins.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n### Calibration, bins of {name}\n\n{} of {BINS} bins have steps.\n",
            bins.len()
        );
        columns(out, &BINS_SHOWN, bins.iter());
    }
}

fn by_position(out: &mut String, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    out.push_str(
        "\n### By step number\n\nProblems and chains are those that have such a step.\n\n",
    );
    let measures = [
        Measure::F1Wrong,
        Measure::BalancedAccuracy,
        Measure::Auc,
        Measure::Brier,
        Measure::EceMass,
    ];
    group_table(out, "step", &measures, groups);
}

fn groups(out: &mut String, breakdown: &Breakdown) {
    let _ = writeln!(out, "\n### By {}\n", breakdown.by);
    if breakdown.left_out > 0 {
        let _ = writeln!(
            out,
            "The first {} in alphabetical order; {} more are left out.\n",
            breakdown.groups.len(),
            breakdown.left_out
        );
    }
    let measures = [
        Measure::OnWrong,
        Measure::OnRight,
        Measure::FirstErrorF1,
        Measure::FirstErrorFlagged,
        Measure::PrmScore,
        Measure::F1Wrong,
        Measure::Auc,
        Measure::Brier,
        Measure::EceMass,
        Measure::OutcomeDrift,
    ];
    group_table(out, breakdown.by, &measures, &breakdown.groups);
}

fn group_table(out: &mut String, by: &str, measures: &[Measure], groups: &[Group]) {
    let mut head = vec![
        by,
        "problems",
        "chains",
        "steps",
        "wrong",
        "score of right",
        "of wrong",
    ];
    head.extend(measures.iter().map(|&of| title(of).0));
    table(
        out,
        &head,
        groups.iter().map(|group| {
            let counts = &group.counts;
            let classed = counts.right + counts.wrong;
            let wrong = match classed {
                0 => "-".to_owned(),
                _ => percent(counts.wrong as f64 / classed as f64),
            };
            let mut row = vec![
                plain(&group.name),
                count(counts.problems),
                count(counts.chains),
                count(counts.steps),
                wrong,
                mean(group, Measure::ScoreRight),
                mean(group, Measure::ScoreWrong),
            ];
            row.extend(measures.iter().map(|&of| cell(group.figures.get(of), of)));
            row
        }),
    );
}

/// Formats a figure of a group without its interval, or returns `-`.
fn mean(group: &Group, of: Measure) -> String {
    let figure = group.figures.get(of);
    figure.map_or("-".to_owned(), |figure| title(of).1(figure.value))
}

fn cell(figure: Option<Figure>, of: Measure) -> String {
    written(figure, title(of).1)
}

/// Formats a figure with its interval, or returns `-`.
fn written(figure: Option<Figure>, number: fn(f64) -> String) -> String {
    figure.map_or("-".to_owned(), |figure| match figure.interval {
        None => number(figure.value),
        Some(ends) => between(figure.value, ends, number),
    })
}

fn signed(value: f64) -> String {
    format!("{value:+.3}")
}

fn count(of: usize) -> String {
    grouped(of as u64)
}
