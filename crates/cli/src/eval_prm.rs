//! `beamgen eval-prm`: measures how well a reward model finds the first wrong step, by the method
//! of ProcessBench. Probes measure how easily the model can be deceived.

mod partial;
mod terminal;

use std::io::{self, Write};

use beamgen_labels::{DataSource, Neutral};
use beamgen_measure::eval_prm::{self, Outline, Report, Summary};

use crate::about;
use crate::args::EvalPrmArgs;
use crate::data;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::printable;
use crate::settings;
use crate::table::{Table, grouped, percent};
use crate::watch::Shown;

/// Finds the files and data sets of the command.
fn sources(args: &EvalPrmArgs) -> Result<Vec<DataSource>, Failure> {
    data::sources(&args.data, &args.part, args.prm.given.offline())
}

pub(crate) fn main(args: &EvalPrmArgs) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.threshold) {
        return refuse(format!(
            "--wrong-below {}: not a score: use a number from 0 to 1",
            args.threshold
        ));
    }
    if args.partial {
        return partial::main(args);
    }
    let report = match &args.redraw {
        Some(folder) => eval_prm::redraw(folder)?,
        None => reported(args)?,
    };
    let rows = report.summaries();
    let mut out = io::stdout().lock();
    if args.json {
        for row in &rows {
            output::json_line(&mut out, row)?;
        }
    } else {
        print(&mut out, &rows, report.threshold())?;
        if let Some(folder) = args.report.as_ref().or(args.redraw.as_ref()) {
            let path = folder.join("report.md").display().to_string();
            writeln!(out, "  Full report: {}", printable::line(&path))?;
        }
    }
    out.flush()?;
    // The error comes last, because the table shows how many chains were refused.
    if report.has_scores() {
        Ok(())
    } else {
        let message = "the reward model could not read any of the chains: see the messages above";
        Err(Failure::Run(anyhow::anyhow!(message)))
    }
}

fn print(out: &mut dyn Write, rows: &[Summary<'_>], threshold: f32) -> io::Result<()> {
    table(rows, threshold).write(out)?;
    writeln!(
        out,
        "\n  A score below {threshold} flags a step. on wrong: wrong chains whose first flag is on the first wrong step;\n  \
         on right: right chains without a flag; F1: harmonic mean of both, 95 % interval over problems.\n  \
         best: F1 at the best threshold for these data, an upper bound."
    )?;
    for row in rows {
        if let Some(lopsided) = &row.lopsided {
            writeln!(out, "  {}: {lopsided}.", printable::line(row.data))?;
        }
        if let Some(probes) = row.probes {
            terminal::write(out, row.data, probes)?;
        }
    }
    Ok(())
}

/// Scores the files. Runs probes with --probes, and writes a report with --report.
fn reported(args: &EvalPrmArgs) -> Result<Report, Failure> {
    let config = settings::prm_config(&args.prm)?;
    let rule = args.labels.rule(Neutral::Positive);
    let sets = eval_prm::open(&sources(args)?, args.limit, &rule)?;
    for left_out in sets.iter().filter_map(|set| set.left_out.as_ref()) {
        output::note(format_args!("note: {left_out}"));
    }
    let (calibration, threshold) = (args.calibration.as_deref(), args.threshold);
    let aggregation = args.aggregation.unwrap_or(config.search.aggregation);
    let probes = args.probes.then_some(aggregation);
    let outlines = sets.iter().map(|set| set.outline.clone()).collect();
    let outline = Outline::new(&config, calibration, threshold, rule, probes, outlines)?;
    if let Some(folder) = &args.report {
        // A folder that cannot be created should fail now, not after hours of scoring.
        eval_prm::create(folder)?;
    }
    let problems = sets.iter().flat_map(|set| &set.chains);
    let problems = problems.map(|chain| chain.problem.as_str());
    let mut model = settings::reward_model(config, problems)?;
    let rows = eval_prm::score(&mut *model, sets, args.probes, &mut Shown::default())?;
    Ok(match &args.report {
        Some(folder) => eval_prm::write(folder, &about::this(), &outline, rows)?,
        None => eval_prm::report(outline, rows),
    })
}

fn table(rows: &[Summary<'_>], threshold: f32) -> Table {
    let f1 = format!("F1 at {threshold}");
    let mut table = Table::new(&[
        "data", "chains", "refused", "on wrong", "on right", &f1, "95 %", "best",
    ]);
    let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    for row in rows {
        let interval = match (row.f1_low, row.f1_high) {
            (Some(low), Some(high)) => format!("{:.1}-{:.1}", 100.0 * low, 100.0 * high),
            _ => "-".to_owned(),
        };
        let best = match (row.best_f1, row.best_threshold) {
            (Some(f1), Some(threshold)) => format!("{} at {threshold}", percent(f1)),
            _ => "-".to_owned(),
        };
        table.row(vec![
            row.data.to_owned(),
            grouped(row.chains as u64),
            grouped(row.refused as u64),
            share(row.accuracy_on_wrong),
            share(row.accuracy_on_right),
            share(row.f1),
            interval,
            best,
        ]);
    }
    table
}
