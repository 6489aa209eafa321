//! `beamgen bench`: compares search strategies on the same problems.
//!
//! This module makes a plan from a bench file or from flags. The crate `beamgen-measure` runs the
//! plan.

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
use crate::plan;
use crate::printable;
use crate::progress;
use crate::run_report;
use crate::settings::{self, ShowPlan};
use crate::table::{Table, counted, grouped};
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
    shown.notes = plan
        .problems
        .iter()
        .filter_map(Problems::found_note)
        .collect();
    let measurement = Measurement::new(&plan, &mut shown)?;
    if args.plan {
        return print_plan(&measurement, &mut shown, args.json);
    }
    // Signals are handled only from here on: before, a signal should end the process at once.
    let interrupt = Interrupt::watch();
    let (out, cancel) = (args.out.as_deref(), interrupt.token());
    let came = measurement.measure(out, args.resume, &about::this(), &mut shown, &cancel)?;
    // Dropping the display removes the progress bar, so that the tables are printed below it.
    drop(shown);
    if args.json {
        for summary in &came.summaries {
            output::json_line(&mut io::stdout(), summary)?;
        }
    } else {
        print(&plan.outline, &came.summaries, &came.aggregated)?;
    }
    // Without --out an interrupted bench cannot be resumed, so the message names the flag.
    let missing = args.out.is_none().then_some("DIR");
    run_report::ended(&interrupt, [came.done, came.total], "searches", missing)
}

impl Host for Shown {
    type Error = Failure;

    fn load(&mut self, config: Config, sets: &[(&Problems, usize)]) -> Result<Solver, Failure> {
        let show = ShowPlan::unless(self.is_quiet);
        // All strategies must solve the same problems, so a bench cannot skip any.
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

/// Makes the plan: from the bench file that --config names, or else from flags.
fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file::from_file(&file, args)?,
        None => from_flags::from_flags(args)?,
    };
    // The plan is checked before models are loaded and the results folder is written.
    plan.check()?;
    Ok(plan)
}

/// Prints the problem sets, and each search with its bounds, memory and time.
fn print_plan(measurement: &Measurement<'_>, shown: &mut Shown, json: bool) -> Result<(), Failure> {
    let forecasts = measurement.forecasts(shown)?;
    if json {
        for planned in &forecasts {
            output::json_line(&mut io::stdout(), planned)?;
        }
        return Ok(());
    }
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
    let searches = counted(measurement.searches().len(), "search", "searches");
    writeln!(
        out,
        "seeds: {}; {searches} on every set with every seed:",
        outline.seeds
    )?;
    let mut table = Table::new(&[
        "set and search",
        "tokens at most",
        "tokens",
        "scored",
        "memory at most",
        "time",
    ]);
    for planned in &forecasts {
        let forecast = &planned.forecast;
        table.row(vec![
            format!("{} {}", planned.set, planned.labels.join(", ")),
            grouped(forecast.most.tokens),
            grouped(forecast.sampled.round() as u64),
            grouped(forecast.scored.round() as u64),
            plan::size(planned.memory),
            progress::words_of(forecast.seconds),
        ]);
    }
    table.write(&mut out)?;
    let seconds = forecasts
        .iter()
        .map(|planned| planned.forecast.seconds)
        .sum();
    writeln!(out, "time: about {} in all", progress::words_of(seconds))?;
    Ok(out.flush()?)
}

/// Prints a table for each set, then a table of further aggregations of the same scores.
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
        // Cells of an interrupted bench may have fewer searches, so a column shows their number.
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

/// Returns the problem file, which may be given as FILE or as --problems.
fn given_file(args: &BenchArgs) -> Option<&Path> {
    args.file.as_deref().or(args.problems.as_deref())
}
