//! The plan of a bench: the outline and the problems with their texts.

use beamgen::Config;
use beamgen::eval::Problems;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;

use super::outline::{Cell, Outline, SetOutline};
use crate::Error;

/// The strategies that are compared by default.
const STRATEGIES: [&str; 4] = ["single", "majority", "best-of-n", "beam"];

/// A bench, ready to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The sets, cells and comparisons, which the report contains.
    pub outline: Outline,
    /// The problems of each set of the outline.
    pub problems: Vec<Problems>,
}

impl Plan {
    /// Compares searches of one set of problems.
    ///
    /// # Errors
    /// The settings of a cell do not go together.
    pub fn of(
        searches: Vec<Search>,
        seeds: u64,
        set: SetOutline,
        problems: Problems,
    ) -> Result<Self, Error> {
        let scorers: Vec<ScorerKind> = searches.iter().map(|(_, own)| own.models.scorer).collect();
        let mut cells = Cells::default();
        for (strategy, mut config) in searches {
            unscored_unless_needed(&mut config);
            let scorer = config.models.scorer;
            let is_one_of_several = scorers.iter().any(|&other| other != scorers[0]);
            // With several scorers, the name of the strategy alone would be ambiguous.
            let run = if is_one_of_several && scorer != ScorerKind::None {
                format!("{scorer} {}", strategy.name())
            } else {
                strategy.name().to_owned()
            };
            cells.add(run, config)?;
        }
        let mut outline = Outline {
            seeds,
            sets: vec![set],
            cells: cells.0,
            baseline: None,
            compare: Vec::new(),
            plots: Vec::new(),
        };
        // The default baseline is plain sampling with the choice of a reward model.
        outline.baseline = outline.first_best_of_n();
        Ok(Self {
            outline,
            problems: vec![problems],
        })
    }

    /// Checks, before any search, that a report can be written.
    ///
    /// # Errors
    /// A problem has no reference answer, or a path is not valid UTF-8.
    pub fn check(&self) -> Result<(), Error> {
        // JSON cannot hold a path that is not UTF-8, and the outline is written as JSON.
        serde_json::to_value(&self.outline).map_err(|error| {
            Error::Data(format!("{error}: give models and files names of UTF-8"))
        })?;
        let cells = &self.outline.cells;
        for (problems, set) in self.problems.iter().zip(&self.outline.sets) {
            let checked = problems.require_outcomes(set.ids.len(), |problem| {
                cells
                    .iter()
                    .all(|cell| cell.config.verifier.judges(problem))
            });
            checked.map_err(beamgen::Error::from)?;
        }
        Ok(())
    }
}

/// A named strategy with all settings of its search.
pub type Search = (StrategyName, Config);

/// Returns a search for every combination of strategy, scorer and number of chains. An empty list stands for a
/// default: the strategies of `STRATEGIES`, the PRM, 16 chains.
///
/// # Errors
/// A default strategy does not exist.
pub fn crossed(
    base: &Config,
    strategies: &[StrategyName],
    scorers: &[ScorerKind],
    chains: &[usize],
) -> Result<Vec<Search>, Error> {
    let strategies = match strategies {
        [] => {
            let usual = STRATEGIES.iter().map(|name| name.parse());
            let usual = usual.collect::<Result<Vec<StrategyName>, _>>();
            usual.map_err(beamgen::Error::from)?
        }
        given => given.to_vec(),
    };
    let chains = if chains.is_empty() { &[16] } else { chains };
    let scorers = if scorers.is_empty() {
        &[ScorerKind::Prm]
    } else {
        scorers
    };
    let mut searches = Vec::new();
    for strategy in strategies {
        for &scorer in scorers {
            for &n in chains {
                let mut config = base.clone();
                // A strategy may set N itself, for example to 1, so it is applied after N.
                config.search.n = n;
                strategy.apply(&mut config.search);
                config.models.scorer = scorer;
                searches.push((strategy, config));
            }
        }
    }
    Ok(searches)
}

/// Removes the scorer from the settings of a search that only samples or votes, so that scores are not part of its
/// cost.
pub fn unscored_unless_needed(config: &mut Config) {
    // Where outcomes score chains, the scorer judges those that the verifier cannot.
    let falls_back = config.search.scores_outcomes() && config.search.uses_scores();
    if config.search.needs_scorer().is_none() && !falls_back {
        config.models.scorer = ScorerKind::None;
    }
}

/// A list of cells in which each label occurs once.
#[derive(Debug, Default)]
pub struct Cells(pub Vec<Cell>);

impl Cells {
    /// Adds a run at the number of chains of its settings.
    ///
    /// # Errors
    /// The settings do not go together.
    pub fn add(&mut self, run: String, mut config: Config) -> Result<(), Error> {
        // A beam of N chains cannot have more than N expansions of a chain.
        let n = config.search.n;
        config.search.m = config.search.m.min(n);
        if let Err(error) = config.check() {
            let error = Box::new(error);
            return Err(Error::Cell { run, n, error });
        }
        let cell = Cell { run, config };
        // A strategy with a fixed number of chains has the same label at every N.
        if !self.0.iter().any(|there| there.label() == cell.label()) {
            self.0.push(cell);
        }
        Ok(())
    }
}
