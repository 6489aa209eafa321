//! Searches that several cells share. Cells with equal samples that differ only in the choice, such as best-of-N and
//! a majority vote, need only one search.

use std::borrow::Cow;

use beamgen::scorer::{CheckersConfig, ScorerKind};
use beamgen::strategy::SearchConfig;
use beamgen::{Config, ProblemResult};

use super::outline::{Cell, is_plain};

/// A search, with the cells whose results are computed from it.
pub(super) struct Execution {
    /// The settings to run with.
    pub config: Config,
    /// The cells, as indices into the outline. The first one stores the chains, if `pool` is true.
    pub cells: Vec<usize>,
    /// True if the rows store all chains, as a pool for estimates at smaller N.
    pub pool: bool,
}

impl Execution {
    /// Returns the labels of the cells. `all` has the cells of the outline.
    pub(super) fn labels(&self, all: &[Cell]) -> Vec<String> {
        self.cells.iter().map(|&at| all[at].label()).collect()
    }
}

/// Groups cells into as few searches as possible; cells of one search differ only in their choice.
pub(super) fn executions(cells: &[Cell]) -> Vec<Execution> {
    let mut all: Vec<Execution> = Vec::new();
    // Cells with scores come first. A cell without scores can use a search with scores, but the reverse is
    // impossible.
    let (scored, unscored): (Vec<usize>, Vec<usize>) =
        (0..cells.len()).partition(|&i| cells[i].config.uses_scorer());
    for at in scored.into_iter().chain(unscored) {
        let config = &cells[at].config;
        match all.iter_mut().find(|there| covers(&there.config, config)) {
            Some(there) => there.cells.push(at),
            None => all.push(Execution {
                config: config.clone(),
                cells: vec![at],
                pool: false,
            }),
        }
    }
    for at in 0..all.len() {
        let one = &all[at];
        let chains = one.config.search.n;
        // A smaller N can be estimated from the samples of a larger one, so only the largest N stores its chains.
        let has_larger = all.iter().any(|other| {
            is_plain(&other.config)
                && other.config.search.n > chains
                && sampling(&at_one_n(&other.config)) == sampling(&at_one_n(&one.config))
        });
        all[at].pool = is_plain(&one.config) && chains > 1 && !has_larger;
    }
    // The searches return to the order of their first cells.
    all.sort_by_key(|execution| execution.cells.iter().copied().min());
    all
}

/// Returns whether a cell with settings `cell` can use a search with settings `run`.
fn covers(run: &Config, cell: &Config) -> bool {
    let mut unscored = run.clone();
    unscored.models.scorer = ScorerKind::None;
    // A choice by outcomes is made in the search only.
    let sees_outcomes = run.search.scores_outcomes() || cell.search.scores_outcomes();
    is_plain(run)
        && is_plain(cell)
        && !sees_outcomes
        // The second condition is for a cell without scores, which may ignore those of the search.
        && (sampling(cell) == sampling(run) || sampling(cell) == sampling(&unscored))
}

/// Returns the settings without those that do not influence plain samples and their scores.
fn sampling(config: &Config) -> Config {
    let mut same = config.clone();
    // Plain sampling does not expand chains, so M has no effect.
    same.search.m = 1;
    // The settings of an absent scorer have no effect.
    if !config.uses_scorer() {
        same.models.scorer = ScorerKind::None;
        same.models.prm = None;
        same.models.judges.clear();
        same.checkers = CheckersConfig::default();
        same.search.aggregation = SearchConfig::default().aggregation;
    }
    same.search.choose = None;
    same
}

fn at_one_n(config: &Config) -> Config {
    let mut same = config.clone();
    same.search.n = 1;
    same
}

/// Returns the result of a cell from a search that covers it, and whether scores were removed. A cell without scores
/// has no cost of scoring, but its peak memory is still that of the search, an upper bound.
pub(super) fn read<'r>(
    result: &'r ProblemResult,
    run: &Config,
    cell: &Config,
) -> (Cow<'r, ProblemResult>, bool) {
    let without_scores = run.uses_scorer() && !cell.uses_scorer();
    if run.search.choosing() == cell.search.choosing() && !without_scores {
        return (Cow::Borrowed(result), false);
    }
    let mut result = result.clone();
    if without_scores {
        let ledger = &mut result.ledger;
        for chain in &mut result.finished {
            chain.score = None;
        }
        (result.score, result.lost_verdicts) = (None, 0);
        ledger.scored_tokens = 0;
        (ledger.flops.score, ledger.executed.score) = (0, 0);
        ledger.least.score = 0;
        ledger.score_passes = 0;
        ledger.seconds.score = 0.0;
        ledger.judges.clear();
        // Plain sampling reuses only the prompt, once for each chain after the first.
        ledger.reused_tokens = ledger.prompt_tokens * (run.search.n as u64 - 1);
    }
    match result
        .choose(cell.search.choosing(), cell.search.chains())
        .cloned()
    {
        Some(chain) => {
            result.answer = chain.answer;
            result.score = chain.score;
            result.chosen = Some(chain.node);
        }
        // If no chain has an answer, a search with scores shows the chain with the best score. Without scores it
        // shows the first complete chain.
        None if without_scores => {
            let finished = &result.finished;
            let complete = finished.iter().find(|chain| chain.finish.is_complete());
            result.chosen = complete.or(finished.first()).map(|chain| chain.node);
        }
        None => {}
    }
    (Cow::Owned(result), without_scores)
}

#[cfg(test)]
mod tests {
    use beamgen::{Choose, StrategyKind};

    use super::*;

    fn cell(choose: Choose, scorer: ScorerKind, n: usize) -> Cell {
        let mut config = Config::default();
        config.search.strategy = StrategyKind::BEST_OF_N;
        config.search.n = n;
        config.search.choose = Some(choose);
        config.models.scorer = scorer;
        let run = format!("{choose} {scorer}");
        Cell { run, config }
    }

    fn groups(cells: &[Cell]) -> Vec<(Vec<usize>, bool)> {
        let all = executions(cells).into_iter();
        all.map(|execution| (execution.cells, execution.pool))
            .collect()
    }

    #[test]
    fn ways_to_choose_share_and_the_largest_of_each_scorer_is_a_pool() {
        use Choose::{Best, Majority, Weighted};
        use ScorerKind::{None, Orm, Prm};
        let cells = [
            cell(Majority, None, 8),
            cell(Best, Prm, 4),
            cell(Best, Prm, 8),
            cell(Weighted, Prm, 8),
            cell(Best, Orm, 8),
            cell(Majority, None, 16),
            cell(Best, None, 1),
        ];
        let want = [
            (vec![2, 3, 0], true),
            (vec![1], false),
            (vec![4], true),
            (vec![5], true),
            (vec![6], false),
        ];
        assert_eq!(groups(&cells), want);
    }

    #[test]
    fn what_samples_otherwise_does_not_share() {
        let plain = cell(Choose::Best, ScorerKind::Prm, 8);
        let changes: [fn(&mut Config); 4] = [
            |config| config.search.strategy = StrategyKind::BEAM,
            |config| config.search.max_steps = 7,
            |config| config.generator.sampling.temperature = Some(0.5),
            |config| config.generator.seed = 1,
        ];
        for change in changes {
            let mut other = cell(Choose::Majority, ScorerKind::None, 8);
            change(&mut other.config);
            assert_eq!(groups(&[plain.clone(), other]).len(), 2);
        }
    }
}
