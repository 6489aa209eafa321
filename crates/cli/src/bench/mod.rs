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
mod folder;
mod from_file;
mod from_flags;
mod markdown;
mod measure;
mod measured;
mod outline;
mod plan;
mod plots;
mod pools;
mod report;
mod row;
mod sets;
mod share;
mod store;
mod summary;
mod write;

use std::io::{self, Write};
use std::path::Path;

use about::About;
use file::BenchFile;
use measure::Measurement;
use measured::measured;
use plan::Plan;
use store::Store;
use summary::{Summary, print};

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;

pub fn main(args: &BenchArgs) -> Result<(), Failure> {
    if let Some(path) = &args.redraw {
        let (outline, report) = folder::redraw(path)?;
        return Ok(print(&outline, &report.summary)?);
    }
    if args.resume && args.out.is_none() {
        return Err(Failure::Input(
            "--resume needs a results folder: add --out DIR".to_owned(),
        ));
    }
    let plan = plan(args)?;
    if args.plan {
        return Ok(print_plan(&Measurement::new(&plan)?)?);
    }
    let summaries = match &args.out {
        Some(path) => in_folder(path, args.resume, &plan)?,
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

/// The plan that was asked for: by a bench file, or by flags.
fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file::from_file(&file, args)?,
        None => from_flags::from_flags(args)?,
    };
    for (problems, set) in plan.problems.iter().zip(&plan.outline.sets) {
        problems.require_answers(set.ids.len())?;
    }
    Ok(plan)
}

/// Runs what the folder has no rows of, and writes its report.
fn in_folder(path: &Path, resume: bool, plan: &Plan) -> Result<Vec<Summary>, Failure> {
    let measurement = Measurement::new(plan)?;
    let mut store = Store::in_folder(path, resume)?;
    measurement.check(&store)?;
    let about = About::this();
    folder::begin(path, &about, &plan.outline)?;
    measurement.run(&mut store)?;
    let rows = store.finish()?;
    Ok(folder::write(path, &about, &plan.outline, &rows)?.summary)
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
