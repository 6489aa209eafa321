//! `beamgen bench`: the same problems under several strategies.
//!
//! A [`plan`] says what is measured, [`measure`] runs it and [`store`] keeps a raw row per problem.
//! Everything after that is a function of the rows: [`measured`] puts them together, and a report
//! is drawn from them as often as one likes.

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
mod over_n;
mod plan;
mod plots;
mod pools;
mod report;
mod row;
mod sets;
mod share;
mod store;
mod summary;

use std::io::{self, Write};

use file::BenchFile;
use measure::{Measurement, Progressed};
use measured::{Measured, measured, measured_so_far};
use plan::Plan;
use store::Store;
use summary::{Summary, print};

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::printable;
use crate::report::about::About;

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
        return Ok(print_plan(&Measurement::new(&plan, args.quiet)?)?);
    }
    let measurement = Measurement::new(&plan, args.quiet)?;
    let interrupt = Interrupt::watch();
    let mut store = match &args.out {
        Some(path) => Store::in_folder(path, args.resume)?,
        None => Store::in_memory(),
    };
    measurement.check(&store)?;
    let about = About::this();
    if let Some(path) = &args.out {
        folder::begin(path, &about, &plan.outline)?;
    }
    let came = measurement.run(&mut store, &interrupt)?;
    let rows = store.finish()?;
    let summarised = |cells: Vec<Measured<'_>>| -> Vec<Summary> {
        cells
            .iter()
            .map(|cell| cell.summary(&plan.outline))
            .collect()
    };
    let is_done = came.done == came.total;
    let summaries = match &args.out {
        _ if !is_done => summarised(measured_so_far(&plan.outline, &rows)),
        Some(path) => folder::write(path, &about, &plan.outline, &rows)?.summary,
        None => summarised(measured(&plan.outline, &rows, "the rows")?),
    };
    if args.json {
        for summary in &summaries {
            output::json_line(&mut io::stdout(), summary)?;
        }
    } else {
        print(&plan.outline, &summaries)?;
    }
    match is_done {
        true => Ok(()),
        false => Err(interrupt.failure(interrupted(&came, args.out.is_some()))),
    }
}

/// What was not done, and how to go on.
fn interrupted(came: &Progressed, is_kept: bool) -> String {
    let how = match is_kept {
        true => "the same command with --resume goes on",
        false => "with --out DIR and --resume a bench goes on where it stopped",
    };
    let Progressed { done, total } = came;
    format!("interrupted, {done} of {total} searches are done: {how}")
}

/// The plan that was asked for: by a bench file, or by flags.
fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    if beamgen::is_word(args.settings.models.prm.as_deref(), "none") {
        return Err(Failure::Input(
            "--prm none: the scorer belongs to what is compared here: give --scorers none"
                .to_owned(),
        ));
    }
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file::from_file(&file, args)?,
        None => from_flags::from_flags(args)?,
    };
    // Told now, not when the results are written down.
    serde_json::to_value(&plan.outline).map_err(|error| {
        Failure::Input(format!("{error}: give models and files names of UTF-8"))
    })?;
    for (problems, set) in plan.problems.iter().zip(&plan.outline.sets) {
        problems.require_answers(set.ids.len())?;
    }
    Ok(plan)
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
