//! Prints the results of probes on one set, as tables.

use std::io::{self, Write};

use beamgen::eval::probes::{Effect, Effects};
use beamgen_measure::eval_prm::SetProbes;

use crate::printable;
use crate::table::{Table, grouped, thousandths};

pub(super) fn write(out: &mut dyn Write, data: &str, probes: &SetProbes) -> io::Result<()> {
    writeln!(
        out,
        "\n  Probes: chains of {} changed on purpose and scored again\n",
        printable::line(data)
    )?;
    let mut table = Table::new(&[
        "probe",
        "chains",
        "score before",
        "after",
        "change, 95 %",
        "touched step",
        "verdict",
    ]);
    for probe in &probes.probes {
        let mean = |effect| thousandths(probe.effects.get(effect).map(|figure| figure.value));
        table.row(vec![
            probe.name.to_owned(),
            grouped(probe.chains as u64),
            mean(Effect::Before),
            mean(Effect::After),
            change(&probe.effects),
            mean(Effect::StepAfter),
            probe.verdict.words.clone(),
        ]);
    }
    table.write(out)?;
    if !probes.shifts.is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&["shift", "ROC area here", "there", "verdict"]);
        for shift in &probes.shifts {
            table.row(vec![
                format!("{}: {}", shift.name, shift.away.kinds.join(", ")),
                thousandths(shift.home.auc.map(|area| area.value)),
                thousandths(shift.away.auc.map(|area| area.value)),
                shift.verdict.words.clone(),
            ]);
        }
        table.write(out)?;
    }
    writeln!(
        out,
        "\n  notices: the share of chains at or above the threshold that the change puts below it. Intervals are over problems.\n  \
         A report (--report DIR) has all figures and the rules of the verdicts."
    )
}

fn change(effects: &Effects) -> String {
    match effects.get(Effect::Change) {
        None => "-".to_owned(),
        Some(change) => match change.interval {
            None => format!("{:+.3}", change.value),
            Some((low, high)) => format!("{:+.3} ({low:+.3} to {high:+.3})", change.value),
        },
    }
}
