//! The sections of the report on probes and shifts.

use std::fmt::Write;

use beamgen::Aggregation;
use beamgen::eval::probes::{Effect, Probe, ProbeReport, RULES, SHIFTS, ShiftReport, Wanted};

use super::{count, signed, written};
use crate::counted;
use crate::eval_prm::probes::SetProbes;
use crate::eval_prm::results::SetReport;
use crate::report::markdown::{Column, columns, decimal, plain, share};

/// Appends the explanation of probes and of their columns, for all sets.
pub(super) fn head(out: &mut String, sets: &[SetReport], aggregation: Aggregation, threshold: f32) {
    let of_sets = sets.iter().filter_map(|set| set.probes.as_ref());
    let keys: Vec<&str> = of_sets
        .flat_map(|of| of.probes.iter().map(|probe| probe.key))
        .collect();
    let probes = Probe::in_report(keys);
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
        let of = probes.iter().filter(|probe| probe.wanted == wanted);
        list(out, title, of.map(|probe| (probe.name, probe.about)));
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

pub(super) fn one_set(out: &mut String, of: &SetProbes) {
    out.push_str("\n### Probes\n\n");
    columns(out, &PROBE, of.probes.iter());
    // Refusals are reported, because a model may refuse just those changes that it cannot judge.
    for probe in of.probes.iter().filter(|probe| probe.refused > 0) {
        let _ = writeln!(
            out,
            "\nThe model refused {} of \"{}\"; they are in no figure.",
            counted(probe.refused, "changed chain", "changed chains"),
            plain(probe.name)
        );
    }
    if of.shifts.is_empty() {
        return;
    }
    out.push_str("\n### Shifts\n\n");
    columns(out, &SHIFT, of.shifts.iter());
}

const PROBE: [Column<ProbeReport>; 13] = [
    ("probe", |of| plain(of.name)),
    ("chains", |of| count(of.chains)),
    ("problems", |of| count(of.problems)),
    ("before", |of| mean(of, Effect::Before)),
    ("after", |of| mean(of, Effect::After)),
    ("change", |of| effect(of, Effect::Change, signed)),
    ("touched step", |of| effect(of, Effect::StepAfter, decimal)),
    ("its change", |of| effect(of, Effect::StepChange, signed)),
    ("noticed, %", |of| effect(of, Effect::Noticed, share)),
    ("fell, %", |of| effect(of, Effect::Fell, share)),
    ("rose, %", |of| effect(of, Effect::Rose, share)),
    ("passed, %", |of| effect(of, Effect::Passed, share)),
    ("verdict", |of| plain(&of.verdict.words)),
];

const SHIFT: [Column<ShiftReport>; 9] = [
    ("shift", |of| plain(of.name)),
    ("here", |of| plain(&of.home.kinds.join(", "))),
    ("there", |of| plain(&of.away.kinds.join(", "))),
    ("steps here", |of| count(of.home.steps)),
    ("there", |of| count(of.away.steps)),
    ("area here", |of| written(of.home.auc, decimal)),
    ("there", |of| written(of.away.auc, decimal)),
    ("difference", |of| written(of.difference, signed)),
    ("verdict", |of| plain(&of.verdict.words)),
];

fn mean(of: &ProbeReport, effect: Effect) -> String {
    let figure = of.effects.get(effect);
    figure.map_or("-".to_owned(), |figure| decimal(figure.value))
}

fn effect(of: &ProbeReport, effect: Effect, number: fn(f64) -> String) -> String {
    written(of.effects.get(effect), number)
}
