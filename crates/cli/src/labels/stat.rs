//! `beamgen labels stat`.

use std::io::{self, Write};

use beamgen_labels::{Agreement, Labelled, Neutral, Stat, agreement};
use serde_json::{Value, json};

use super::inputs;
use crate::args::StatArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::table::{Table, grouped, percent};

/// The maximum number of levels to show. A file with more levels uses the field for something else.
const MOST_LEVELS: usize = 20;

pub(super) fn main(args: &StatArgs) -> Result<(), Failure> {
    // Neutral ratings count as half by default. A rule for training would turn each one into right
    // or wrong, and so hide how many there are.
    let rule = args.rule.rule(Neutral::Half);
    let mut out = io::stdout().lock();
    let inputs = inputs::read(&args.input)?;
    // The agreement is over all files together, because each rater may have a file of their own.
    let rated = inputs.iter().flat_map(|input| {
        let chains = input.chains.iter();
        chains.map(|chain| (input.source.as_str(), chain))
    });
    let agreements = agreement(rated);
    for (i, input) in inputs.iter().enumerate() {
        let stat = Stat::of(&input.chains, &input.rejected, &rule);
        if args.json {
            output::json_line(&mut out, &row(input, &stat))?;
            continue;
        }
        if i > 0 {
            writeln!(out)?;
        }
        let source = printable::line(&input.source);
        writeln!(out, "{source}, format {}:\n", input.format.name)?;
        table(input, &stat).write(&mut out)?;
    }
    for agreement in agreements.iter().filter(|_| args.json) {
        output::json_line(&mut out, &json!({"agreement": agreement}))?;
    }
    if !args.json && !agreements.is_empty() {
        writeln!(out)?;
        agreed(&agreements).write(&mut out)?;
    }
    Ok(out.flush()?)
}

/// Returns a table of the agreement between each pair of raters, over all files.
fn agreed(agreements: &[Agreement]) -> Table {
    let mut table = Table::new(&[
        "raters",
        "steps",
        "equal",
        "kappa",
        "first errors",
        "equal",
        "kappa",
    ]);
    for Agreement {
        raters: [one, other],
        steps,
        first_errors,
    } in agreements
    {
        let mut row = vec![printable::line(&format!("{one}, {other}")).to_string()];
        for of in [steps, first_errors] {
            let share = (of.count > 0).then(|| percent(of.equal as f64 / of.count as f64));
            row.push(grouped(of.count));
            row.push(share.unwrap_or_default());
            row.push(
                of.kappa
                    .map_or("-".to_owned(), |kappa| format!("{kappa:.3}")),
            );
        }
        table.row(row);
    }
    table
}

fn row(input: &Labelled, stat: &Stat) -> Value {
    let mut row = json!({
        "file": input.source,
        "format": input.format.name,
        "records": input.records,
    });
    if let (Value::Object(row), Ok(Value::Object(stat))) = (&mut row, serde_json::to_value(stat)) {
        row.extend(stat);
    }
    row
}

fn table(input: &Labelled, stat: &Stat) -> Table {
    let mut table = Table::new(&["what", "count", "share"]);
    let mut add = |what: &str, count: usize, of: Option<usize>| {
        let share = of
            .filter(|&of| of > 0)
            .map(|of| percent(count as f64 / of as f64));
        table.row(vec![
            what.to_owned(),
            grouped(count as u64),
            share.unwrap_or_default(),
        ]);
    };
    add("records", input.records, None);
    for (reason, &count) in &stat.rejected {
        add(&format!("  rejected: {reason}"), count, Some(input.records));
    }
    add("chains", stat.chains, None);
    add(
        "  equal to an earlier chain",
        stat.duplicate_chains,
        Some(stat.chains),
    );
    for (level, &count) in stat.levels.iter().take(MOST_LEVELS) {
        add(&format!("  of level {level}"), count, Some(stat.chains));
    }
    if stat.right_answers > 0 {
        let (right, unsound) = (stat.right_answers, stat.right_unsound);
        add("  with a right answer", right, Some(stat.chains));
        add("    and a step labelled wrong", unsound, Some(right));
    }
    add("problems", stat.problems, None);
    add("steps", stat.steps, None);
    add("alternatives of steps", stat.alternatives, None);
    for (fact, &count) in &stat.facts {
        let is_of_chains = fact.starts_with("chain: ");
        let of = if is_of_chains {
            stat.chains
        } else {
            stat.steps
        };
        add(&format!("  {fact}"), count, Some(of));
    }
    if stat.raters > 0 {
        add("people who rated", stat.raters, None);
    }
    add("labels", stat.labels, None);
    add("  + (1)", stat.positive, Some(stat.labels));
    add("  0 (neutral or between)", stat.between, Some(stat.labels));
    add("  - (0)", stat.negative, Some(stat.labels));
    add("distinct (prefix, step)", stat.distinct, Some(stat.labels));
    add(
        "  with different labels",
        stat.disputed,
        Some(stat.distinct),
    );
    add(
        "repeats of an earlier label",
        stat.repeats,
        Some(stat.labels),
    );
    add(
        "  contradicting the earlier label",
        stat.contradictions,
        Some(stat.repeats),
    );
    table
}
