use super::{BestOfN, Scoring, StrategySpec};

pub(super) const SPEC: StrategySpec = StrategySpec {
    in_rounds: false,
    is_greedy: true,
    needs_scorer: |config| (config.threshold > 0.0).then_some("a threshold"),
    chains: |_| 1,
    branches: false,
    steps: |config| config.max_steps,
    ..StrategySpec::new(
        "greedy",
        "one chain of the likeliest tokens",
        |_, has_scorer| {
            let scoring = if has_scorer {
                Scoring::OnDemand
            } else {
                Scoring::Never
            };
            Box::new(BestOfN::new(1, scoring, false))
        },
    )
};
