//! `beamgen label`: samples chains from a generator, and labels their steps by rollouts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use beamgen::eval::{Problems, RunFile, RunHeader, Spent};
use beamgen::result::Evidence;
use beamgen::settings::Setting;
use beamgen::strategy::SearchConfig;
use beamgen::{Aggregation, Config, RunSummary, Solver};
use beamgen_labels::LabelledChain;
use beamgen_labels::monte_carlo::{Counts, Labelling, Mine, Mode, MonteCarlo};
use beamgen_measure::label::{self, Labelled, Labeller, OWN};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::LabelArgs;
use crate::failure::{Failure, refuse};
use crate::forecast;
use crate::interrupt::Interrupt;
use crate::lost;
use crate::output;
use crate::run_report::RunReport;
use crate::settings::{self, SHORTEN_OR_SKIP, ShowPlan};
use crate::table::{counted, grouped};
use crate::write::failed;

pub(crate) fn main(args: &LabelArgs) -> Result<(), Failure> {
    let mut options = MonteCarlo {
        chains: args.chains,
        rollouts: args.rollouts,
        mode: args.mode,
        searches: args.searches,
        mine: args.mine.map(|wrong| Mine {
            wrong,
            aggregation: Aggregation::default(),
        }),
        mixed: args.mixed,
    };
    if args.searches > 0 && args.mode != Mode::Binary {
        let mode = args.mode.name();
        return refuse(format!(
            "--searches needs --mode binary, not {mode}: change one of them"
        ));
    }
    if args.mine.is_some() && args.searches > 0 {
        return refuse("--mine and --searches exclude each other: leave one of them out");
    }
    options.validate().map_err(beamgen::Error::from)?;
    let config = config(args, &mut options)?;
    let (problems, count) = settings::problems(
        args.file.as_deref(),
        &args.data,
        config.models.offline,
        args.limit,
    )?;
    settings::require_outcomes(&problems, count, &config.verifier)?;
    problems.refuse_steps()?;
    let advice = (!args.skip_too_long).then_some(SHORTEN_OR_SKIP);
    let show = ShowPlan::unless(args.quiet);
    let mut solver = settings::solver(config, &[(&problems, count)], show, advice)?;
    if args.plan {
        settings::note_problems(&solver, &problems, count, args.quiet);
        let labeller = Labeller::new(&solver, options)?;
        let mut request = |at: usize| labeller.request(&problems.problems[at]).0;
        let most = labeller.most(&solver);
        return forecast::print(&mut solver, count, most, &mut request, args.json);
    }
    // Signals are handled only from here on: before, a signal should end the process at once.
    let interrupt = Interrupt::watch();
    let mut writer = Writer::open(args, options, &solver, &problems, count)?;
    settings::note_problems(&solver, &problems, count, args.quiet);
    let summary = writer.run(&mut solver, &interrupt);
    // The losses are reported even if the run failed, since they may be the cause.
    lost::tell_of(&solver);
    writer.finish(&summary?, &interrupt)
}

/// Returns the configuration of the search. The strategy is fixed; a scorer is used only for
/// --mine.
fn config(args: &LabelArgs, options: &mut MonteCarlo) -> Result<Config, Failure> {
    let flags = &args.settings;
    let set = |key: &str| {
        let mut keys = flags.set.iter().filter_map(|set| set.split_once('='));
        keys.any(|(set, _)| set.trim() == key)
    };
    for (name, why) in OWN {
        let key = Setting::named(name).expect("a row of the table").key;
        let typed = match flags.given.has(name) {
            true => format!("--{}", name.replace('_', "-")),
            false if set(key) => format!("--set {key}"),
            false => continue,
        };
        let why = why.replacen('`', "--", 1).replacen('`', "", 1);
        return refuse(format!("{typed} changes nothing here, {why}: leave it out"));
    }
    let mut config = settings::config(flags)?;
    let (search, usual) = (json!(config.search), json!(SearchConfig::default()));
    for (name, _) in &OWN[2..] {
        if search[name] != usual[name] {
            output::note_once(format_args!(
                "note: search.{name} in the settings file changes nothing here"
            ));
        }
    }
    if args.mine.is_none()
        && let Some(key) = ["models.prm", "models.scorer"]
            .into_iter()
            .find(|key| set(key))
    {
        return refuse(format!(
            "--set {key} changes nothing here without --mine: add that, or leave --set {key} out"
        ));
    }
    label::settle(&mut config, options);
    settings::refuse_idle(from_ref(&config), &flags.given, "--mine")?;
    config.check()?;
    Ok(config)
}

/// A line of FILE.run: all facts about a finished problem that --resume needs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    id: String,
    chains: Vec<LabelledChain>,
    counts: Counts,
    ledger: Spent,
    /// The reason why the problem could not be tried; `None` if it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether `error` is about the problem's length, so that a retry could not succeed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    too_long: bool,
    /// The number of chains that were dropped because memory ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_to_memory: Option<NonZeroUsize>,
    /// The number of verdicts that are missing because a checker command failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_verdicts: Option<NonZeroUsize>,
    /// The number of right chains that are unsound, by the kind of evidence in [`Evidence::ALL`].
    #[serde(default, skip_serializing_if = "is_none")]
    unsound: [u64; 3],
}

fn is_none(unsound: &[u64; 3]) -> bool {
    *unsound == [0; 3]
}

impl Done {
    /// Whether a resumed run should try the problem again, because the failure may not occur again.
    fn is_worth_retrying(&self) -> bool {
        let lost = self.lost_to_memory.or(self.lost_verdicts);
        lost.is_some() || (self.error.is_some() && !self.too_long)
    }
}

/// Writes finished problems: to FILE.run at once, and to FILE in the order of the problems. So FILE
/// does not depend on the number of problems in flight.
struct Writer<'a> {
    args: &'a LabelArgs,
    options: MonteCarlo,
    problems: &'a Problems,
    count: usize,
    run_file: RunFile,
    labels: File,
    run: RunReport,
    /// Finished problems by index. The chains of a problem that was written are removed, to save
    /// memory.
    done: BTreeMap<usize, Done>,
    /// The number of problems in FILE, which are the first ones in order.
    written: usize,
    /// The number of problems that were finished in earlier calls.
    resumed: usize,
}

/// Returns the path of FILE.run, the run file that belongs to the labels in FILE.
fn run_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".run");
    PathBuf::from(name)
}

impl<'a> Writer<'a> {
    fn open(
        args: &'a LabelArgs,
        options: MonteCarlo,
        solver: &Solver,
        problems: &'a Problems,
        count: usize,
    ) -> Result<Self, Failure> {
        let mut identity = solver.identity();
        let asked = serde_json::to_value(options).map_err(io::Error::from)?;
        // The options are part of the identity, so that a run is resumed with the same options
        // only.
        identity.insert("labels".to_owned(), asked);
        let header =
            RunHeader::new(problems.fingerprint(), identity).with_effective(solver.effective());
        // FILE.run is the record of the run. FILE is derived from it, in the order of the problems.
        let path = run_path(&args.out);
        let has_labels = args.out.exists();
        if has_labels && !(args.resume && path.exists()) {
            let what = if args.resume {
                format!(
                    "cannot resume without its run file {}: restore that file",
                    path.display()
                )
            } else {
                "exists already: resume with --resume".to_owned()
            };
            let out = args.out.display();
            return refuse(format!("{out}: {what}, or choose another --out"));
        }
        let (run_file, lines) = if args.resume {
            RunFile::resume::<Done>(&path, &header)?
        } else {
            (RunFile::create(&path, &header)?, Vec::new())
        };
        let texts = lines.iter().map(|done| {
            let chain = done.chains.first();
            (done.id.as_str(), chain.map(|chain| chain.problem.as_str()))
        });
        run_file.check_problems(problems, texts)?;
        // FILE is emptied and written again from FILE.run, because an interrupt may have cut a
        // line.
        let labels = beamgen_files::append(&args.out)
            .and_then(|file| file.set_len(0).map(|()| file))
            .map_err(|error| failed(&args.out, error))?;
        // A problem that was tried again has several lines; collecting into a map keeps the last
        // one.
        let mut known: BTreeMap<String, Done> = lines
            .into_iter()
            // A problem that is left out here is solved again.
            .filter(|done| !done.is_worth_retrying())
            .map(|done| (done.id.clone(), done))
            .collect();
        let done: BTreeMap<usize, Done> = (0..count)
            .filter_map(|at| Some((at, known.remove(&problems.problems[at].id)?)))
            .collect();
        let mut writer = Self {
            args,
            options,
            problems,
            count,
            run_file,
            labels,
            run: RunReport::new(args.quiet, args.skip_too_long, count - done.len()),
            resumed: done.len(),
            done,
            written: 0,
        };
        // The results of earlier calls are written first, so that new ones follow in order.
        writer.write()?;
        Ok(writer)
    }

    /// Labels the problems that are not done, or as many as are done before an interrupt.
    fn run(&mut self, solver: &mut Solver, interrupt: &Interrupt) -> Result<RunSummary, Failure> {
        let todo: Vec<usize> = (0..self.count)
            .filter(|at| !self.done.contains_key(at))
            .collect();
        let labeller = RefCell::new(Labeller::new(solver, self.options)?);
        let problems = self.problems;
        let labellings: RefCell<Vec<Labelling>> = RefCell::default();
        let requests = todo.iter().map(|&at| {
            let (request, labelling) = labeller.borrow().request(&problems.problems[at]);
            labellings.borrow_mut().push(labelling);
            request
        });
        if !self.args.quiet {
            let most = labeller.borrow().most(solver);
            self.run.plan(solver, todo.len(), most);
        }
        // Both callbacks need the writer. The search calls one at a time, so a `RefCell` never
        // panics.
        let this = RefCell::new(self);
        interrupt.run(
            solver,
            requests,
            &mut |event| this.borrow_mut().run.observe(event),
            &mut |result| {
                let mut this = this.borrow_mut();
                let labelling = &labellings.borrow()[result.index];
                let Labelled { labels, unsound } = labeller.borrow_mut().labels(labelling, &result);
                // Labelling does not grade problems, so the progress shows no share of right
                // answers.
                this.run.done(&result, None);
                let done = Done {
                    unsound,
                    id: result.problem.id,
                    chains: labels.chains,
                    counts: labels.counts,
                    ledger: Spent::new(&result.ledger, result.ledger.seconds.total()),
                    error: result.error,
                    too_long: result.too_long,
                    lost_to_memory: NonZeroUsize::new(result.lost_to_memory),
                    lost_verdicts: NonZeroUsize::new(result.lost_verdicts),
                };
                this.deliver(todo[result.index], done)
            },
        )
    }

    fn deliver(&mut self, at: usize, done: Done) -> Result<(), Failure> {
        self.run_file.append(&done)?;
        self.done.insert(at, done);
        self.write()
    }

    /// Writes the labels of finished problems, up to the first problem that is not finished.
    fn write(&mut self) -> Result<(), Failure> {
        let mut lines = Vec::new();
        while let Some(done) = self.done.get_mut(&self.written) {
            for chain in std::mem::take(&mut done.chains) {
                output::json_line(&mut lines, &chain)?;
            }
            self.written += 1;
        }
        self.labels
            .write_all(&lines)
            .map_err(|error| failed(&self.args.out, error))
    }

    fn finish(self, run: &RunSummary, interrupt: &Interrupt) -> Result<(), Failure> {
        self.run_file.finish()?;
        self.labels
            .sync_all()
            .map_err(|error| failed(&self.args.out, error))?;
        self.run.progress.clear();
        let mut summary = Summary {
            problems: self.done.len(),
            ..Summary::default()
        };
        for done in self.done.values() {
            summary.counts += done.counts;
            for (by, count) in Evidence::ALL.into_iter().zip(done.unsound) {
                *summary.unsound.entry(by.name()).or_default() += count;
            }
            summary.ledger.add(&done.ledger);
            // The prompts differ in length, so the tokens are computed for each problem.
            summary.spared_tokens += done.counts.spared_tokens(done.ledger.prompt_tokens);
        }
        let here = self.done.len() - self.resumed;
        summary.seconds = run.elapsed;
        let mut out = io::stdout().lock();
        if self.args.json {
            output::json_line(&mut out, &summary)?;
        } else {
            summary.write(&mut out)?;
        }
        if self.resumed > 0 && !self.args.json {
            writeln!(
                out,
                "{} finished before, and included; the seconds are for the other {here} only",
                counted(self.resumed, "problem was", "problems were")
            )?;
        }
        out.flush()?;
        self.run.end(interrupt, [self.done.len(), self.count], true)
    }
}

/// The summary of a run, printed as text or as JSON.
#[derive(Default, Serialize)]
struct Summary {
    problems: usize,
    #[serde(flatten)]
    counts: Counts,
    /// The number of distinct right chains that are unsound, by the name of the evidence.
    unsound: BTreeMap<&'static str, u64>,
    /// The costs of all problems, including those of earlier calls.
    ledger: Spent,
    /// Tokens that sharing saved: without it, each chain and rollout would compute its prompt and
    /// prefix itself.
    spared_tokens: u64,
    /// Wall-clock seconds of this call.
    seconds: f64,
}

impl Summary {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Counts {
            chains,
            right,
            cut,
            distinct,
            mixed,
            labels,
            rollouts,
            truncated,
            chain_tokens,
            ..
        } = self.counts;
        let spent = &self.ledger;
        writeln!(
            out,
            "{}, {} of them with right and wrong chains",
            counted(self.problems, "problem", "problems"),
            grouped(mixed)
        )?;
        writeln!(
            out,
            "{}: {} right, {} cut by a limit, {} distinct{}",
            counted(chains, "chain", "chains"),
            grouped(right),
            grouped(cut),
            grouped(distinct),
            match spent.scored_tokens {
                0 => String::new(),
                scored => format!(
                    " and mined, for which {} scored",
                    counted(scored, "token was", "tokens were")
                ),
            }
        )?;
        for by in Evidence::ALL {
            let unsound = self.unsound.get(by.name()).copied().unwrap_or(0);
            if unsound > 0 {
                let chains = counted(unsound, "right chain has", "right chains have");
                writeln!(out, "{chains} {}", by.words())?;
            }
        }
        writeln!(
            out,
            "{} labelled by {}; rollouts cut by a limit, which count as neither right nor wrong: {}",
            counted(labels, "step", "steps"),
            counted(rollouts, "rollout", "rollouts"),
            grouped(truncated)
        )?;
        let each = spent.generated_tokens as f64 / labels as f64;
        writeln!(
            out,
            "{} generated, {} of them in chains{}",
            counted(spent.generated_tokens, "token", "tokens"),
            grouped(chain_tokens),
            match labels {
                0 => String::new(),
                _ => format!(": {each:.1} for each labelled step"),
            }
        )?;
        writeln!(
            out,
            "{} prompt tokens computed; without shared KV caches, another {} tokens of prompts and prefixes",
            grouped(spent.prompt_tokens),
            grouped(self.spared_tokens)
        )?;
        writeln!(out, "{:.1} s", self.seconds)
    }
}
