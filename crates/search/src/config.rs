use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::error::ConfigError;
use crate::strategy::{
    Beam, BestOfN, Dvts, Greedy, Lookahead, LookaheadConfig, Mcts, MctsConfig, Particle,
    ParticleConfig, Rebase, RebaseConfig, Refine, RefineConfig, SpeculativeRejection,
    SpeculativeRejectionConfig, Strategy, VariableGranularity, VariableGranularityConfig,
};

/// Which strategy searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// Step-wise beam search ([`Beam`]).
    #[default]
    Beam,
    /// N independent chains ([`BestOfN`]).
    BestOfN,
    /// One chain ([`Greedy`]). The temperature is the generator's affair.
    Greedy,
    /// Independent subtrees, each with its own best chain ([`Dvts`]).
    Dvts,
    /// A beam that judges a step by where it leads ([`Lookahead`]).
    Lookahead,
    /// A beam that scores every g-th step ([`VariableGranularity`]).
    VariableGranularity,
    /// Children in proportion to scores ([`Rebase`]).
    Rebase,
    /// Resampling in proportion to odds ([`Particle`]).
    Particle,
    /// Tree search by PUCT ([`Mcts`]).
    Mcts,
    /// Best-of-N that drops the worst when memory is full ([`SpeculativeRejection`]).
    SpeculativeRejection,
    /// Best-of-N written again from the weakest steps ([`Refine`]).
    Refine,
}

impl StrategyKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Beam,
        Self::BestOfN,
        Self::Greedy,
        Self::Dvts,
        Self::Lookahead,
        Self::VariableGranularity,
        Self::Rebase,
        Self::Particle,
        Self::Mcts,
        Self::SpeculativeRejection,
        Self::Refine,
    ];

    /// The name used in configuration, e.g. `"best-of-n"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beam => "beam",
            Self::BestOfN => "best-of-n",
            Self::Greedy => "greedy",
            Self::Dvts => "dvts",
            Self::Lookahead => "lookahead",
            Self::VariableGranularity => "variable-granularity",
            Self::Rebase => "rebase",
            Self::Particle => "particle",
            Self::Mcts => "mcts",
            Self::SpeculativeRejection => "speculative-rejection",
            Self::Refine => "refine",
        }
    }

    /// Whether M matters: N chains come from at most N/M.
    fn has_factor(self) -> bool {
        use StrategyKind::{Beam, Dvts, Lookahead, Mcts, VariableGranularity};
        matches!(self, Beam | Dvts | Lookahead | VariableGranularity | Mcts)
    }

    /// Whether chains wait for each other after every step.
    fn searches_in_rounds(self) -> bool {
        !matches!(self, Self::BestOfN | Self::Greedy)
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StrategyKind {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .into_iter()
            .find(|s| s.name() == name)
            .ok_or_else(|| ConfigError::unknown("strategy", name, Self::ALL.map(Self::name)))
    }
}

/// How to search. Every field has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Which strategy searches.
    pub strategy: StrategyKind,
    /// N: chains per problem. Greedy always has one.
    pub n: usize,
    /// M: a beam keeps N/M chains (rounded down) and expands them to N again.
    pub m: usize,
    /// How step scores become the score of a chain.
    pub aggregation: Aggregation,
    /// How the answer is chosen among the finished chains.
    pub choose: Choose,
    /// Steps after which a chain is given up.
    pub max_steps: usize,
    /// Most tokens that may be sampled for one problem, those thrown away included; 0: no limit.
    pub budget_tokens: usize,
    /// An answer whose chain scores less is withheld; 0: never.
    pub threshold: f32,
    /// Stop as soon as the chains still to come cannot change a majority vote.
    pub consensus: bool,
    /// Tokens after which a step is scored in the middle and rejected early; 0: never.
    pub early_rejection: usize,
    /// While the last steps of a round are written, chains that are done with theirs go on with the
    /// next one. What is not selected is thrown away; the results are the same, unless a problem does
    /// not fit into memory even alone. Off under a token budget.
    pub speculate: bool,
    /// Problems worked on at once. It changes the speed, never the results.
    pub in_flight: usize,
    /// Keys of the strategy of this name, as the following.
    pub lookahead: LookaheadConfig,
    pub variable_granularity: VariableGranularityConfig,
    pub rebase: RebaseConfig,
    pub particle: ParticleConfig,
    pub mcts: MctsConfig,
    pub speculative_rejection: SpeculativeRejectionConfig,
    pub refine: RefineConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            strategy: StrategyKind::Beam,
            n: 16,
            m: 4,
            aggregation: Aggregation::Min,
            choose: Choose::Best,
            max_steps: 40,
            budget_tokens: 0,
            threshold: 0.0,
            consensus: false,
            early_rejection: 0,
            speculate: false,
            in_flight: 16,
            lookahead: LookaheadConfig::default(),
            variable_granularity: VariableGranularityConfig::default(),
            rebase: RebaseConfig::default(),
            particle: ParticleConfig::default(),
            mcts: MctsConfig::default(),
            speculative_rejection: SpeculativeRejectionConfig::default(),
            refine: RefineConfig::default(),
        }
    }
}

impl SearchConfig {
    /// Most chains of one problem. More would end the process for want of memory, not the run.
    pub const MAX_CHAINS: usize = 1 << 16;

    /// # Errors
    /// N, M, the step limit or the problems in flight are 0, N is above
    /// [`MAX_CHAINS`](Self::MAX_CHAINS), N < M where M matters, a number is out of its range, or a
    /// key is set that has no meaning with this strategy.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("n", self.n),
            ("m", self.m),
            ("max_steps", self.max_steps),
            ("in_flight", self.in_flight),
        ];
        if let Some((field, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ConfigError::Zero { field });
        }
        ConfigError::check_most("n", self.n, Self::MAX_CHAINS)?;
        let (n, m) = (self.n, self.m);
        if self.strategy.has_factor() && n < m {
            return Err(ConfigError::FewerChainsThanFactor { n, m });
        }
        let words = "a score from 0 to 1";
        ConfigError::check_range("threshold", self.threshold, 0.0..=1.0, words)?;
        self.aggregation.validate()?;
        self.variable_granularity.validate()?;
        self.rebase.validate()?;
        self.particle.validate()?;
        self.mcts.validate()?;
        self.speculative_rejection.validate()?;
        self.refine.validate()?;
        self.check_company()
    }

    /// Refuses keys that do nothing beside the others.
    fn check_company(&self) -> Result<(), ConfigError> {
        let rejects = matches!(self.strategy, StrategyKind::Beam | StrategyKind::Dvts);
        if self.early_rejection > 0 && !rejects {
            return Err(ConfigError::Misplaced {
                field: "early_rejection",
                with: "strategy = \"beam\" or \"dvts\"",
            });
        }
        let votes = self.strategy == StrategyKind::BestOfN && self.choose == Choose::Majority;
        if self.consensus && !votes {
            return Err(ConfigError::Misplaced {
                field: "consensus",
                with: "strategy = \"best-of-n\" and choose = \"majority\"",
            });
        }
        if self.speculate && !self.strategy.searches_in_rounds() {
            return Err(ConfigError::Misplaced {
                field: "speculate",
                with: "a strategy that searches in rounds, not with \"best-of-n\" or \"greedy\"",
            });
        }
        Ok(())
    }

    /// What a scorer is indispensable for, if it is.
    pub fn needs_scorer(&self) -> Option<&'static str> {
        match (self.strategy, self.choose) {
            (StrategyKind::BestOfN, Choose::Best) if self.n > 1 => Some("best-of-n"),
            (StrategyKind::BestOfN, Choose::Weighted) => Some("a score-weighted vote"),
            (StrategyKind::BestOfN | StrategyKind::Greedy, _) if self.threshold > 0.0 => {
                Some("a threshold")
            }
            (StrategyKind::BestOfN | StrategyKind::Greedy, _) => None,
            (StrategyKind::Beam, _) => Some("beam search"),
            (strategy, _) => Some(strategy.name()),
        }
    }

    /// Whether scores are asked for, if there is a scorer. A majority vote over samples asks for
    /// none, unless a threshold is set.
    pub fn uses_scores(&self) -> bool {
        let votes = self.strategy == StrategyKind::BestOfN && self.choose == Choose::Majority;
        !votes || self.threshold > 0.0
    }

    /// A fresh strategy for one problem. Without a scorer nothing is scored.
    ///
    /// # Errors
    /// As [`validate`](Self::validate), and if a scorer is needed and there is none.
    pub fn build(&self, has_scorer: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        self.validate()?;
        if let Some(what) = self.needs_scorer().filter(|_| !has_scorer) {
            return Err(ConfigError::NeedsScorer { what });
        }
        let (n, m, aggregation) = (self.n, self.m, self.aggregation);
        Ok(match self.strategy {
            StrategyKind::Beam => {
                let beam = Beam::new(n, m, aggregation)?;
                Box::new(beam.rejecting_after(self.early_rejection))
            }
            StrategyKind::BestOfN => {
                let samples = BestOfN::new(n, has_scorer && self.uses_scores());
                Box::new(match self.consensus {
                    true => samples.in_lockstep(),
                    false => samples,
                })
            }
            StrategyKind::Greedy => Box::new(Greedy::new(has_scorer)),
            StrategyKind::Dvts => {
                let dvts = Dvts::new(n, m, aggregation)?;
                Box::new(dvts.rejecting_after(self.early_rejection))
            }
            StrategyKind::Lookahead => {
                Box::new(Lookahead::new(n, m, &self.lookahead, aggregation)?)
            }
            StrategyKind::VariableGranularity => {
                let keys = &self.variable_granularity;
                Box::new(VariableGranularity::new(n, m, keys, aggregation)?)
            }
            StrategyKind::Rebase => Box::new(Rebase::new(n, &self.rebase, aggregation)?),
            StrategyKind::Particle => Box::new(Particle::new(n, &self.particle, aggregation)?),
            StrategyKind::Mcts => Box::new(Mcts::new(n, m, &self.mcts, aggregation)?),
            StrategyKind::SpeculativeRejection => {
                let keys = &self.speculative_rejection;
                Box::new(SpeculativeRejection::new(n, keys, aggregation)?)
            }
            StrategyKind::Refine => Box::new(Refine::new(n, &self.refine, aggregation)?),
        })
    }

    /// How many chains one problem has at most.
    pub fn chains(&self) -> usize {
        match self.strategy {
            StrategyKind::Greedy => 1,
            _ => self.n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(strategy: StrategyKind, n: usize, m: usize) -> SearchConfig {
        SearchConfig {
            strategy,
            n,
            m,
            ..SearchConfig::default()
        }
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(SearchConfig::default().validate(), Ok(()));
    }

    #[test]
    fn zeros_are_refused_by_name() {
        for field in ["n", "m", "max_steps", "in_flight"] {
            let bad: SearchConfig =
                serde_json::from_value(serde_json::json!({ field: 0 })).unwrap();
            assert_eq!(bad.validate(), Err(ConfigError::Zero { field }));
        }
    }

    #[test]
    fn more_chains_than_memory_can_hold_are_refused() {
        let most = SearchConfig::MAX_CHAINS;
        assert_eq!(config(StrategyKind::BestOfN, most, 4).validate(), Ok(()));
        for n in [most + 1, usize::MAX] {
            let error = config(StrategyKind::BestOfN, n, 4).validate().unwrap_err();
            assert!(error.to_string().starts_with("n = "), "{error}");
        }
    }

    #[test]
    fn a_factor_above_n_is_refused_where_it_matters() {
        for strategy in StrategyKind::ALL {
            let refused = config(strategy, 3, 4).validate().is_err();
            let matters = ["beam", "dvts", "lookahead", "variable-granularity", "mcts"];
            assert_eq!(refused, matters.contains(&strategy.name()), "{strategy}");
            assert_eq!(config(strategy, 4, 4).validate(), Ok(()));
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        for (table, key, value) in [
            ("rebase", "temperature", 0.0),
            ("particle", "temperature", -1.0),
            ("mcts", "exploration", -0.5),
            ("mcts", "virtual_loss", -0.5),
            ("speculative_rejection", "fraction", 1.0),
            ("speculative_rejection", "fraction", 0.0),
        ] {
            let json = serde_json::json!({ table: { key: value } });
            let bad: SearchConfig = serde_json::from_value(json).unwrap();
            let error = bad.validate().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{table}.{key} = ")), "{error}");
        }
        let json = serde_json::json!({ "variable_granularity": { "granularity": 0 } });
        let bad: SearchConfig = serde_json::from_value(json).unwrap();
        assert!(bad.validate().is_err());
        for threshold in [-0.1, 1.1, f32::NAN] {
            let bad = SearchConfig {
                threshold,
                ..SearchConfig::default()
            };
            assert!(bad.validate().is_err());
        }
    }

    #[test]
    fn keys_without_a_meaning_are_refused() {
        for strategy in StrategyKind::ALL {
            let mut c = config(strategy, 4, 4);
            c.early_rejection = 8;
            let rejects = ["beam", "dvts"].contains(&strategy.name());
            assert_eq!(c.validate().is_ok(), rejects, "{strategy}");
            c.early_rejection = 0;
            c.speculate = true;
            let samples = ["best-of-n", "greedy"].contains(&strategy.name());
            assert_eq!(c.validate().is_err(), samples, "{strategy}");
            c.speculate = false;
            c.consensus = true;
            assert!(c.validate().is_err());
            c.choose = Choose::Majority;
            assert_eq!(c.validate().is_ok(), strategy == StrategyKind::BestOfN);
        }
    }

    #[test]
    fn every_strategy_is_built_and_found_by_name() {
        for strategy in StrategyKind::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            let json = serde_json::to_value(strategy).unwrap();
            assert_eq!(json, strategy.name());
            let config = config(strategy, 8, 4);
            assert!(config.build(true).is_ok());
            let free = strategy == StrategyKind::Greedy;
            assert_eq!(config.build(false).is_ok(), free, "{strategy}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let json = r#"{"strategy": "beam", "beams": 4}"#;
        assert!(serde_json::from_str::<SearchConfig>(json).is_err());
    }

    #[test]
    fn scorers_are_asked_for_only_where_needed() {
        let mut c = config(StrategyKind::BestOfN, 8, 4);
        assert!(c.build(false).is_err());
        c.choose = Choose::Majority;
        assert!(c.build(false).is_ok() && !c.uses_scores());
        c.threshold = 0.5;
        assert!(c.build(false).is_err() && c.uses_scores());
        c.threshold = 0.0;
        c.strategy = StrategyKind::Greedy;
        assert!(c.build(false).is_ok());
        c.strategy = StrategyKind::Beam;
        assert!(c.build(false).is_err());
        assert!(c.build(true).is_ok());
    }
}
