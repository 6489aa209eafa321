use super::{Action, AdaptiveN, Preset, Scoring, Start, Strategy, StrategySpec, open};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId};

/// Best-of-N: N independent chains, each written to its end and scored afterwards in one read.
///
/// Chain `i` does not depend on N: the first `k` chains are those of best-of-k.
#[derive(Debug, Clone)]
pub struct BestOfN {
    n: usize,
    /// When chains are scored: at their ends, or never for a majority vote, which needs no scores.
    scoring: Scoring,
    /// Whether all chains grow one step at a time. The chains that an early decided vote counts
    /// then do not depend on the other problems in flight.
    in_rounds: bool,
    /// The number of chains that have ended, by themselves or at a limit.
    ended: usize,
}

impl BestOfN {
    pub(super) fn new(n: usize, scoring: Scoring, in_rounds: bool) -> Self {
        Self {
            n,
            scoring,
            in_rounds,
            ended: 0,
        }
    }
}

impl Strategy for BestOfN {
    fn scoring(&self) -> Scoring {
        self.scoring
    }

    /// Chains are independent samples: equal chains have a vote each.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn in_rounds(&self) -> bool {
        self.in_rounds
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let open = open(tree, nodes).into_iter();
        let actions: Vec<Action> = open.map(|node| Action::expand(node, 1)).collect();
        // Nodes that are not open have ended, since this strategy never pauses a step.
        self.ended += nodes.len() - actions.len();
        actions
    }

    fn to_come(&self) -> Option<usize> {
        Some(self.n.saturating_sub(self.ended))
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    branches: false,
    in_rounds: false,
    rolls_out: true,
    samples_independently: true,
    needs_scorer,
    // A majority vote needs no scores, unless a threshold or a confidence is set.
    uses_scores: |config| {
        config.choosing() != Choose::Majority || config.threshold > 0.0 || config.confidence > 0.0
    },
    presets: &[
        Preset {
            name: "majority",
            summary: "N whole chains, the most frequent answer; no scorer",
            apply: |config| config.choose = Some(Choose::Majority),
        },
        Preset {
            name: "weighted",
            summary: "N whole chains, the answer with the largest sum of scores",
            apply: |config| config.choose = Some(Choose::Weighted),
        },
        Preset {
            name: "single",
            summary: "one sampled chain",
            apply: |config| config.n = 1,
        },
    ],
    ..StrategySpec::new(
        "best-of-n",
        "N whole chains, the answer of the best one",
        build,
    )
};

fn needs_scorer(config: &SearchConfig) -> Option<&'static str> {
    match config.choosing() {
        Choose::Best if config.n > 1 => Some("best-of-n"),
        Choose::Weighted => Some("a score-weighted vote"),
        _ if config.threshold > 0.0 => Some("a threshold"),
        _ if config.confidence > 0.0 => Some("a confidence"),
        _ => None,
    }
}

fn build(config: &SearchConfig, has_scorer: bool) -> Box<dyn Strategy> {
    if config.confidence > 0.0 {
        return Box::new(AdaptiveN::of(config));
    }
    let rolls_out = config.rolls_out();
    let scoring = if !(has_scorer && config.uses_scores()) {
        Scoring::Never
    } else if rolls_out {
        // The scores of steps are mixed with the values of their rollouts.
        Scoring::EveryStep
    } else {
        Scoring::OnDemand
    };
    // In rounds, a token budget lets as many chains continue as it can bring to their end.
    // In rounds, the chains at the time of a stop do not depend on the other problems.
    let in_rounds =
        config.consensus || config.budget_tokens > 0 || rolls_out || config.stop_when_verified;
    Box::new(BestOfN::new(config.n, scoring, in_rounds))
}
