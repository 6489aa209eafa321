//! Files of solutions, with the scores and verdicts that models and checkers add.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use beamgen::checkers::{CheckItem, Panel};
use beamgen::eval::answer::compare;
use beamgen::eval::{GivenChain, MathAnswers, Verdict};
use beamgen::generator::GeneratorConfig;
use beamgen::mend::steps_of;
use beamgen::result::{Answer, Answers};
use beamgen::scorer::{ScoreError, Scorer, ScorerKind};
use beamgen::{Aggregation, Config};
use beamgen_labels::solutions::{Pool, Solution, Solved, Text, open};

use super::outline::{FILE, Outline, Rightness, ScorerOutline, SetOutline};
use super::row::Row;
use crate::report::slug;
use crate::{Error, Watch, scores};

/// The solutions of one or more files, split into steps.
pub struct Pools {
    pub(super) outline: Outline,
    pub(super) rows: Vec<Row>,
    /// The problem of each row, with the steps of each solution.
    texts: Vec<(String, Vec<Vec<String>>)>,
}

impl Pools {
    /// Reads the first `limit` problems of each file, or all without a limit. Solutions are split into steps by the
    /// boundaries in `config`, as in a search.
    ///
    /// # Errors
    /// A file cannot be used; the message names it and the line.
    pub fn open(
        paths: &[impl AsRef<Path>],
        limit: Option<usize>,
        config: &Config,
    ) -> Result<Self, Error> {
        let mut all = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            all.push((name.into_owned(), open(path, limit)?));
        }
        Self::of(all, config)
    }

    /// Makes pools of solutions in memory, each with a name.
    ///
    /// # Errors
    /// The aggregation of the settings needs step probabilities of a generator.
    pub fn of(all: Vec<(String, Pool)>, config: &Config) -> Result<Self, Error> {
        let mut pools = Self {
            outline: Outline {
                sets: Vec::new(),
                scorers: Vec::new(),
                checkers: Vec::new(),
                aggregation: plain(config.search.aggregation)?,
                boundaries: config.generator.boundaries.clone(),
                starts: config.generator.starts.clone(),
            },
            rows: Vec::new(),
            texts: Vec::new(),
        };
        for (name, pool) in all {
            pools.add(&name, &pool, &config.generator);
        }
        Ok(pools)
    }

    fn add(&mut self, stem: &str, pool: &Pool, settings: &GeneratorConfig) {
        let set = self.outline.sets.len();
        let solutions = pool.problems.iter().flat_map(|of| &of.solutions);
        // The file's verdicts are used only if every solution has one; otherwise the grader judges all.
        let judged = solutions.clone().all(|solution| solution.right.is_some());
        let outline = SetOutline {
            name: self.name(stem),
            source: pool.source.clone(),
            layout: pool.layout.name.to_owned(),
            rightness: if judged {
                Rightness::File
            } else {
                Rightness::Grader
            },
            gives_answers: solutions.clone().all(|solution| solution.answer.is_some()),
            // Files do not tell the scale of their scores. Scores outside 0 to 1 cannot be probabilities.
            log_odds: solutions.clone().any(|solution| {
                let scores = solution.scores.iter().flatten();
                scores.clone().any(|score| !(0.0..=1.0).contains(score))
            }),
        };
        for (number, solved) in pool.problems.iter().enumerate() {
            let steps = solved.solutions.iter().map(|of| steps(of, settings));
            let steps: Vec<Vec<String>> = steps.collect();
            self.rows.push(row(set, number, solved, judged, &steps));
            self.texts.push((solved.problem.clone(), steps));
        }
        self.outline.sets.push(outline);
    }

    /// Returns the slug of `stem`, with a number if another file has this name.
    fn name(&self, stem: &str) -> String {
        let stem = match slug(stem) {
            name if name.is_empty() => "pool".to_owned(),
            name => name,
        };
        let others = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(others);
        names
            .find(|name| self.outline.sets.iter().all(|set| set.name != *name))
            .unwrap_or(stem)
    }

    /// Returns the text of each problem, which a host needs to load a reward model.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|(problem, _)| problem.as_str())
    }

    /// Returns the total number of solutions, with equal ones counted separately.
    #[must_use]
    pub fn solutions(&self) -> usize {
        self.texts.iter().map(|(_, all)| all.len()).sum()
    }

    /// Scores every solution with a reward model. Equal solutions of a problem are scored once. `at_end` is true for
    /// models that judge whole solutions, of which only the last score counts.
    ///
    /// # Errors
    /// The model is lost, the caller cancelled, or two scorers have one name.
    pub fn score(
        &mut self,
        name: &str,
        model: (&mut dyn Scorer, &str),
        at_end: bool,
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        // Scores are stored by name, so a scorer of the same name would overwrite others.
        if name == FILE || self.outline.scorers.iter().any(|of| of.name == name) {
            let reason = format!("two scorers are called \"{name}\": rename one of them");
            return Err(Error::Data(reason));
        }
        let (model, model_name) = model;
        let mut chains = Vec::new();
        let mut places = Vec::new();
        for (row, (problem, solutions)) in self.rows.iter().zip(&self.texts) {
            let mut there: HashMap<&[String], usize> = HashMap::new();
            for (at, steps) in solutions.iter().enumerate() {
                let place = there.entry(steps).or_insert_with(|| {
                    chains.push(GivenChain {
                        id: format!("{}, solution {}", row.id, at + 1),
                        problem: problem.clone(),
                        steps: steps.clone(),
                        ..GivenChain::default()
                    });
                    chains.len() - 1
                });
                places.push(*place);
            }
        }
        watch.begin(chains.len(), "solutions", chains.len() as f64);
        // Only the first refusal is reported, since a model that refuses one long solution refuses many.
        let mut watch = FirstRefusal { watch, told: false };
        let mut scores = scores::judge(model, &chains, &mut watch)?;
        // The scores before the last step of such a model have no meaning.
        if at_end {
            for scores in scores.iter_mut().flatten() {
                scores.drain(..scores.len().saturating_sub(1));
            }
        }
        let mut places = places.into_iter();
        let mut refused = 0;
        for row in &mut self.rows {
            // The loop above visited rows and solutions in the same order.
            let of_row = places.by_ref().take(row.len());
            let of_row: Vec<_> = of_row.map(|at| scores[at].clone()).collect();
            refused += of_row.iter().filter(|scores| scores.is_none()).count();
            row.scores.insert(name.to_owned(), of_row);
        }
        self.outline.scorers.push(ScorerOutline {
            name: name.to_owned(),
            model: model_name.to_owned(),
            refused,
        });
        Ok(())
    }

    /// Checks every step of every solution with the checkers of `panel`.
    ///
    /// # Errors
    /// The caller cancelled.
    pub fn check(&mut self, panel: &mut Panel, watch: &mut dyn Watch) -> Result<(), Error> {
        watch.begin(self.rows.len(), "problems", self.rows.len() as f64);
        self.outline.checkers = panel.names().map(str::to_owned).collect();
        for (row, (problem, solutions)) in self.rows.iter_mut().zip(&self.texts) {
            // Checkers may keep state between the steps of a chain, so each solution is a chain of its own.
            let ids: Vec<_> = solutions.iter().map(|_| panel.open(problem)).collect();
            let items = ids.iter().zip(solutions).map(|(&id, steps)| CheckItem {
                id,
                steps: steps.iter().map(String::as_str).collect(),
            });
            let said = panel.check(&items.collect::<Vec<_>>());
            row.fails = Some(
                said.into_iter()
                    .map(|steps| {
                        steps
                            .iter()
                            // The proof of one checker is enough.
                            .position(|all| all.iter().any(|one| one.verdict.is_fail()))
                            .map(|at| at as u32)
                    })
                    .collect(),
            );
            for id in ids {
                panel.release(id);
            }
            watch.done(None);
            if watch.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }
}

/// A watcher that passes on only the first refusal. The report has the number of all.
struct FirstRefusal<'w> {
    watch: &'w mut dyn Watch,
    told: bool,
}

impl Watch for FirstRefusal<'_> {
    fn done(&mut self, correct: Option<bool>) {
        self.watch.done(correct);
    }

    fn refused(&mut self, chain: &str, reason: &ScoreError) {
        if !std::mem::replace(&mut self.told, true) {
            self.watch.refused(chain, reason);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.watch.is_cancelled()
    }
}

/// A scorer of pools: its name in tables, settings in which it is the only scorer, and whether it judges only whole
/// solutions.
pub type PoolScorer = (String, Config, bool);

/// Returns the scorers of these kinds, and each judge in the settings, without duplicates. An empty list of kinds
/// means the PRM.
#[must_use]
pub fn scorers(base: &Config, kinds: &[ScorerKind]) -> Vec<PoolScorer> {
    let kinds = if kinds.is_empty() {
        &[ScorerKind::Prm]
    } else {
        kinds
    };
    let mut all: Vec<PoolScorer> = Vec::new();
    for &kind in kinds {
        let mut config = base.clone();
        config.models.scorer = kind;
        for one in config.each_scorer() {
            // Two kinds of scorers may include the same judge.
            if !all.iter().any(|there| there.1.models == one.1.models) {
                all.push(one);
            }
        }
    }
    all
}

/// Returns an error for an aggregation that needs the step probabilities of a generator.
fn plain(aggregation: Aggregation) -> Result<Aggregation, Error> {
    match aggregation {
        Aggregation::LikelyMin { .. } => Err(Error::Data(format!(
            "aggregation {aggregation}: needs a generator's step probabilities, which a pool lacks: use another aggregation"
        ))),
        other => Ok(other),
    }
}

fn steps(solution: &Solution, settings: &GeneratorConfig) -> Vec<String> {
    match &solution.text {
        Text::Whole(text) => steps_of(text, settings),
        Text::Steps(steps) => steps.clone(),
    }
}

/// Makes the row of a problem. Only scores in the file are included.
fn row(set: usize, number: usize, solved: &Solved, judged: bool, steps: &[Vec<String>]) -> Row {
    let mut row = Row {
        set,
        id: solved.id.clone().unwrap_or_else(|| number.to_string()),
        reference: solved.reference.clone(),
        ..Row::default()
    };
    let mut classes: HashMap<String, u32> = HashMap::new();
    // Many solutions have the same answer and comparing can be slow, so each distinct answer is compared once.
    let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
    let mut graded = String::new();
    for (solution, steps) in solved.solutions.iter().zip(steps) {
        let text = whole(solution, steps);
        let answer = match &solution.answer {
            Some(given) => {
                let given = given.trim();
                // A blank field means that the solution has no answer.
                (!given.is_empty()).then(|| Answer::stated(given))
            }
            None => MathAnswers.extract(&text),
        };
        let class = answer.as_ref().map(|answer| {
            let next = classes.len() as u32;
            let class = MathAnswers.class(&answer.text);
            *classes.entry(class).or_insert(next)
        });
        let verdict = solved.reference.as_ref().map(|reference| {
            answer.as_ref().map_or(Verdict::Different, |answer| {
                *verdicts
                    .entry(answer.text.clone())
                    .or_insert_with(|| compare(&answer.text, reference))
            })
        });
        let by_grader = verdict == Some(Verdict::Same);
        row.right.push(mark(solution.right.unwrap_or(by_grader)));
        graded.push(match verdict {
            Some(Verdict::CannotTell) => '?',
            _ => mark(by_grader),
        });
        row.guess
            .push(mark(answer.as_ref().is_some_and(|of| of.is_guess)));
        row.class.push(class);
        row.length.push(text.chars().count() as u32);
        row.answers.push(answer.map(|answer| answer.text));
    }
    // The grader's verdicts are stored only if they may differ from the file's.
    row.graded = (judged && solved.reference.is_some()).then_some(graded);
    let solutions = solved.solutions.iter();
    if solutions.clone().any(|solution| solution.scores.is_some()) {
        let scores = solutions.clone().map(|solution| solution.scores.clone());
        row.scores.insert(FILE.to_owned(), scores.collect());
    }
    if solutions
        .clone()
        .any(|solution| solution.first_error.is_some())
    {
        let labels = solutions.clone().map(|solution| solution.first_error);
        row.first_error = Some(labels.collect());
    }
    row
}

/// Returns the text from which the answer of a solution is extracted.
fn whole(solution: &Solution, steps: &[String]) -> String {
    match &solution.text {
        Text::Whole(text) => text.clone(),
        Text::Steps(_) => steps.join("\n"),
    }
}

fn mark(flag: bool) -> char {
    if flag { '1' } else { '0' }
}
