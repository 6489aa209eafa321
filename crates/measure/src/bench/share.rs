//! Cells that differ only in how they choose share their samples: best-of-N, majority and weighted
//! vote at one N are three readings of the same chains.

use std::borrow::Cow;

use beamgen::scorer::{CheckersConfig, ScorerKind};
use beamgen::strategy::SearchConfig;
use beamgen::{Config, ProblemResult};

use super::outline::{Cell, is_plain};

/// One search and the cells that are read off it.
pub(super) struct Execution {
    /// The settings to run with.
    pub config: Config,
    /// Indices of the cells.
    pub cells: Vec<usize>,
    /// Whether its chains are kept as a pool to resample from.
    pub pool: bool,
}

impl Execution {
    /// The labels of its cells, which are among `all`.
    pub(super) fn labels(&self, all: &[Cell]) -> Vec<String> {
        self.cells.iter().map(|&at| all[at].label()).collect()
    }
}

/// Groups cells into as few searches as give all of them.
pub(super) fn executions(cells: &[Cell]) -> Vec<Execution> {
    let mut all: Vec<Execution> = Vec::new();
    // What is scored comes first: what is not can be read off it, but not the other way round.
    let scored = |cell: &Cell| cell.config.uses_scorer();
    let order = (0..cells.len()).filter(|&i| scored(&cells[i]));
    let order = order.chain((0..cells.len()).filter(|&i| !scored(&cells[i])));
    for at in order {
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
    let largest = |one: &Execution, other: &Execution| {
        let n = |execution: &Execution| execution.config.search.n;
        !is_plain(&other.config)
            || n(other) <= n(one)
            || sampling(&at_one_n(&other.config)) != sampling(&at_one_n(&one.config))
    };
    for at in 0..all.len() {
        let one = &all[at];
        let chains = one.config.search.n;
        all[at].pool =
            is_plain(&one.config) && chains > 1 && all.iter().all(|other| largest(one, other));
    }
    // In the order of the cells.
    all.sort_by_key(|execution| execution.cells.iter().copied().min());
    all
}

/// Whether the cell with settings `cell` can be read off a search with settings `run`.
fn covers(run: &Config, cell: &Config) -> bool {
    let mut unscored = run.clone();
    unscored.models.scorer = ScorerKind::None;
    is_plain(run)
        && is_plain(cell)
        && (sampling(cell) == sampling(run) || sampling(cell) == sampling(&unscored))
}

/// Plain settings without what does not touch the chains and their scores.
fn sampling(config: &Config) -> Config {
    let mut same = config.clone();
    same.search.m = 1;
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

/// Reads a cell's result off the search that covers it, and tells whether the scores were left out,
/// which the search itself paid for. A cell that asks for no scores is not charged for them: its
/// peak memory alone is still that of the search, an upper bound.
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
        ledger.score_passes = 0;
        ledger.seconds.score = 0.0;
        ledger.judges.clear();
        // All chains but one fork the prompt, and nothing else is forked.
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
        // Nobody answers: which chain is shown depends on the scores.
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
