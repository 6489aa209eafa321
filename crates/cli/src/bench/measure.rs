//! Running what a plan asks for and what is not there yet.

use std::cell::RefCell;
use std::time::Instant;

use beamgen::eval::RunHeader;
use beamgen::{Config, Problem, ProblemResult, Request, ScorerKind, SearchConfig, Solver};
use serde_json::{Map, Value};

use super::outline::Outline;
use super::plan::Plan;
use super::row::{Chains, Row, microseconds};
use super::share::{self, Execution};
use super::store::Store;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::lost;
use crate::progress::Progress;
use crate::settings::{self, ShowPlan};

/// What is to be run, checked: models load, and problems fit them.
pub struct Measurement<'a> {
    plan: &'a Plan,
    executions: Vec<Execution>,
    /// For each pair of models the searches that run on it, as indices into `executions`.
    pairs: Vec<Vec<usize>>,
    /// What the results of each cell depend on.
    identities: Vec<Map<String, Value>>,
    /// The pair that was loaded last, by its index: with a single one it is loaded once.
    loaded: RefCell<Option<(usize, Solver)>>,
    /// Whether the models' needs and the progress are not shown.
    quiet: bool,
}

impl<'a> Measurement<'a> {
    pub fn new(plan: &'a Plan, quiet: bool) -> Result<Self, Failure> {
        let executions = share::executions(&plan.outline.cells);
        let pairs = pairs(&executions);
        let mut measurement = Self {
            plan,
            executions,
            pairs,
            identities: vec![Map::new(); plan.outline.cells.len()],
            loaded: RefCell::new(None),
            quiet,
        };
        for pair in 0..measurement.pairs.len() {
            // Its memory is wanted for the next one.
            measurement.loaded.replace(None);
            let solver = measurement.load(pair)?;
            for &at in &measurement.pairs[pair] {
                for &cell in &measurement.executions[at].cells {
                    let config = &plan.outline.cells[cell].config;
                    measurement.identities[cell] = identity(&solver, config);
                }
            }
            measurement.loaded.replace(Some((pair, solver)));
        }
        Ok(measurement)
    }

    /// Loads a pair, and checks the lengths of all problems, before any time is spent on searching.
    fn load(&self, pair: usize) -> Result<Solver, Failure> {
        let of_pair = || {
            self.pairs[pair]
                .iter()
                .map(|&at| &self.executions[at].config)
        };
        let scored = of_pair().find(|config| config.uses_scorer());
        let config = scored
            .or_else(|| of_pair().next())
            .cloned()
            .unwrap_or_default();
        let counts = self.plan.outline.sets.iter().map(|set| set.ids.len());
        let sets: Vec<_> = self.plan.problems.iter().zip(counts).collect();
        settings::solver(config, &sets, ShowPlan::unless(self.quiet))
    }

    pub fn outline(&self) -> &Outline {
        &self.plan.outline
    }

    /// The labels of the cells that each search gives.
    pub fn searches(&self) -> Vec<Vec<String>> {
        let label = |&at: &usize| self.plan.outline.cells[at].label();
        self.executions
            .iter()
            .map(|execution| execution.cells.iter().map(label).collect())
            .collect()
    }

    /// Refuses a store whose rows were made under other settings.
    pub fn check(&self, store: &Store) -> Result<(), Failure> {
        self.each_cell(&mut |set, cell, identity| store.check(set, cell, identity))
    }

    /// Measures everything the store has no row of, unless it is interrupted before.
    pub fn run(&self, store: &mut Store, interrupt: &Interrupt) -> Result<Progressed, Failure> {
        self.each_cell(&mut |set, cell, identity| store.begin(set, cell, identity))?;
        let all = self.series(store);
        let total = all.iter().map(|(_, series)| series.todo.len()).sum();
        let work = all.iter().map(|(_, series)| series.work()).sum();
        let progress = Progress::unless(self.quiet, total, "problems").with_work(work);
        let progress = RefCell::new(progress);
        let mut done = 0;
        let mut loaded = self.loaded.take();
        for (number, (pair, series)) in all.iter().enumerate() {
            let mut solver = match loaded.take() {
                Some((there, solver)) if there == *pair => solver,
                other => {
                    drop(other.map(report_lost));
                    self.load(*pair)?
                }
            };
            let name = format!("{}/{} {}", number + 1, all.len(), series.name());
            progress.borrow_mut().part(&name, series.work_each());
            done += series.measure(&mut solver, store, &progress, interrupt)?;
            loaded = Some((*pair, solver));
            if interrupt.is_pressed() {
                break;
            }
        }
        drop(loaded.map(report_lost));
        Ok(Progressed { done, total })
    }

    /// What is to be run, each with its pair: pair by pair, the loaded one first.
    fn series(&self, store: &Store) -> Vec<(usize, Series<'_>)> {
        let outline = &self.plan.outline;
        let first = self.loaded.borrow().as_ref().map(|&(pair, _)| pair);
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        order.sort_by_key(|&pair| first != Some(pair));
        let mut all = Vec::new();
        for pair in order {
            for set in 0..outline.sets.len() {
                for &at in &self.pairs[pair] {
                    for offset in 0..outline.seeds {
                        let execution = &self.executions[at];
                        let series = Series::new(self.plan, set, execution, offset, store);
                        all.extend((!series.todo.is_empty()).then_some((pair, series)));
                    }
                }
            }
        }
        all
    }

    /// Set, label and identity of every cell.
    fn each_cell(
        &self,
        visit: &mut dyn FnMut(&str, &str, &RunHeader) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for outline in &self.plan.outline.sets {
            for execution in &self.executions {
                for &at in &execution.cells {
                    let cell = &self.plan.outline.cells[at];
                    let identity = self.identities[at].clone();
                    let identity = RunHeader::new(outline.fingerprint.clone(), identity);
                    visit(&outline.name, &cell.label(), &identity)?;
                }
            }
        }
        Ok(())
    }
}

/// How far a bench came: searches done, of those that were to do.
pub struct Progressed {
    pub done: usize,
    pub total: usize,
}

/// One search over one set with one seed.
struct Series<'a> {
    plan: &'a Plan,
    set: usize,
    execution: &'a Execution,
    seed: u64,
    /// The problems that some cell has no row of.
    todo: Vec<&'a Problem>,
}

impl<'a> Series<'a> {
    fn new(
        plan: &'a Plan,
        set: usize,
        execution: &'a Execution,
        offset: u64,
        store: &Store,
    ) -> Self {
        let seed = execution.config.generator.seed.wrapping_add(offset);
        let mut series = Self {
            plan,
            set,
            execution,
            seed,
            todo: Vec::new(),
        };
        let of = &plan.outline.sets[set];
        let labels = series.labels();
        let is_there = |id: &str| {
            let of_cell = |label: &String| store.has(&of.name, label, seed, id);
            labels.iter().all(of_cell)
        };
        let problems = plan.problems[set].problems[..of.ids.len()].iter();
        series.todo = problems.filter(|problem| !is_there(&problem.id)).collect();
        series
    }

    /// The labels of its cells.
    fn labels(&self) -> Vec<String> {
        let cells = self.execution.cells.iter();
        cells
            .map(|&at| self.plan.outline.cells[at].label())
            .collect()
    }

    fn name(&self) -> String {
        let set = &self.plan.outline.sets[self.set].name;
        format!("{set} {}", self.labels().join(", "))
    }

    /// What a problem takes, beside others: its chains.
    fn work_each(&self) -> f64 {
        self.execution.config.search.chains() as f64
    }

    fn work(&self) -> f64 {
        self.todo.len() as f64 * self.work_each()
    }

    fn request(&self, problem: &Problem) -> Request {
        let config = &self.execution.config;
        let request = Request::new(problem, config.settings()).seed(self.seed);
        if config.uses_scorer() {
            return request;
        }
        // The pair may have a scorer for others.
        let search = config.search.clone();
        request.custom_strategy("without scores", move |_| search.build(false))
    }

    /// Returns how many problems were done.
    fn measure(
        &self,
        solver: &mut Solver,
        store: &mut Store,
        progress: &RefCell<Progress>,
        interrupt: &Interrupt,
    ) -> Result<usize, Failure> {
        let set = &self.plan.outline.sets[self.set].name;
        let next_part = |label: &String| store.next_part(set, label, self.seed);
        let mut take = Taking {
            series: self,
            parts: self.labels().iter().map(next_part).collect(),
            store,
            score_seconds: 0.0,
            started: Instant::now(),
            done: 0,
        };
        let requests = self.todo.iter().map(|&problem| self.request(problem));
        interrupt.run(
            solver,
            requests,
            &mut |event| progress.borrow_mut().observe(event),
            &mut |result| {
                let correct = take.take(&result)?;
                progress.borrow_mut().done(Some(correct));
                Ok(())
            },
        )?;
        Ok(take.done)
    }
}

/// Taking in the results of a series.
struct Taking<'a> {
    series: &'a Series<'a>,
    parts: Vec<u32>,
    store: &'a mut Store,
    /// What scoring took so far.
    score_seconds: f64,
    started: Instant,
    done: usize,
}

impl Taking<'_> {
    /// Adds a row for each cell. Returns whether the first cell's answer is right.
    fn take(&mut self, result: &ProblemResult) -> Result<bool, Failure> {
        let Series {
            plan,
            set,
            execution,
            seed,
            ..
        } = *self.series;
        let set = &plan.outline.sets[set].name;
        if let Some(error) = &result.error {
            let id = &result.problem.id;
            return Err(Failure::Run(anyhow::anyhow!(
                "set {set}, problem {id}: {error}"
            )));
        }
        let wall = self.started.elapsed().as_secs_f64();
        self.score_seconds += result.ledger.seconds.score;
        let mut first = None;
        for (&at, &part) in execution.cells.iter().zip(&self.parts) {
            let cell = &plan.outline.cells[at];
            let reading = share::read(result, &execution.config, &cell.config);
            let mut row = Row::new(set, cell, seed, result, reading);
            row.part = part;
            row.wall = microseconds(match row.without_scores {
                true => (wall - self.score_seconds).max(0.0),
                false => wall,
            });
            first.get_or_insert(row.correct);
            if execution.pool && at == execution.cells[0] {
                row.chains = Some(Chains::of(result));
            }
            if !self.store.has(set, &cell.label(), seed, &row.id) {
                self.store.add(row)?;
            }
        }
        self.done += 1;
        Ok(first.unwrap_or(false))
    }
}

/// Groups searches by the pair of models that they run on. What takes no scores runs on a pair with
/// a scorer as well.
fn pairs(executions: &[Execution]) -> Vec<Vec<usize>> {
    let mut all: Vec<(Config, Vec<usize>)> = Vec::new();
    let scored = |&at: &usize| executions[at].config.uses_scorer();
    let (scored, unscored): (Vec<usize>, Vec<usize>) = (0..executions.len()).partition(scored);
    for at in scored.into_iter().chain(unscored) {
        let config = &executions[at].config;
        let models = models(config);
        let fits = |there: &Config| match config.uses_scorer() {
            true => *there == models,
            false => without_scorer(there) == without_scorer(&models),
        };
        match all.iter_mut().find(|(there, _)| fits(there)) {
            Some((_, members)) => members.push(at),
            None => all.push((models, vec![at])),
        }
    }
    // In the order of the bench.
    for (_, members) in &mut all {
        members.sort_unstable();
    }
    all.into_iter().map(|(_, members)| members).collect()
}

/// The settings that decide which models are loaded, and how they run; all others are those of a
/// request. Prompts are among them: they decide which problems are too long.
fn models(config: &Config) -> Config {
    let mut same = config.clone();
    same.search = SearchConfig {
        in_flight: config.search.in_flight,
        ..SearchConfig::default()
    };
    let defaults = Config::default().generator;
    same.generator.seed = defaults.seed;
    same.generator.sampling = defaults.sampling;
    same
}

fn without_scorer(config: &Config) -> Config {
    let mut same = config.clone();
    let models = &mut same.models;
    models.scorer = ScorerKind::None;
    (models.prm, models.prm_reference, models.prm_format) = (None, None, None);
    same
}

/// A pair of models that nothing more is asked of: tells what its checkers lost.
fn report_lost((pair, solver): (usize, Solver)) -> (usize, Solver) {
    lost::tell_of(&solver);
    (pair, solver)
}

/// What the results of a cell depend on, the same whether it runs by itself or is read off
/// another's search.
fn identity(solver: &Solver, config: &Config) -> Map<String, Value> {
    let mut identity = solver.identity_of(&config.settings());
    if !config.uses_scorer()
        && let Some(Value::Object(models)) = identity.get_mut("models")
    {
        models.insert("scorer".to_owned(), ScorerKind::None.name().into());
        for unused in ["prm", "reference", "prm_format"] {
            models.shift_remove(unused);
        }
    }
    identity
}

#[cfg(test)]
mod tests {
    use beamgen::StrategyKind;

    use super::*;

    #[test]
    fn strategies_seeds_and_sampling_share_a_pair_and_other_models_do_not() {
        let execution = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            Execution {
                config,
                cells: Vec::new(),
                pool: false,
            }
        };
        let unscored = |config: &mut Config| {
            config.search.strategy = StrategyKind::GREEDY;
            config.models.scorer = ScorerKind::None;
        };
        let executions = [
            execution(&unscored),
            execution(&|_| {}),
            execution(&|config| config.search.strategy = StrategyKind::BEST_OF_N),
            execution(&|config| config.search.n = 64),
            execution(&|config| config.generator.seed = 9),
            execution(&|config| config.generator.sampling.temperature = Some(0.3)),
            execution(&|config| config.models.scorer = ScorerKind::Orm),
            execution(&|config| config.search.in_flight = 3),
        ];
        assert_eq!(
            pairs(&executions),
            [vec![0, 1, 2, 3, 4, 5], vec![6], vec![7]]
        );
        assert_eq!(pairs(&executions[..1]), [[0]]);
    }
}
