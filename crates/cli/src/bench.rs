//! `beamgen bench`: compares strategies on the same problems.
//!
//! This module turns a bench file or flags into a plan; the crate `beamgen-measure` runs the plan.

pub(crate) mod file;
mod from_file;
mod from_flags;
mod pool;
mod sets;

use std::io::{self, Write};
use std::path::Path;

use beamgen::eval::Problems;
use beamgen::{Config, Solver};
use beamgen_measure::bench::{
    self, COLUMNS, Host, Measurement, Outline, Plan, SOUND_COLUMNS, Summary,
};
use beamgen_measure::pool::{is_pool, redraw};
use beamgen_measure::{AGGREGATIONS, Aggregated};
use file::BenchFile;

use crate::about;
use crate::args::BenchArgs;
use crate::failure::{Failure, refuse};
use crate::interrupt::Interrupt;
use crate::lost;
use crate::output;
use crate::printable;
use crate::run_report;
use crate::settings::{self, ShowPlan};
use crate::table::{Table, counted};
use crate::watch::Shown;

pub(crate) fn main(args: &BenchArgs) -> Result<(), Failure> {
    if let Some(path) = &args.redraw {
        if is_pool(path) {
            return Ok(pool::print(&redraw(path)?)?);
        }
        let drawn = bench::redraw(path)?;
        return Ok(print(&drawn.outline, &drawn.summaries, &drawn.aggregated)?);
    }
    if beamgen::program::is_word(args.settings.given.path("prm"), "none") {
        return refuse("--prm none: a bench compares scorers: use --scorers none");
    }
    if !args.pool.is_empty() {
        return pool::main(args);
    }
    if args.resume && args.out.is_none() {
        return refuse("--resume needs a results folder: add --out DIR");
    }
    let plan = plan(args)?;
    let mut shown = Shown::default();
    shown.is_quiet = args.quiet;
    let measurement = Measurement::new(&plan, &mut shown)?;
    if args.plan {
        return Ok(print_plan(&measurement)?);
    }
    // Only now: until here, a signal should end the process at once.
    let interrupt = Interrupt::watch();
    let (out, cancel) = (args.out.as_deref(), interrupt.token());
    let came = measurement.measure(out, args.resume, &about::this(), &mut shown, &cancel)?;
    // Takes the progress bar off the terminal before tables are printed.
    drop(shown);
    if args.json {
        for summary in &came.summaries {
            output::json_line(&mut io::stdout(), summary)?;
        }
    } else {
        print(&plan.outline, &came.summaries, &came.aggregated)?;
    }
    // Without a results folder an interrupted bench cannot be resumed, so the message names --out.
    let missing = args.out.is_none().then_some("DIR");
    run_report::ended(&interrupt, [came.done, came.total], "searches", missing)
}

impl Host for Shown {
    type Error = Failure;

    fn load(&mut self, config: Config, sets: &[(&Problems, usize)]) -> Result<Solver, Failure> {
        let show = ShowPlan::unless(self.is_quiet);
        // A bench cannot skip problems: its strategies must all have the same ones.
        let solver = settings::solver(config, sets, show, Some("shorten it"))?;
        for (problems, count) in sets {
            settings::note_foreign(&solver, problems, *count);
        }
        Ok(solver)
    }

    fn unload(&mut self, solver: &Solver) {
        lost::tell_of(solver);
    }
}

/// Makes the plan of a bench file if --config names one, otherwise of flags.
fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file::from_file(&file, args)?,
        None => from_flags::from_flags(args)?,
    };
    // A fault of the plan is reported here, before models are loaded and the folder is written.
    plan.check()?;
    Ok(plan)
}

/// Prints the problem sets, and each search with the rows that are derived from it.
fn print_plan(measurement: &Measurement<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let outline = measurement.outline();
    for set in &outline.sets {
        writeln!(
            out,
            "{}: {} from {}",
            printable::line(&set.name),
            counted(set.ids.len(), "problem", "problems"),
            printable::line(&set.source)
        )?;
    }
    let searches = measurement.searches();
    writeln!(
        out,
        "seeds: {}; {} on every set with every seed:",
        outline.seeds,
        counted(searches.len(), "search", "searches")
    )?;
    for labels in searches {
        writeln!(out, "  {}", printable::line(&labels.join(", ")))?;
    }
    out.flush()
}

/// Writes a table for each set, and a table of other aggregations over its scored pools.
pub(crate) fn print(
    outline: &Outline,
    summaries: &[Summary],
    aggregated: &[Aggregated],
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for set in &outline.sets {
        writeln!(
            out,
            "{}: {}, {}; tokens, passes and seconds per problem",
            printable::line(&set.name),
            counted(set.ids.len(), "problem", "problems"),
            counted(outline.seeds, "seed", "seeds")
        )?;
        let all = set.ids.len() * outline.seeds as usize;
        let of_set = || summaries.iter().filter(|row| row.set == set.name);
        // An interrupted bench has cells with fewer searches: a column shows how many.
        let is_partial = of_set().any(|row| row.searches < all);
        let mut head = COLUMNS.map(|column| column.0).to_vec();
        if is_partial {
            head.insert(1, "done");
        }
        let mut table = Table::new(&head);
        for row in of_set() {
            let mut cells = Vec::from(COLUMNS.map(|column| column.1(row)));
            if is_partial {
                cells.insert(1, format!("{} of {all}", row.searches));
            }
            table.row(cells);
        }
        table.write(&mut out)?;
        let audited: Vec<&Summary> = of_set().filter(|row| row.has_soundness()).collect();
        if !audited.is_empty() {
            let mut table = Table::new(&SOUND_COLUMNS.map(|column| column.0));
            for row in audited {
                table.row(Vec::from(SOUND_COLUMNS.map(|column| column.1(row))));
            }
            writeln!(out)?;
            table.write(&mut out)?;
        }
        let of_set = || aggregated.iter().filter(|row| row.set == set.name);
        if of_set().next().is_none() {
            continue;
        }
        writeln!(out, "  other aggregations of the same samples, %:")?;
        let mut head = vec!["samples"];
        head.extend(AGGREGATIONS.iter().map(|column| column.0));
        let mut table = Table::new(&head);
        for row in of_set() {
            let cells = AGGREGATIONS.iter().map(|column| column.1(row));
            table.row(std::iter::once(row.name.clone()).chain(cells).collect());
        }
        table.write(&mut out)?;
    }
    out.flush()
}

/// Returns the problem file of the command line, which may be given as FILE or as --problems.
fn given_file(args: &BenchArgs) -> Option<&Path> {
    args.file.as_deref().or(args.problems.as_deref())
}
