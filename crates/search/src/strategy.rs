//! Strategies: pure policies that see a tree and answer with actions.

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
pub use speculative_rejection::{SpeculativeRejection, SpeculativeRejectionConfig};
pub use table::{Preset, StrategyName, StrategySpec};
pub use variable_granularity::{VariableGranularity, VariableGranularityConfig};

use crate::tree::{ChainTree, NodeId, State};

/// The name of a strategy in a configuration; what it stands for is in its [row](StrategySpec).
#[derive(Clone, Copy)]
pub struct StrategyKind(&'static StrategySpec);

/// Gives each row a constant and puts it into the table, in the order of help.
macro_rules! table {
    ($($name:ident: $row:path,)*) => {
        #[allow(missing_docs, reason = "the row says what it is")]
        impl StrategyKind {
            $(pub const $name: Self = Self(&$row);)*

            /// The whole table.
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

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sample `count` next steps of an open node. A node is expanded once, unless the strategy
    /// [keeps](Strategy::keeps_expanded) expanded nodes. Steps are started in the order of the
    /// actions, so the most promising node comes first.
    Expand {
        /// The node that the steps follow.
        node: NodeId,
        /// How many.
        count: usize,
        /// Sampled or greedy, to the step's end or to a pause.
        mode: DecodeMode,
    },
    /// Let a paused step go on to its end.
    Resume(NodeId),
    /// Score a node that is open, paused or complete, with all steps above it that have no score
    /// yet. It is reported again.
    Score(NodeId),
    /// Drop a node that is open, paused or finished and give its memory back. A finished chain
    /// that is dropped gives no answer. Also an expanded node that was kept, when nothing is left
    /// below it.
    Prune(NodeId),
    /// Nothing more is wanted; what is still growing is dropped.
    Done,
}

impl Action {
    /// [`Action::Expand`] into whole sampled steps.
    pub fn expand(node: NodeId, count: usize) -> Self {
        DecodeMode::Sample.expand(node, count)
    }
}

/// How a step grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecodeMode {
    /// Sampled, to its end.
    #[default]
    Sample,
    /// Sampled, and paused after so many tokens unless it ended before. The tokens are those of
    /// [`DecodeMode::Sample`].
    PauseAfter(usize),
    /// The likeliest token each time, to its end.
    Greedy,
}

impl DecodeMode {
    /// [`DecodeMode::PauseAfter`]; 0 means no pause.
    pub fn paused_after(tokens: usize) -> Self {
        match tokens {
            0 => Self::Sample,
            tokens => Self::PauseAfter(tokens),
        }
    }

    /// [`Action::Expand`] into steps that grow so.
    pub(crate) fn expand(self, node: NodeId, count: usize) -> Action {
        let mode = self;
        Action::Expand { node, count, mode }
    }
}

/// When steps are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// Every step as soon as it and its siblings have closed (or paused); the strategy sees the
    /// score.
    EveryStep,
    /// What [`Action::Score`] asks for, and in the end what has no score yet in the chains that
    /// came to their own end.
    OnDemand,
    /// Not at all.
    Never,
}

/// What a strategy is told at the start of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Where all chains begin: the root or, if the problem gives steps, the node of the last one.
    /// The nodes of given steps have the numbers below it.
    pub node: NodeId,
    /// Follows from the problem and the generator's seed: what a strategy draws, it draws from
    /// here.
    pub strategy_seed: u64,
    /// Tokens that the generator's whole cache holds.
    pub cache_tokens: usize,
}

/// The policy for one problem. It must not depend on the order in which steps are done, only on the
/// tree: then the result does not depend on what else is in flight.
pub trait Strategy {
    /// When steps are scored; the same throughout. By default every step is.
    fn scoring(&self) -> Scoring {
        Scoring::EveryStep
    }

    /// Whether siblings with the same text are one candidate, as they are by default. If so,
    /// siblings are reported together. Where a node is expanded again, a step that it has already
    /// is a copy more of that one, which is reported again.
    fn merges_siblings(&self) -> bool {
        true
    }

    /// Whether this node keeps its cache when it is expanded, until it is pruned, so that it can be
    /// expanded again. Asked whenever a step of it starts: once the strategy no longer keeps it,
    /// the last of its next children takes the cache over.
    fn keeps_expanded(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }

    /// Whether [`on_steps`](Self::on_steps) is called only when every step asked for has been
    /// reported. Otherwise it is called whenever something has.
    fn in_rounds(&self) -> bool {
        true
    }

    /// The first actions; usually [`Action::Expand`] of [`Start::node`].
    fn begin(&mut self, start: Start) -> Vec<Action>;

    /// Called with the nodes whose steps are done since the last call, in order of age: they are
    /// open, paused or finished, and with [`Scoring::EveryStep`] they have been scored. If nothing
    /// is asked for and nothing is still to come, the search ends.
    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action>;

    /// The score of a finished chain, where it does not follow from the scores of its steps.
    fn chain_score(&self, tree: &ChainTree, end: NodeId) -> Option<f32> {
        let _ = (tree, end);
        None
    }

    /// How many more chains may still come to their end, if the strategy can tell: a vote that they
    /// cannot change is over.
    fn to_come(&self) -> Option<usize> {
        None
    }
}

/// The open ones of these nodes.
fn open(tree: &ChainTree, nodes: &[NodeId]) -> Vec<NodeId> {
    let is_open = |id: &NodeId| tree.node(*id).state == State::Open;
    nodes.iter().copied().filter(is_open).collect()
}
