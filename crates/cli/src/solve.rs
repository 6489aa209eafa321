//! `beamgen solve`: solves problems, and prints the chosen chains.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use beamgen::eval::{Problems, Record, RunFile, RunHeader};
use beamgen::{Recipe, Request, RunSummary, Solver};

use crate::args::SolveArgs;
use crate::failure::{Failure, refuse};
use crate::forecast;
use crate::interrupt::Interrupt;
use crate::lost;
use crate::output;
use crate::palette::Palette;
use crate::printed::{self, Before, Graded, Marks};
use crate::run_report::RunReport;
use crate::servers;
use crate::settings::{self, SHORTEN_OR_SKIP, ShowPlan};
use crate::table::counted;

pub(crate) fn main(args: &SolveArgs) -> Result<(), Failure> {
    if args.out.is_none() && (args.resume || args.tree) {
        let flag = if args.resume { "--resume" } else { "--tree" };
        return refuse(format!("{flag} needs a run file: add --out FILE"));
    }
    let config = settings::search_config(&args.settings)?;
    config.check()?;
    let offline = config.models.offline;
    let recipe = args
        .settings
        .config
        .as_deref()
        .filter(|path| args.file.is_none() && Recipe::is_recipe(path));
    let (problems, count) = match recipe {
        Some(path) => settings::problems_of(&Recipe::open(path)?, &args.data, offline, args.limit)?,
        None => {
            settings::problems_or_question(args.file.as_deref(), &args.data, offline, args.limit)?
        }
    };
    let show = match (args.quiet, args.json || !io::stderr().is_terminal()) {
        _ if args.verbose => ShowPlan::Always,
        (true, _) => ShowPlan::Never,
        (false, true) => ShowPlan::OwnModels,
        (false, false) => ShowPlan::Always,
    };
    let advice = (!args.skip_too_long).then_some(SHORTEN_OR_SKIP);
    let mut solver = settings::solver(config, &[(&problems, count)], show, advice)?;
    if args.plan {
        let settings = solver.settings();
        settings::note_problems(&solver, &problems, count, args.quiet);
        let mut request = |at: usize| Request::new(problems.problems[at].clone(), settings.clone());
        let most = solver.most(settings.clone());
        return forecast::print(&mut solver, count, most, &mut request, args.json);
    }
    // Signals are handled only from here on: before, a signal should end the process at once.
    let interrupt = Interrupt::watch();
    // The run file's header contains the fingerprints of the models, which must be loaded before.
    let (run_file, finished) = open_run_file(args, &solver, &problems)?;
    settings::note_problems(&solver, &problems, count, args.quiet);
    let todo: Vec<usize> = (0..count)
        .filter(|&index| !finished.contains_key(&problems.problems[index].id))
        .collect();
    let mut report = Report::new(args, &problems, &todo, run_file);
    let summary = report.run(&mut solver, &interrupt);
    // The losses are reported even if the run failed, since they may be the cause.
    lost::tell_of(&solver);
    let summary = summary?;
    let resumed = problems.problems[..count]
        .iter()
        .filter_map(|problem| finished.get(&problem.id));
    for line in servers::traffic(&solver) {
        output::note(format_args!("{line}"));
    }
    report.finish(resumed, &summary, &interrupt)
}

/// Opens the run file of --out. Returns it with the records that earlier calls finished.
fn open_run_file(
    args: &SolveArgs,
    solver: &Solver,
    problems: &Problems,
) -> Result<(Option<RunFile>, BTreeMap<String, Record>), Failure> {
    let Some(path) = &args.out else {
        return Ok((None, BTreeMap::new()));
    };
    let header = RunHeader::new(problems.fingerprint(), solver.identity())
        .with_effective(solver.effective());
    if !args.resume {
        return Ok((Some(RunFile::create(path, &header)?), BTreeMap::new()));
    }
    let (file, records) = RunFile::resume::<Record>(path, &header)?;
    let texts = records.iter().map(|record| {
        // Run files of older versions lack the text of the problem, so it cannot be compared.
        let text = Some(record.problem.as_str()).filter(|text| !text.is_empty());
        (record.id.as_str(), text)
    });
    file.check_problems(problems, texts)?;
    // A problem that was tried again has several lines; collecting into a map keeps the last one.
    let mut finished: BTreeMap<String, Record> = records
        .into_iter()
        .map(|record| (record.id.clone(), record))
        .collect();
    let known = finished.len();
    finished.retain(|_, record| !record.is_worth_retrying());
    let again = known - finished.len();
    if again > 0 {
        let problems = counted(again, "problem", "problems");
        output::note(format_args!(
            "note: trying {problems} again, which could not be tried, or lost chains to memory or verdicts of programs"
        ));
    }
    Ok((Some(file), finished))
}

/// Writes results: to the run file at once, and to stdout in the order of the input. So stdout does
/// not depend on the number of problems in flight.
struct Report<'a> {
    args: &'a SolveArgs,
    problems: &'a Problems,
    /// The indices of the problems that this call solves.
    todo: &'a [usize],
    run_file: Option<RunFile>,
    palette: Palette,
    run: RunReport,
    /// Finished records by position in `todo`. Each waits until all earlier problems are printed.
    waiting: BTreeMap<usize, Record>,
    printed: usize,
    marks: Marks,
    /// Whether the reader of stdout has closed it.
    reader_left: bool,
    totals: Graded,
}

impl<'a> Report<'a> {
    fn new(
        args: &'a SolveArgs,
        problems: &'a Problems,
        todo: &'a [usize],
        run_file: Option<RunFile>,
    ) -> Self {
        Self {
            args,
            problems,
            todo,
            run_file,
            palette: Palette::new(args.color, io::stdout().is_terminal()),
            run: RunReport::new(args.quiet, args.skip_too_long, todo.len()),
            waiting: BTreeMap::new(),
            printed: 0,
            marks: Marks::default(),
            reader_left: false,
            totals: Graded::default(),
        }
    }

    /// Solves all problems of `todo`, or as many as are done before an interrupt.
    fn run(&mut self, solver: &mut Solver, interrupt: &Interrupt) -> Result<RunSummary, Failure> {
        let (todo, problems) = (self.todo, self.problems);
        let settings = solver.settings();
        if !self.args.quiet {
            let most = solver.most(settings.clone());
            self.run.plan(solver, todo.len(), most);
        }
        let requests = todo.iter().map(|&at| {
            let problem = problems.problems[at].clone();
            Request::new(problem, settings.clone())
        });
        // Both callbacks need the report. The search calls one at a time, so a `RefCell` never
        // panics.
        let this = std::cell::RefCell::new(self);
        interrupt.run(
            solver,
            requests,
            &mut |event| this.borrow_mut().run.observe(event),
            &mut |result| this.borrow_mut().deliver(result),
        )
    }

    fn deliver(&mut self, result: beamgen::ProblemResult) -> Result<(), Failure> {
        let mut record = Record::new(&result, self.args.tree);
        self.run.done(&result, record.correct);
        if let Some(run_file) = &mut self.run_file {
            run_file.append(&record)?;
        }
        // The run file has the tree now. The record may wait long to be printed, and its tree would
        // take memory.
        record.tree = None;
        self.totals.count(&record);
        self.waiting.insert(result.index, record);
        while let Some(record) = self.waiting.remove(&self.printed) {
            self.print(self.printed, &record)?;
            self.printed += 1;
        }
        Ok(())
    }

    /// Prints the record of a problem by its position in `todo`, unless stdout was closed.
    fn print(&mut self, position: usize, record: &Record) -> io::Result<()> {
        if self.reader_left {
            return Ok(());
        }
        match self.try_print(position, record) {
            // With --out, `| head` must not end the run, since the run file is the result.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.run_file.is_some() => {
                self.reader_left = true;
                output::note(
                    "note: the output was closed; the run continues and writes its run file",
                );
                Ok(())
            }
            printed => printed,
        }
    }

    fn try_print(&mut self, position: usize, record: &Record) -> io::Result<()> {
        let problem = &self.problems.problems[self.todo[position]];
        let mut out = io::stdout().lock();
        self.run.progress.aside(|| {
            if self.args.json {
                output::json_line(&mut out, record)?;
            } else if !self.args.quiet {
                printed::problem(&mut out, self.palette, problem, record)?;
                self.marks.see(record);
            }
            out.flush()
        })
    }

    fn finish<'r>(
        mut self,
        resumed: impl Iterator<Item = &'r Record>,
        run: &RunSummary,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let mut before = Before::default();
        let done = self.totals.problems;
        let interrupted = done < self.todo.len();
        // After an interrupt, records may be waiting for an earlier problem that was not finished.
        for (position, record) in std::mem::take(&mut self.waiting) {
            self.print(position, &record)?;
        }
        for record in resumed {
            self.totals.count(record);
            before.problems += 1;
            before.ledger.add(&record.ledger);
        }
        if let Some(run_file) = self.run_file.take() {
            run_file.finish()?;
        }
        let graded = self.totals;
        self.run.progress.clear();
        let mut out = io::stdout().lock();
        if self.args.json {
            let summary = output::summary(&graded, run, &before, interrupted);
            output::json_line(&mut out, &summary)?;
        } else {
            self.marks.legend(&mut out, self.palette)?;
            printed::summary(&mut out, self.palette, &graded, &before, run)?;
        }
        out.flush()?;
        let all = graded.problems + self.todo.len() - done;
        let is_kept = self.args.out.is_some();
        self.run.end(interrupt, [graded.problems, all], is_kept)
    }
}
