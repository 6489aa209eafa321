use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::error::ConfigError;
use crate::strategy::{Beam, BestOfN, Greedy, Strategy};

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
}

impl StrategyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Beam, Self::BestOfN, Self::Greedy];

    /// The name used in configuration, e.g. `"best-of-n"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beam => "beam",
            Self::BestOfN => "best-of-n",
            Self::Greedy => "greedy",
        }
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
    /// next one. What is not selected is thrown away; the results are the same.
    pub speculate: bool,
    /// Problems worked on at once. It changes the speed, never the results.
    pub in_flight: usize,
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
        }
    }
}

impl SearchConfig {
    /// Most chains of one problem. More would end the process for want of memory, not the run.
    pub const MAX_CHAINS: usize = 1 << 16;

    /// # Errors
    /// N, M, the step limit or the problems in flight are 0, N is above
    /// [`MAX_CHAINS`](Self::MAX_CHAINS), or a beam has N < M.
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
        if self.n > Self::MAX_CHAINS {
            return Err(ConfigError::TooLarge {
                field: "n",
                value: self.n,
                most: Self::MAX_CHAINS,
            });
        }
        if self.strategy == StrategyKind::Beam && self.n < self.m {
            return Err(ConfigError::FewerChainsThanFactor {
                n: self.n,
                m: self.m,
            });
        }
        Ok(())
    }

    /// What a scorer is indispensable for, if it is.
    pub fn needs_scorer(&self) -> Option<&'static str> {
        match (self.strategy, self.choose) {
            (StrategyKind::Beam, _) => Some("beam search"),
            (StrategyKind::BestOfN, Choose::Best) if self.n > 1 => Some("best-of-n"),
            (StrategyKind::BestOfN, Choose::Weighted) => Some("a score-weighted vote"),
            _ => None,
        }
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
        Ok(match self.strategy {
            StrategyKind::Beam => {
                let beam = Beam::new(self.n, self.m, self.aggregation)?;
                Box::new(beam.rejecting_after(self.early_rejection))
            }
            StrategyKind::BestOfN => {
                let votes_only = self.choose == Choose::Majority && self.threshold == 0.0;
                let samples = BestOfN::new(self.n, has_scorer && !votes_only);
                Box::new(match self.consensus {
                    true => samples.in_lockstep(),
                    false => samples,
                })
            }
            StrategyKind::Greedy => Box::new(Greedy::new(has_scorer)),
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
    fn a_factor_above_n_is_refused_for_a_beam_only() {
        let error = config(StrategyKind::Beam, 3, 4).validate();
        assert_eq!(
            error,
            Err(ConfigError::FewerChainsThanFactor { n: 3, m: 4 })
        );
        assert_eq!(config(StrategyKind::BestOfN, 3, 4).validate(), Ok(()));
        assert_eq!(config(StrategyKind::Beam, 4, 4).validate(), Ok(()));
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
        assert!(c.build(false).is_ok());
        c.strategy = StrategyKind::Greedy;
        assert!(c.build(false).is_ok());
        c.strategy = StrategyKind::Beam;
        assert!(c.build(false).is_err());
        assert!(c.build(true).is_ok());
    }
}
