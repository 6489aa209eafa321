//! `beamgen bench`: the same problems under several strategies.
//!
//! A [`plan`] says what is measured, [`measure`] runs it and [`store`] keeps a raw row per problem.
//! Everything after that is a function of the rows: [`measured`] puts them together, and a report
//! is drawn from them as often as one likes.

mod about;
mod against;
mod allocation;
mod compare;
mod csv;
mod file;
mod from_file;
mod markdown;
mod measure;
mod measured;
mod plan;
mod plots;
mod pools;
mod report;
mod row;
mod sets;
mod share;
mod store;

use std::io::{self, Write};
use std::path::Path;

use about::About;
use measure::Measurement;
use measured::{Summary, measured};
use plan::{Outline, Plan};
use store::Store;

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::table::{Table, grouped, megabytes, percent};

pub fn main(args: &BenchArgs) -> Result<(), Failure> {
    if let Some(folder) = &args.redraw {
        let (outline, report) = report::redraw(folder)?;
        return Ok(print(&outline, &report.summary)?);
    }
    if args.resume && args.out.is_none() {
        return Err(Failure::Input(
            "--resume needs a results folder: add --out DIR".to_owned(),
        ));
    }
    let plan = plan::plan(args)?;
    if args.plan {
        return Ok(print_plan(&Measurement::new(&plan)?)?);
    }
    let summaries = match &args.out {
        Some(folder) => in_folder(folder, args.resume, &plan)?,
        None => {
            let mut store = Store::in_memory();
            Measurement::new(&plan)?.run(&mut store)?;
            let rows = store.finish()?;
            let measured = measured(&plan.outline, &rows, "the rows")?;
            measured
                .iter()
                .map(|cell| cell.summary(&plan.outline))
                .collect()
        }
    };
    if !args.json {
        return Ok(print(&plan.outline, &summaries)?);
    }
    for summary in &summaries {
        output::json_line(&mut io::stdout(), summary)?;
    }
    Ok(())
}

/// Runs what the folder has no rows of, and writes its report.
fn in_folder(folder: &Path, resume: bool, plan: &Plan) -> Result<Vec<Summary>, Failure> {
    let measurement = Measurement::new(plan)?;
    let mut store = Store::in_folder(folder, resume)?;
    measurement.check(&store)?;
    let about = About::this();
    report::begin(folder, &about, &plan.outline)?;
    measurement.run(&mut store)?;
    let rows = store.finish()?;
    Ok(report::write(folder, &about, &plan.outline, &rows)?.summary)
}

/// The searches and what is read off each.
fn print_plan(measurement: &Measurement<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let outline = measurement.outline();
    for set in &outline.sets {
        writeln!(
            out,
            "{}: {} problems from {}",
            printable::line(&set.name),
            set.ids.len(),
            printable::line(&set.source)
        )?;
    }
    let searches = measurement.searches();
    writeln!(
        out,
        "seeds: {}; {} searches on every set with every seed:",
        outline.seeds,
        searches.len()
    )?;
    for labels in searches {
        writeln!(out, "  {}", printable::line(&labels.join(", ")))?;
    }
    out.flush()
}

fn print(outline: &Outline, summaries: &[Summary]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let plural = if outline.seeds == 1 { "" } else { "s" };
    for set in &outline.sets {
        writeln!(
            out,
            "{}: {} problems, {} seed{plural}; tokens, passes and seconds per problem",
            printable::line(&set.name),
            set.ids.len(),
            outline.seeds
        )?;
        let mut table = Table::new(&HEAD);
        for row in summaries.iter().filter(|row| row.set == set.name) {
            table.row(cells(row));
        }
        table.write(&mut out)?;
    }
    out.flush()
}

/// Columns of the table.
const HEAD: [&str; 9] = [
    "strategy",
    "accuracy",
    "95 % interval",
    "generated",
    "scored",
    "reused",
    "passes",
    "peak KV",
    "seconds",
];

/// A summary as cells of the table.
fn cells(row: &Summary) -> Vec<String> {
    let solved = row.problems as f64 * row.seeds as f64;
    let each = |total: u64| grouped((total as f64 / solved).round() as u64);
    let bound = if row.peak_kv_is_bound {
        "\u{2264} "
    } else {
        ""
    };
    vec![
        row.name.clone(),
        percent(row.accuracy),
        format!(
            "{:.1} to {:.1}",
            row.accuracy_low * 100.0,
            row.accuracy_high * 100.0
        ),
        each(row.ledger.generated_tokens),
        each(row.ledger.scored_tokens),
        each(row.ledger.reused_tokens),
        each(row.ledger.forward_passes),
        format!("{bound}{}", megabytes(row.ledger.peak_kv_bytes)),
        format!("{:.3}", row.ledger.seconds / solved),
    ]
}
