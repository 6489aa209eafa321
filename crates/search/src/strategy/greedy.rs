use super::{BestOfN, StrategySpec};

pub(super) const SPEC: StrategySpec = StrategySpec {
    in_rounds: false,
    is_greedy: true,
    needs_scorer: |config| (config.threshold > 0.0).then_some("a threshold"),
    chains: |_| 1,
    ..StrategySpec::new(
        "greedy",
        "one chain of the likeliest tokens",
        |_, has_scorer| Box::new(BestOfN::new(1, has_scorer, false)),
    )
};
