//! Running what a plan asks for and what is not there yet.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Instant;

use beamgen::eval::RunHeader;
use beamgen::{Config, Problem, ProblemResult, SearchConfig};
use serde_json::{Map, Value};

use super::outline::{Cell, Outline};
use super::plan::Plan;
use super::row::{Chains, Row, microseconds};
use super::share::{self, Execution};
use super::store::Store;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::settings::{self, ShowPlan};

/// What is to be run, checked: models load, and problems fit them.
pub struct Measurement<'a> {
    plan: &'a Plan,
    executions: Vec<Execution>,
    identities: Identities,
}

impl<'a> Measurement<'a> {
    pub fn new(plan: &'a Plan) -> Result<Self, Failure> {
        let executions = share::executions(&plan.outline.cells);
        let identities = Identities::of(plan, &executions)?;
        Ok(Self {
            plan,
            executions,
            identities,
        })
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
        let total = all.iter().map(|series| series.todo.len()).sum();
        let work = all.iter().map(Series::work).sum();
        let progress = RefCell::new(Progress::new(total, "problems").with_work(work));
        let mut done = 0;
        for (number, series) in all.iter().enumerate() {
            let name = format!("{}/{} {}", number + 1, all.len(), series.name());
            progress.borrow_mut().part(&name, series.work_each());
            done += series.measure(store, &progress, interrupt)?;
            if interrupt.is_pressed() {
                break;
            }
        }
        Ok(Progressed { done, total })
    }

    /// What is to be run.
    fn series(&self, store: &Store) -> Vec<Series<'_>> {
        let outline = &self.plan.outline;
        let mut all = Vec::new();
        for set in 0..outline.sets.len() {
            for execution in &self.executions {
                for offset in 0..outline.seeds {
                    let series = Series::new(self.plan, set, execution, offset, store);
                    all.extend((!series.todo.is_empty()).then_some(series));
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
        for (set, outline) in self.plan.outline.sets.iter().enumerate() {
            for execution in &self.executions {
                for &at in &execution.cells {
                    let cell = &self.plan.outline.cells[at];
                    let identity = self.identities.header(self.plan, set, execution, cell);
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

    /// Returns how many problems were done.
    fn measure(
        &self,
        store: &mut Store,
        progress: &RefCell<Progress>,
        interrupt: &Interrupt,
    ) -> Result<usize, Failure> {
        let set = &self.plan.outline.sets[self.set].name;
        let mut config = self.execution.config.clone();
        config.generator.seed = self.seed;
        let mut solver = settings::solver(config, &[], ShowPlan::OwnModels)?;
        let next_part = |label: &String| store.next_part(set, label, self.seed);
        let mut take = Taking {
            series: self,
            parts: self.labels().iter().map(next_part).collect(),
            store,
            score_seconds: 0.0,
            started: Instant::now(),
            done: 0,
        };
        let todo = self.todo.iter().map(|&problem| problem.clone());
        let todo = todo.take_while(|_| !interrupt.is_pressed());
        let mut failed = None;
        solver.run(
            todo,
            &mut |event| progress.borrow_mut().observe(&event),
            &mut |result| match take.take(&result) {
                Ok(correct) => {
                    progress.borrow_mut().done(Some(correct));
                    match interrupt.is_pressed() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                }
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            },
        )?;
        failed.map_or(Ok(take.done), Err)
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

/// What results depend on, for every cell. A model is loaded once for all cells that use it in the
/// same way, and checks the lengths of all problems, before any time is spent on searching.
struct Identities(Vec<(Config, Map<String, Value>)>);

impl Identities {
    fn of(plan: &Plan, executions: &[Execution]) -> Result<Self, Failure> {
        let mut known = Self(Vec::new());
        for execution in executions {
            if known.models(&execution.config).is_some() {
                continue;
            }
            let counts = plan.outline.sets.iter().map(|set| set.ids.len());
            let sets: Vec<_> = plan.problems.iter().zip(counts).collect();
            let solver = settings::solver(execution.config.clone(), &sets, ShowPlan::OwnModels)?;
            known.0.push((models(&execution.config), solver.identity()));
        }
        Ok(known)
    }

    fn models(&self, config: &Config) -> Option<&Map<String, Value>> {
        let wanted = models(config);
        self.0
            .iter()
            .find(|(config, _)| *config == wanted)
            .map(|(_, identity)| identity)
    }

    /// The identity of a cell, the same whether it runs by itself or is read off another's search.
    fn header(&self, plan: &Plan, set: usize, run: &Execution, cell: &Cell) -> RunHeader {
        let mut identity = self.models(&run.config).cloned().unwrap_or_default();
        let mut search = serde_json::to_value(&cell.config.search).unwrap_or_default();
        if let Value::Object(search) = &mut search {
            search.remove("in_flight");
        }
        identity.insert("search".to_owned(), search);
        if !cell.config.uses_scorer()
            && let Some(Value::Object(models)) = identity.get_mut("models")
        {
            models.insert("scorer".to_owned(), "none".into());
            models.remove("prm");
        }
        RunHeader::new(plan.outline.sets[set].fingerprint.clone(), identity)
    }
}

/// The settings that decide which models are loaded, and how they run.
fn models(config: &Config) -> Config {
    let mut same = config.clone();
    same.search = SearchConfig::default();
    if !config.uses_scorer() {
        same.models.scorer = beamgen::ScorerKind::None;
    }
    same
}
