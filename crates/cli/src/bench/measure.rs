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

    /// Measures everything the store has no row of.
    pub fn run(&self, store: &mut Store) -> Result<(), Failure> {
        self.each_cell(&mut |set, cell, identity| store.begin(set, cell, identity))?;
        let outline = &self.plan.outline;
        let total = outline.sets.len() * self.executions.len() * outline.seeds as usize;
        let mut number = 0;
        for set in 0..outline.sets.len() {
            for execution in &self.executions {
                for offset in 0..outline.seeds {
                    number += 1;
                    let series = Series {
                        plan: self.plan,
                        set,
                        execution,
                        offset,
                        place: format!("{number}/{total}"),
                    };
                    series.measure(store)?;
                }
            }
        }
        Ok(())
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

/// One search over one set with one seed.
struct Series<'a> {
    plan: &'a Plan,
    set: usize,
    execution: &'a Execution,
    offset: u64,
    /// Where it stands in the bench.
    place: String,
}

impl Series<'_> {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.execution
            .cells
            .iter()
            .map(|&at| &self.plan.outline.cells[at])
    }

    fn measure(&self, store: &mut Store) -> Result<(), Failure> {
        let set = &self.plan.outline.sets[self.set];
        let mut config = self.execution.config.clone();
        let seed = config.generator.seed.wrapping_add(self.offset);
        config.generator.seed = seed;
        let is_there = |id: &str| {
            self.cells()
                .all(|cell| store.has(&set.name, &cell.label(), seed, id))
        };
        let problems = &self.plan.problems[self.set].problems[..set.ids.len()];
        let todo: Vec<Problem> = problems
            .iter()
            .filter(|problem| !is_there(&problem.id))
            .cloned()
            .collect();
        if todo.is_empty() {
            return Ok(());
        }
        let labels: Vec<String> = self.cells().map(Cell::label).collect();
        let name = labels.join(", ");
        let progress = Progress::new(todo.len(), "problems")
            .named(&format!("{} {} {name}", self.place, set.name));
        let progress = RefCell::new(progress);
        let mut solver = settings::solver(config, &[], ShowPlan::OwnModels)?;
        let mut take = Taking {
            series: self,
            seed,
            parts: labels
                .iter()
                .map(|label| store.next_part(&set.name, label, seed))
                .collect(),
            store,
            score_seconds: 0.0,
            started: Instant::now(),
        };
        let mut failed = None;
        solver.run(
            todo,
            &mut |event| progress.borrow_mut().observe(&event),
            &mut |result| match take.take(&result) {
                Ok(correct) => {
                    progress.borrow_mut().done(Some(correct));
                    ControlFlow::Continue(())
                }
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            },
        )?;
        failed.map_or(Ok(()), Err)
    }
}

/// Taking in the results of a series.
struct Taking<'a> {
    series: &'a Series<'a>,
    seed: u64,
    parts: Vec<u32>,
    store: &'a mut Store,
    /// What scoring took so far.
    score_seconds: f64,
    started: Instant,
}

impl Taking<'_> {
    /// Adds a row for each cell. Returns whether the first cell's answer is right.
    fn take(&mut self, result: &ProblemResult) -> Result<bool, Failure> {
        let Series {
            plan,
            set,
            execution,
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
            let mut row = Row::new(set, cell, self.seed, result, reading);
            row.part = part;
            row.wall = microseconds(match row.without_scores {
                true => (wall - self.score_seconds).max(0.0),
                false => wall,
            });
            first.get_or_insert(row.correct);
            if execution.pool && at == execution.cells[0] {
                row.chains = Some(Chains::of(result));
            }
            if !self.store.has(set, &cell.label(), self.seed, &row.id) {
                self.store.add(row)?;
            }
        }
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
