//! Scorers that are not models. The library loads reward models itself; what it does not know is
//! attached here.

use beamgen::SolverBuilder;
use beamgen::scorer::{ExactScorer, ScorerKind};

/// Gives the builder the scorer that its configuration names, where that is not a checkpoint.
pub fn attach(builder: SolverBuilder) -> SolverBuilder {
    match builder.current_config().models.scorer {
        ScorerKind::Exact => builder.custom_scorer("exact", ExactScorer::default()),
        ScorerKind::Prm | ScorerKind::Orm | ScorerKind::None => builder,
    }
}
