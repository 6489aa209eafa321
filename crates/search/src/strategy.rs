//! Strategies: policies that see a tree and return actions.

mod adaptive;
mod beam;
mod best_of_n;
mod deepconf;
mod dvts;
mod ets;
mod greedy;
mod lookahead;
mod mcts;
mod particle;
mod rebase;
mod refine;
#[cfg(test)]
mod sim;
mod slots;
mod speculative_rejection;
mod table;
mod variable_granularity;

pub use adaptive::AdaptiveN;
pub use beam::Beam;
pub use best_of_n::BestOfN;
pub use deepconf::{ConfidenceKind, DeepConf, DeepConfConfig};
pub use dvts::Dvts;
pub use ets::{Ets, EtsConfig};
pub use lookahead::{Lookahead, LookaheadConfig};
pub use mcts::{Mcts, MctsConfig};
pub use particle::{Particle, ParticleConfig};
pub use rebase::{Balance, Rebase, RebaseConfig};
pub use refine::{Refine, RefineConfig};
pub(crate) use slots::shares;
pub use slots::{BeamConfig, Copies, logits_below};
pub use speculative_rejection::{SpeculativeRejection, SpeculativeRejectionConfig};
pub use table::{Preset, StrategyName, StrategySpec};
pub use variable_granularity::{VariableGranularity, VariableGranularityConfig};

use crate::tree::{ChainTree, NodeId, State};

/// A strategy: a reference to its [row](StrategySpec) in the table of strategies.
#[derive(Clone, Copy)]
pub struct StrategyKind(&'static StrategySpec);

/// Defines a constant for each row, and the list of all rows in the order of help texts.
macro_rules! table {
    ($($name:ident: $row:path,)*) => {
        #[allow(missing_docs, reason = "the row says what it is")]
        impl StrategyKind {
            $(pub const $name: Self = Self(&$row);)*

            /// All strategies, in the order of help texts.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

table! {
    BEAM: beam::SPEC,
    DVTS: dvts::SPEC,
    LOOKAHEAD: lookahead::SPEC,
    VARIABLE_GRANULARITY: variable_granularity::SPEC,
    REBASE: rebase::SPEC,
    ETS: ets::SPEC,
    PARTICLE: particle::SPEC,
    MCTS: mcts::SPEC,
    BEST_OF_N: best_of_n::SPEC,
    DEEPCONF: deepconf::SPEC,
    SPECULATIVE_REJECTION: speculative_rejection::SPEC,
    REFINE: refine::SPEC,
    GREEDY: greedy::SPEC,
}

/// A request of a strategy to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sample `count` next steps of an open node. A node is expanded once, unless the strategy
    /// [keeps](Strategy::keeps_expanded) it. Steps start in the order of the actions, so the most
    /// promising node should come first.
    Expand {
        /// The node that the steps follow.
        node: NodeId,
        /// The number of steps to sample, at least 1.
        count: usize,
        /// The decoding: sampled or greedy, to the end of the step or to a pause.
        mode: DecodeMode,
    },
    /// Continue a paused step to its end. Other paused steps stay as they are.
    Resume(NodeId),
    /// Score an open, paused or complete node and all unscored steps above it. The node is reported
    /// again afterwards.
    Score(NodeId),
    /// Drop a node that is open, paused or finished, or an expanded node that was kept and has
    /// nothing left below it. The memory is released. A finished chain that is dropped gives no
    /// answer.
    Prune(NodeId),
    /// End the search. Steps that are still growing are dropped, finished chains stay.
    Done,
}

impl Action {
    /// Returns the action to expand a node into `count` sampled, unpaused steps.
    pub fn expand(node: NodeId, count: usize) -> Self {
        DecodeMode::Sample.expand(node, count)
    }
}

/// The way in which a step is decoded: how tokens are picked, and whether the step pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecodeMode {
    /// Sampled, to the end of the step.
    #[default]
    Sample,
    /// Sampled, and paused after this number of tokens unless the step ended before; the tokens of
    /// a thought do not count. The tokens are the same as without a pause.
    PauseAfter(usize),
    /// Sampled, and paused after the first token, also in a thought.
    PauseAtOnce,
    /// The likeliest token each time, to the end of the step.
    Greedy,
}

impl DecodeMode {
    /// Returns [`DecodeMode::PauseAfter`], or [`DecodeMode::Sample`] if `tokens` is 0.
    pub fn paused_after(tokens: usize) -> Self {
        match tokens {
            0 => Self::Sample,
            tokens => Self::PauseAfter(tokens),
        }
    }

    /// Returns the action to expand a node into `count` steps with this decoding.
    pub(crate) fn expand(self, node: NodeId, count: usize) -> Action {
        let mode = self;
        Action::Expand { node, count, mode }
    }
}

/// The moment at which steps are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// Every step is scored as soon as it and its siblings have closed or paused, before the
    /// strategy sees it.
    EveryStep,
    /// Steps are scored when [`Action::Score`] asks for it. At the end of the search, complete
    /// chains without scores are scored, too.
    OnDemand,
    /// No step is scored, even if there is a scorer.
    Never,
}

/// The facts that a strategy gets at the start of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The node that all chains begin with: the root, or the last of the given steps. The nodes of
    /// given steps have smaller numbers.
    pub node: NodeId,
    /// The seed of the strategy's own random numbers. It follows from the problem and the
    /// generator's seed.
    pub strategy_seed: u64,
    /// The number of tokens that the generator's whole cache holds; 0 without a limit.
    pub cache_tokens: usize,
}

/// The policy for the search of one problem. It must depend only on the tree, not on the order in
/// which steps close: then results do not depend on the other problems in flight.
pub trait Strategy {
    /// Returns when steps are scored, the same for the whole search. By default every step is
    /// scored.
    fn scoring(&self) -> Scoring {
        Scoring::EveryStep
    }

    /// Whether siblings with the same text become one candidate with several `copies`; by default
    /// they do. Siblings are then reported together. If a node is expanded again and a new step
    /// equals an old one, the old one is reported again.
    fn merges_siblings(&self) -> bool {
        true
    }

    /// Whether this node keeps its cache when it is expanded, until it is pruned, so that it can be
    /// expanded again. The scheduler asks whenever a child starts. Once the strategy no longer
    /// keeps the node, the last child to start takes the cache over.
    fn keeps_expanded(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }

    /// Whether [`on_steps`](Self::on_steps) is called only after all requested steps were reported.
    /// Otherwise it is called after every report.
    fn in_rounds(&self) -> bool {
        true
    }

    /// Returns the first actions, usually an [`Action::Expand`] of [`Start::node`].
    fn begin(&mut self, start: Start) -> Vec<Action>;

    /// Takes the nodes whose steps are done since the last call, in order of age, and returns the
    /// next actions. The nodes are open, paused or finished; with [`Scoring::EveryStep`] they are
    /// scored. The search ends when no action is returned and no step is outstanding.
    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action>;

    /// Whether complete chains are reported with the [outcome](crate::Node::outcome) of the
    /// verifier, if it judges the problem. By default they are not. A strategy that answers a
    /// problem must not ask, since the verifier may know the reference answer; one that labels
    /// chains may.
    fn asks_verifier(&self) -> bool {
        false
    }

    /// Returns the score of a finished chain, if it does not follow from the scores of its steps.
    fn chain_score(&self, tree: &ChainTree, end: NodeId) -> Option<f32> {
        let _ = (tree, end);
        None
    }

    /// Returns the largest number of chains that may still come to their end; `None` if the
    /// strategy does not know. A majority vote that so many votes cannot change is decided.
    fn to_come(&self) -> Option<usize> {
        None
    }
}

/// Returns the nodes that are open, in the given order.
fn open(tree: &ChainTree, nodes: &[NodeId]) -> Vec<NodeId> {
    let mut open = nodes.to_vec();
    open.retain(|&id| tree.node(id).state == State::Open);
    open
}
