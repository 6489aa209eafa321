//! Runs all searches of a plan whose rows are missing.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use beamgen::eval::{Problems, RunHeader};
use beamgen::result::Auditor;
use beamgen::scorer::ScorerKind;
use beamgen::service::CancelToken;
use beamgen::strategy::SearchConfig;
use beamgen::{Config, Forecast, Problem, ProblemResult, Request, Solver};
use serde::Serialize;
use serde_json::{Map, Value};

use super::audit::Audits;
use super::outline::Outline;
use super::plan::Plan;
use super::row::{Chains, Row, microseconds};
use super::share::{self, Execution};
use super::store::Store;
use super::{Summary, folder};
use crate::{About, Aggregated, Error, Watch};

/// The program that runs a bench. It loads models and displays the progress.
pub trait Host: Watch {
    /// The error that ends the bench in this program; every error of this crate must convert to it.
    type Error: From<Error>;

    /// Loads the models of these settings, and checks that the given number of problems of each set
    /// fits into the generator's context.
    ///
    /// # Errors
    /// The models cannot be loaded, or a problem is too long.
    fn load(&mut self, config: Config, sets: &[(&Problems, usize)]) -> Result<Solver, Self::Error>;

    /// Called after the last search with these models. The default does nothing.
    fn unload(&mut self, _solver: &Solver) {}
}

/// The searches of a plan that was checked: all models load, and all problems fit into the context.
pub struct Measurement<'a> {
    plan: &'a Plan,
    executions: Vec<Execution>,
    /// The searches that share a pair of generator and scorer, as indices into `executions`.
    pairs: Vec<Vec<usize>>,
    /// The settings and model fingerprints on which the results of each cell depend. A resumed bench compares them.
    identities: Vec<Map<String, Value>>,
    /// The models that were loaded last, with the index of their pair. A bench with one pair thus loads its models
    /// only once.
    loaded: RefCell<Option<(usize, Solver)>>,
}

impl<'a> Measurement<'a> {
    /// Loads each pair of models once, to check the plan before any time is spent on searching.
    ///
    /// # Errors
    /// The host's error, if models cannot be loaded or a problem is too long.
    pub fn new<H: Host>(plan: &'a Plan, host: &mut H) -> Result<Self, H::Error> {
        let executions = share::executions(&plan.outline.cells);
        let pairs = pairs(&executions);
        let mut measurement = Self {
            plan,
            executions,
            pairs,
            identities: vec![Map::new(); plan.outline.cells.len()],
            loaded: RefCell::new(None),
        };
        for pair in 0..measurement.pairs.len() {
            // The models are dropped before the next pair is loaded, since both may not fit into memory.
            measurement.loaded.replace(None);
            let solver = measurement.load(pair, host)?;
            for &at in &measurement.pairs[pair] {
                for &cell in &measurement.executions[at].cells {
                    let config = &plan.outline.cells[cell].config;
                    // Only a loaded solver knows the resolved settings and the fingerprints of the models.
                    measurement.identities[cell] = identity(&solver, config);
                }
            }
            measurement.loaded.replace(Some((pair, solver)));
        }
        Ok(measurement)
    }

    fn load<H: Host>(&self, pair: usize, host: &mut H) -> Result<Solver, H::Error> {
        let configs = self.pairs[pair]
            .iter()
            .map(|&at| &self.executions[at].config);
        // The searches of a pair may use a scorer or not. One search with scores suffices to need the scorer.
        let scored = configs.clone().find(|config| config.uses_scorer());
        let config = scored.or(configs.clone().next());
        let config = config.cloned().unwrap_or_default();
        let counts = self.plan.outline.sets.iter().map(|set| set.ids.len());
        let sets: Vec<_> = self.plan.problems.iter().zip(counts).collect();
        host.load(config, &sets)
    }

    /// Returns the outline of the plan, which reports contain.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.plan.outline
    }

    /// Returns the labels of the cells that each search measures. A search may measure several cells.
    #[must_use]
    pub fn searches(&self) -> Vec<Vec<String>> {
        self.executions
            .iter()
            .map(|execution| execution.labels(&self.plan.outline.cells))
            .collect()
    }

    /// Runs all missing searches, in memory or into a results folder, and then writes the report. If the folder has
    /// rows, `resume` must be true, otherwise the call fails. A cancelled call returns the rows so far and writes no
    /// report.
    ///
    /// # Errors
    /// The rows of the folder were made under other settings, the models cannot be loaded again, a
    /// search failed, or a file cannot be written.
    pub fn measure<H: Host>(
        &self,
        folder: Option<&Path>,
        resume: bool,
        about: &About,
        host: &mut H,
        cancel: &CancelToken,
    ) -> Result<Outcome, H::Error> {
        let mut store = match folder {
            Some(path) => Store::in_folder(path, resume)?,
            None => Store::in_memory(),
        };
        // All cells are checked before the first file is written, so that a refused call changes nothing.
        self.each_cell(&mut |set, cell, identity| store.check(set, cell, identity))?;
        let outline = self.outline();
        if let Some(path) = folder {
            folder::begin(path, about, outline)?;
        }
        let (done, total) = self.run(&mut store, host, cancel)?;
        let rows = store.finish()?;
        let (summaries, aggregated) = match folder {
            // A cancelled bench has incomplete cells, so there is no report to write.
            _ if done < total => (super::summaries_so_far(outline, &rows), Vec::new()),
            Some(path) => folder::write(path, about, outline, &rows)?,
            None => super::tables(outline, &rows)?,
        };
        Ok(Outcome {
            done,
            total,
            rows,
            summaries,
            aggregated,
        })
    }

    /// Runs the searches whose rows are missing in the store. Returns the numbers of finished searches and of all
    /// that were missing.
    fn run<H: Host>(
        &self,
        store: &mut Store,
        host: &mut H,
        cancel: &CancelToken,
    ) -> Result<(usize, usize), H::Error> {
        self.each_cell(&mut |set, cell, identity| store.begin(set, cell, identity))?;
        let all = self.series(store);
        let total = all.iter().map(|(_, series)| series.todo.len()).sum();
        let work = all.iter().map(|(_, series)| series.work()).sum();
        host.begin(total, "problems", work);
        let mut done = 0;
        self.each_series(&all, host, &mut |number, series, solver, host| {
            let name = format!("{}/{} {}", number + 1, all.len(), series.name());
            host.part(&name, series.work_each());
            done += series.measure(solver, store, host, cancel)?;
            if cancel.is_cancelled() {
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((done, total))
    }

    /// Estimates the cost of each search on each set, with all its seeds, by a short measured pass.
    ///
    /// # Errors
    /// The models cannot be loaded again, or a model fails.
    pub fn forecasts<H: Host>(&self, host: &mut H) -> Result<Vec<SearchForecast>, H::Error> {
        let mut all = self.series(&Store::in_memory());
        all.retain(|(_, series)| series.seed == series.execution.config.generator.seed);
        let seeds = self.plan.outline.seeds;
        let mut forecasts = Vec::with_capacity(all.len());
        self.each_series(&all, host, &mut |_, series, solver, _| {
            let most = solver.most(series.execution.config.settings());
            let mut request = |at: usize| series.request(series.todo[at]);
            let count = series.todo.len();
            let of_seed = solver.forecast(count, most, &mut request, &CancelToken::new());
            forecasts.push(SearchForecast {
                set: self.plan.outline.sets[series.set].name.clone(),
                labels: series.labels.clone(),
                forecast: of_seed.map_err(Error::from)?.times(seeds),
                memory: solver.memory_plan().most(),
            });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(forecasts)
    }

    /// Calls `visit` for each of the series with its number and with the models of its pair, which are loaded when
    /// they are needed.
    fn each_series<H: Host>(
        &self,
        all: &[(usize, Series<'_>)],
        host: &mut H,
        visit: &mut Visit<'_, H>,
    ) -> Result<(), H::Error> {
        // The searches need the solver mutably, so it is taken out of the `RefCell`.
        let mut loaded = self.loaded.take();
        for (number, (pair, series)) in all.iter().enumerate() {
            let mut solver = match loaded.take() {
                Some((there, solver)) if there == *pair => solver,
                other => {
                    // The old models are dropped before the next ones are loaded.
                    if let Some((_, solver)) = other {
                        host.unload(&solver);
                    }
                    self.load(*pair, host)?
                }
            };
            let next = visit(number, series, &mut solver, host)?;
            // The next series usually needs the same models.
            loaded = Some((*pair, solver));
            if next.is_break() {
                break;
            }
        }
        if let Some((_, solver)) = loaded {
            host.unload(&solver);
        }
        Ok(())
    }

    /// Returns the series of searches to run, each with the index of its pair. The pair that is loaded comes first.
    fn series(&self, store: &Store) -> Vec<(usize, Series<'_>)> {
        let outline = &self.plan.outline;
        let first = self.loaded.borrow().as_ref().map(|&(pair, _)| pair);
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        // The sort is stable, so only the loaded pair changes its place.
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

    fn each_cell(
        &self,
        visit: &mut dyn FnMut(&str, &str, &RunHeader) -> Result<(), Error>,
    ) -> Result<(), Error> {
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

/// The estimated cost of a search of a plan on one set.
#[derive(Debug, Clone, Serialize)]
pub struct SearchForecast {
    /// The name of the set.
    pub set: String,
    /// The labels of the cells that the search measures.
    pub labels: Vec<String>,
    /// The cost of the search over all problems of the set, with all seeds.
    #[serde(flatten)]
    pub forecast: Forecast,
    /// The most bytes that the models take.
    pub memory: u64,
}

/// A visitor of the series of a plan: the number of the series, the series, its models, the program.
type Visit<'a, H> = dyn FnMut(usize, &Series<'_>, &mut Solver, &mut H) -> Result<ControlFlow<()>, <H as Host>::Error>
    + 'a;

/// The result of a bench.
#[derive(Debug)]
pub struct Outcome {
    /// The number of searches that are done.
    pub done: usize,
    /// The number of searches whose rows were missing when the call began.
    pub total: usize,
    /// All rows in the folder or in memory, including those of earlier calls.
    pub rows: Vec<Row>,
    /// The summary of each cell; in a cancelled bench only of cells with rows.
    pub summaries: Vec<Summary>,
    /// The choices of each aggregation among the scored samples of each pool; empty if the bench was cancelled.
    pub aggregated: Vec<Aggregated>,
}

/// The searches of one execution over a set, with one seed.
struct Series<'a> {
    plan: &'a Plan,
    set: usize,
    execution: &'a Execution,
    seed: u64,
    labels: Vec<String>,
    /// The problems for which the row of at least one cell is missing.
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
        let outline = &plan.outline.sets[set];
        let labels = execution.labels(&plan.outline.cells);
        let problems = plan.problems[set].problems[..outline.ids.len()].iter();
        let todo = problems.filter(|problem| {
            let mut labels = labels.iter();
            !labels.all(|label| store.has(&outline.name, label, seed, &problem.id))
        });
        let todo = todo.collect();
        Self {
            plan,
            set,
            execution,
            seed,
            labels,
            todo,
        }
    }

    fn name(&self) -> String {
        let set = &self.plan.outline.sets[self.set].name;
        format!("{set} {}", self.labels.join(", "))
    }

    /// Estimates the work for a problem by the number of its chains.
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
        // The solver may have a scorer for other searches of its pair; this strategy ignores it.
        let search = config.search.clone();
        request.custom_strategy("without scores", move |_| search.build(false))
    }

    /// Runs the missing searches and returns how many finished.
    fn measure(
        &self,
        solver: &mut Solver,
        store: &mut Store,
        watch: &mut dyn Watch,
        cancel: &CancelToken,
    ) -> Result<usize, Error> {
        let set = &self.plan.outline.sets[self.set].name;
        let mut take = Taking {
            series: self,
            parts: self
                .labels
                .iter()
                .map(|label| store.next_part(set, label, self.seed))
                .collect(),
            audits: Audits::new(Auditor::new(&self.execution.config)?),
            store,
            score_seconds: 0.0,
            started: Instant::now(),
            done: 0,
        };
        let problems = self.todo.iter().take_while(|_| !cancel.is_cancelled());
        let requests = problems.map(|&problem| self.request(problem).cancel(cancel.clone()));
        // Two callbacks of the solver borrow the watcher mutably.
        let watch = RefCell::new(watch);
        let mut failure = None;
        solver
            .run_requests(
                requests,
                &mut |event| watch.borrow_mut().event(&event),
                &mut |result| {
                    // A cancelled search gets no row, so that a resumed bench runs it again.
                    if result.stopped.is_some() {
                        return ControlFlow::Continue(());
                    }
                    match take.take(&result) {
                        Ok(correct) => {
                            watch.borrow_mut().done(Some(correct));
                            ControlFlow::Continue(())
                        }
                        Err(error) => {
                            failure = Some(error);
                            ControlFlow::Break(())
                        }
                    }
                },
            )
            .map_err(Error::from)?;
        failure.map_or(Ok(take.done), Err)
    }
}

/// The state of a series while the results of its searches arrive in any order.
struct Taking<'a> {
    series: &'a Series<'a>,
    parts: Vec<u32>,
    audits: Option<Audits>,
    store: &'a mut Store,
    /// The time that the scorer took so far in this series, in seconds.
    score_seconds: f64,
    started: Instant,
    done: usize,
}

impl Taking<'_> {
    /// Adds a row for each cell of the search. Returns whether the answer of the first cell is right.
    fn take(&mut self, result: &ProblemResult) -> Result<bool, Error> {
        let Series {
            plan,
            set,
            execution,
            seed,
            ..
        } = *self.series;
        let set = &plan.outline.sets[set].name;
        if let Some(error) = &result.error {
            return Err(Error::Problem {
                set: set.clone(),
                id: result.problem.id.clone(),
                reason: error.to_string(),
            });
        }
        // Searches run concurrently, so a row has the time since the start of the series, not of its own search.
        let wall = self.started.elapsed().as_secs_f64();
        self.score_seconds += result.ledger.seconds.score;
        let mut first = None;
        for (&at, &part) in execution.cells.iter().zip(&self.parts) {
            let cell = &plan.outline.cells[at];
            let (read, without_scores) = share::read(result, &execution.config, &cell.config);
            let mut row = Row::new(set, cell, seed, &read, without_scores);
            row.part = part;
            row.audit = self.audits.as_ref().map(|audits| audits.chosen(&read));
            // Scores that only other cells of the search need are not charged to a cell without scores.
            row.wall = microseconds(if row.without_scores {
                (wall - self.score_seconds).max(0.0)
            } else {
                wall
            });
            first.get_or_insert(row.correct);
            // All cells of a search have the same chains, so only the first row stores them.
            if execution.pool && at == execution.cells[0] {
                let mut chains = Chains::of(result);
                if let Some(audits) = &self.audits {
                    chains.audit = audits.pool(result, &chains.right);
                }
                row.chains = Some(chains);
            }
            // After a crash, only some cells of a search may have their rows.
            if !self.store.has(set, &cell.label(), seed, &row.id) {
                self.store.add(row)?;
            }
        }
        self.done += 1;
        Ok(first.unwrap_or(false))
    }
}

/// Groups searches by the pair of models that they need. A search without scores may use a pair with any scorer.
fn pairs(executions: &[Execution]) -> Vec<Vec<usize>> {
    let mut all: Vec<(Config, Vec<usize>)> = Vec::new();
    // Searches with scores come first, so that those without scores can join their pairs.
    let (scored, unscored): (Vec<usize>, Vec<usize>) =
        (0..executions.len()).partition(|&at| executions[at].config.uses_scorer());
    for at in scored.into_iter().chain(unscored) {
        let config = &executions[at].config;
        let models = models(config);
        let pair = all.iter_mut().find(|(there, _)| {
            if config.uses_scorer() {
                *there == models
            } else {
                without_scorer(there) == without_scorer(&models)
            }
        });
        match pair {
            Some((_, members)) => members.push(at),
            None => all.push((models, vec![at])),
        }
    }
    // The members of a pair return to the order of the bench.
    for (_, members) in &mut all {
        members.sort_unstable();
    }
    all.into_iter().map(|(_, members)| members).collect()
}

/// Returns the settings that decide which models are loaded and how they run. Settings that each request may change
/// are reset to defaults. Prompts are kept, because they decide which problems are too long.
fn models(config: &Config) -> Config {
    let mut same = config.clone();
    same.search = SearchConfig {
        in_flight: config.search.in_flight,
        ..SearchConfig::default()
    };
    let defaults = Config::default().generator;
    // Each request sets its own seed and sampling.
    same.generator.seed = defaults.seed;
    same.generator.sampling = defaults.sampling;
    same
}

fn without_scorer(config: &Config) -> Config {
    let mut same = config.clone();
    let models = &mut same.models;
    // The files of a scorer do not influence searches without scores.
    models.scorer = ScorerKind::None;
    (models.prm, models.prm_reference, models.prm_format) = (None, None, None);
    models.prm_tokenizer = None;
    same
}

/// Returns the inputs on which the results of a cell depend. The inputs are equal whether a cell has its own search
/// or shares that of another cell.
fn identity(solver: &Solver, config: &Config) -> Map<String, Value> {
    let mut identity = solver.identity_of(&config.settings());
    if !config.uses_scorer()
        && let Some(Value::Object(models)) = identity.get_mut("models")
    {
        // The scorer was loaded for other cells and has no influence on this one.
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
        let executions = [
            execution(&|config: &mut Config| {
                config.search.strategy = StrategyKind::GREEDY;
                config.models.scorer = ScorerKind::None;
            }),
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
