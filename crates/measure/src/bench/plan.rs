//! The plan of a bench: its outline and the texts of its problems.

use beamgen::Config;
use beamgen::eval::Problems;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;

use super::outline::{Cell, Outline, SetOutline};
use crate::Error;

/// The strategies to compare if none is named.
const STRATEGIES: [&str; 4] = ["single", "majority", "best-of-n", "beam"];

/// A bench, ready to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The outline: sets, cells and comparisons.
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
            // With several scorers, the name of a strategy alone would be ambiguous.
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
        // Plain sampling with a reward model's choice is what other strategies are measured
        // against.
        outline.baseline = outline.first_best_of_n();
        Ok(Self {
            outline,
            problems: vec![problems],
        })
    }

    /// Checks that a report can be made of the plan's rows.
    ///
    /// # Errors
    /// A problem has no answer to compare with, or a path is not valid UTF-8.
    pub fn check(&self) -> Result<(), Error> {
        // The outline is written first; a path that is not UTF-8 would fail there.
        serde_json::to_value(&self.outline).map_err(|error| {
            Error::Data(format!("{error}: give models and files names of UTF-8"))
        })?;
        for (problems, set) in self.problems.iter().zip(&self.outline.sets) {
            let checked = problems.require_answers(set.ids.len());
            checked.map_err(beamgen::Error::from)?;
        }
        Ok(())
    }
}

/// A strategy by its name, with the settings of its search.
pub type Search = (StrategyName, Config);

/// Returns the searches of every strategy with every scorer at every number of chains. An empty
/// list means the default: four usual strategies, the PRM, 16 chains.
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
                // N comes first: a strategy such as a single sample overrides it.
                config.search.n = n;
                strategy.apply(&mut config.search);
                config.models.scorer = scorer;
                searches.push((strategy, config));
            }
        }
    }
    Ok(searches)
}

/// Removes the scorer from a search that only samples or votes, so that the search is not charged
/// for scores.
pub fn unscored_unless_needed(config: &mut Config) {
    if config.search.needs_scorer().is_none() {
        config.models.scorer = ScorerKind::None;
    }
}

/// A list of cells without duplicates.
#[derive(Debug, Default)]
pub struct Cells(pub Vec<Cell>);

impl Cells {
    /// Adds a run at the number of chains of its settings.
    ///
    /// # Errors
    /// The settings do not go together.
    pub fn add(&mut self, run: String, mut config: Config) -> Result<(), Error> {
        // A beam of fewer than M chains can only expand by their number.
        let n = config.search.n;
        config.search.m = config.search.m.min(n);
        if let Err(error) = config.check() {
            let error = Box::new(error);
            return Err(Error::Cell { run, n, error });
        }
        let cell = Cell { run, config };
        // Strategies with a fixed number of chains give the same cell at every N.
        if !self.0.iter().any(|there| there.label() == cell.label()) {
            self.0.push(cell);
        }
        Ok(())
    }
}
