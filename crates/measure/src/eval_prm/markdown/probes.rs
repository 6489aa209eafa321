//! The probes of a set, in Markdown.

use std::fmt::Write;

use beamgen::Aggregation;
use beamgen::eval::probes::{
    Effect, PROBES, Probe, ProbeReport, RULES, SHIFTS, ShiftReport, Side, Wanted,
};

use super::{count, written};
use crate::eval_prm::probes::SetProbes;
use crate::report::markdown::{plain, table};

/// What all sets have in common; once a report.
pub fn head(out: &mut String, aggregation: Aggregation, threshold: f32) {
    let _ = write!(
        out,
        "\n## Probes\n\nChains were changed on purpose and scored again; every figure is paired, chain by chain. A chain's score is \
         the `{aggregation}` of its steps' scores, and one below {threshold} calls the chain wrong. **Noticed**: of chains that \
         were not below it, those that are now. **Fell, rose**: chains whose score did so at all. **Passed**: of wrong chains \
         that were below it, those that are no more. **Touched step**: \
         the score of the step that the change is about, and its difference to the step's before where there was one.\n\n",
    );
    for (wanted, title) in [
        (
            Wanted::Falls,
            "The score should fall (on chains that are right)",
        ),
        (Wanted::NoGain, "Nothing should be gained"),
        (
            Wanted::Same,
            "Only the form changes, so the score should stay",
        ),
    ] {
        let of = PROBES.into_iter().filter(|probe| probe.wanted == wanted);
        list(
            out,
            title,
            of.map(|probe: &Probe| (probe.name, probe.about)),
        );
    }
    let shifts = SHIFTS.into_iter();
    list(
        out,
        "Shifts change nothing; they compare the order of right and wrong steps (ROC area) in two parts of the data",
        shifts.map(|shift| (shift.name, shift.about)),
    );
    let _ = writeln!(out, "**Verdicts.** {RULES}");
}

fn list<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) {
    let _ = writeln!(out, "{title}:\n");
    for (name, about) in rows {
        let _ = writeln!(out, "- **{name}**: {}", plain(about));
    }
    out.push('\n');
}

/// Those of one set.
pub fn one_set(out: &mut String, of: &SetProbes) {
    out.push_str("\n### Probes\n\n");
    let head = [
        "probe",
        "chains",
        "problems",
        "before",
        "after",
        "change",
        "touched step",
        "its change",
        "noticed, %",
        "fell, %",
        "rose, %",
        "passed, %",
        "verdict",
    ];
    table(out, &head, of.probes.iter().map(row));
    let refused: Vec<&ProbeReport> = of.probes.iter().filter(|probe| probe.refused > 0).collect();
    for probe in refused {
        let _ = writeln!(
            out,
            "\nThe model refused {} changed chains of \"{}\"; they are in no figure.",
            count(probe.refused),
            plain(probe.name)
        );
    }
    if of.shifts.is_empty() {
        return;
    }
    out.push_str("\n### Shifts\n\n");
    let head = [
        "shift",
        "here",
        "there",
        "steps here",
        "there",
        "area here",
        "there",
        "difference",
        "verdict",
    ];
    table(out, &head, of.shifts.iter().map(shift));
}

fn row(of: &ProbeReport) -> Vec<String> {
    let score = |effect| written(of.effects.get(effect), |value| format!("{value:.3}"));
    let mean = |effect| {
        let figure = of.effects.get(effect);
        figure.map_or("-".to_owned(), |figure| format!("{:.3}", figure.value))
    };
    let change = |effect| written(of.effects.get(effect), |value| format!("{value:+.3}"));
    let share = |effect| {
        written(of.effects.get(effect), |value| {
            format!("{:.1}", value * 100.0)
        })
    };
    vec![
        plain(of.name),
        count(of.chains),
        count(of.problems),
        mean(Effect::Before),
        mean(Effect::After),
        change(Effect::Change),
        score(Effect::StepAfter),
        change(Effect::StepChange),
        share(Effect::Noticed),
        share(Effect::Fell),
        share(Effect::Rose),
        share(Effect::Passed),
        plain(&of.verdict.words),
    ]
}

fn shift(of: &ShiftReport) -> Vec<String> {
    let names = |side: &Side| plain(&side.kinds.join(", "));
    let area = |side: &Side| written(side.auc, |value| format!("{value:.3}"));
    vec![
        plain(of.name),
        names(&of.home),
        names(&of.away),
        count(of.home.steps),
        count(of.away.steps),
        area(&of.home),
        area(&of.away),
        written(of.difference, |value| format!("{value:+.3}")),
        plain(&of.verdict.words),
    ]
}
