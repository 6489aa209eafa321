//! `beamgen check`: runs checkers on labelled chains, and compares their verdicts with the labels.

use std::io::{self, Write};

use beamgen::checkers::CHECKERS;
use beamgen_labels::Neutral;
use beamgen_measure::Watch as _;
use beamgen_measure::check::{self, Row};
use serde_json::json;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::labels::inputs;
use crate::lost;
use crate::output;
use crate::printable;
use crate::settings;
use crate::table::{Table, grouped, percent};
use crate::verdicts;
use crate::watch::Shown;
use crate::write::Output;

pub(crate) fn main(args: &CheckArgs) -> Result<(), Failure> {
    let mut config = settings::with_flags(beamgen::Config::default(), &args.checkers)?;
    if config.checkers.is_empty() {
        config.checkers.builtin = CHECKERS.iter().map(|row| row.name.to_owned()).collect();
    }
    let mut panel = verdicts::panel(&config)?;
    // The output is opened first, so that one that cannot be written fails before checks that may
    // take hours.
    let out = args.out.as_deref().map(Output::open).transpose()?;
    let files = inputs::read(&args.input)?;
    let mut lines = Vec::new();
    let rule = args.rule.rule(Neutral::Positive);
    let most = args.limit.unwrap_or(usize::MAX);
    let total = files.iter().map(|file| file.chains.len().min(most)).sum();
    let mut shown = Shown::default();
    shown.begin(total, "chains", total as f64);
    let mut rows = Vec::new();
    for file in &files {
        let chains = &file.chains[..file.chains.len().min(most)];
        let source = &file.source;
        let of_file = check::check(
            &mut panel,
            source,
            chains,
            &rule,
            &mut shown,
            &mut |id, opinions| {
                if out.is_some() {
                    let line = json!({"file": source, "id": id, "steps": opinions});
                    output::json_line(&mut lines, &line)?;
                }
                Ok::<_, Failure>(())
            },
        )?;
        rows.extend(of_file);
    }
    drop(shown);
    if let Some(mut out) = out {
        out.write(&lines)?;
    }
    lost::tell(panel.lost());
    print(&rows, args.json)
}

/// Formats a share in per cent, followed by its interval.
fn between(share: Option<f64>, interval: Option<(f64, f64)>) -> String {
    let share = share.map_or("-".to_owned(), percent);
    interval.map_or(share.clone(), |(low, high)| {
        format!("{share} ({:.1}-{:.1})", 100.0 * low, 100.0 * high)
    })
}

fn print(rows: &[Row], json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        for row in rows {
            output::json_line(&mut out, row)?;
        }
        return Ok(out.flush()?);
    }
    let mut table = Table::new(&[
        "data",
        "checker",
        "steps",
        "pass",
        "fail",
        "coverage",
        "true",
        "false",
        "precision",
        "first mistakes",
        "found",
    ]);
    for row in rows {
        table.row(vec![
            printable::line(&row.file).to_string(),
            printable::line(&row.checker).to_string(),
            grouped(row.steps),
            grouped(row.tally.pass),
            grouped(row.tally.fail),
            row.coverage.map_or("-".to_owned(), percent),
            grouped(row.true_fails),
            grouped(row.false_fails.len() as u64),
            between(row.precision, row.precision_interval),
            grouped(row.wrong_chains),
            between(row.recall, row.recall_interval),
        ]);
    }
    table.write(&mut out)?;
    writeln!(
        out,
        "\n  coverage: share of steps with a verdict; true, false: fails on steps labelled wrong, right; precision: true / (true + false);\n  \
         found: share of chains with a mistake whose first fail is on the first mistake; in brackets: 95 % intervals over problems."
    )?;
    // The row `all` would list the same fails a second time.
    for row in rows.iter().filter(|row| row.checker != "all") {
        for fail in &row.false_fails {
            writeln!(
                out,
                "\n  {}, chain {}, step {} is labelled right, but {} fails it: {}\n    {}",
                printable::line(&row.file),
                printable::line(&fail.chain),
                fail.step + 1,
                printable::line(&row.checker),
                printable::line(&fail.reason),
                printable::line(&fail.text),
            )?;
        }
    }
    Ok(out.flush()?)
}
