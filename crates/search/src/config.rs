use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::error::ConfigError;
use crate::numbers::is_default;
use crate::rollouts::{RolloutValue, RolloutsConfig};
use crate::strategy::{
    BeamConfig, DeepConfConfig, EtsConfig, LookaheadConfig, MctsConfig, ParticleConfig,
    RebaseConfig, RefineConfig, SpeculativeRejectionConfig, Strategy, StrategyKind,
    VariableGranularityConfig,
};

/// The settings of a search. Every field has a default.
///
/// TOML and JSON use the names of the fields. The keys of a strategy are a table next to the other
/// fields, such as `[search.mcts]`. Unknown names are errors. Fields are written in the order
/// below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SearchConfig {
    /// The strategy, which decides after each round which chains continue.
    pub strategy: StrategyKind,
    /// The way to choose the answer among the finished chains; `None`: the usual one for the
    /// strategy, see [`choosing`](Self::choosing).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub choose: Option<Choose>,
    /// N: the number of chains per problem. Greedy decoding always has one.
    pub n: usize,
    /// M: a beam keeps N/M chains, rounded down, and expands them to N chains again.
    pub m: usize,
    /// The rule that turns the scores of a chain's steps into the score of the chain.
    pub aggregation: Aggregation,
    /// The most steps of a chain; a chain that has not ended by then is cut off.
    pub max_steps: usize,
    /// The most tokens sampled for a problem, discarded ones included; 0: no limit.
    pub budget_tokens: usize,
    /// The least score of an answer's chain; below it the answer is withheld. 0: never.
    pub threshold: f32,
    /// Whether the search stops as soon as the remaining chains cannot change a majority vote.
    pub consensus: bool,
    /// The number of tokens after which a step is scored in the middle and may be rejected; 0:
    /// never.
    pub early_rejection: usize,
    /// Whether chains whose step is done continue speculatively while the last steps of a round are
    /// written. Steps that are not selected are discarded.
    ///
    /// Results do not change, unless a problem does not fit into memory even by itself. Has no
    /// effect under a token budget.
    pub speculate: bool,
    /// The most problems in flight. Changes the speed, never the results.
    pub in_flight: usize,
    /// The probability of success, below 1, for which best-of-n samples chains: as many as a
    /// problem needs, and at most N ([`AdaptiveN`]). 0: always N chains.
    ///
    /// [`AdaptiveN`]: crate::AdaptiveN
    #[serde(skip_serializing_if = "is_default")]
    pub confidence: f32,
    /// The chain score at which an answer is right with the probability `confidence`; 0: scores are
    /// taken as probabilities.
    #[serde(skip_serializing_if = "is_default")]
    pub sure_score: f32,
    /// Whether a complete chain scores 1 if the problem's verifier calls it right, and 0 if it
    /// calls it wrong, whatever the scorer says. Only for [open](crate::Verifier::is_open)
    /// verifiers.
    #[serde(skip_serializing_if = "is_default")]
    pub outcome_scores: bool,
    /// Whether the search ends as soon as an open verifier calls a chain right, at the end of the
    /// round. Implies `outcome_scores`.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_when_verified: bool,
    /// The settings of values by rollouts; `None`: the defaults, without rollouts.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unusual")]
    pub rollouts: Option<RolloutsConfig>,
    /// The settings of strategies with slots: beam, dvts, lookahead and variable-granularity;
    /// `None`: the defaults.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unusual")]
    pub beam: Option<BeamConfig>,
    /// The settings that only lookahead search uses.
    pub lookahead: LookaheadConfig,
    /// The settings that only beam search with variable granularity uses.
    pub variable_granularity: VariableGranularityConfig,
    /// The settings that only REBASE uses.
    pub rebase: RebaseConfig,
    /// The settings that only ETS uses; `None`: the defaults.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unusual")]
    pub ets: Option<EtsConfig>,
    /// The settings that only the particle filter uses.
    pub particle: ParticleConfig,
    /// The settings that only Monte Carlo tree search uses.
    pub mcts: MctsConfig,
    /// The settings that only `DeepConf` uses; `None`: the defaults.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unusual")]
    pub deepconf: Option<DeepConfConfig>,
    /// The settings that only speculative rejection uses.
    pub speculative_rejection: SpeculativeRejectionConfig,
    /// The settings that only refinement uses.
    pub refine: RefineConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            strategy: StrategyKind::BEAM,
            n: 16,
            m: 4,
            aggregation: Aggregation::Min,
            choose: None,
            max_steps: 40,
            budget_tokens: 0,
            threshold: 0.0,
            confidence: 0.0,
            sure_score: 0.0,
            consensus: false,
            early_rejection: 0,
            speculate: false,
            in_flight: 16,
            outcome_scores: false,
            stop_when_verified: false,
            rollouts: None,
            beam: None,
            lookahead: LookaheadConfig::default(),
            variable_granularity: VariableGranularityConfig::default(),
            rebase: RebaseConfig::default(),
            ets: None,
            particle: ParticleConfig::default(),
            mcts: MctsConfig::default(),
            deepconf: None,
            speculative_rejection: SpeculativeRejectionConfig::default(),
            refine: RefineConfig::default(),
        }
    }
}

impl SearchConfig {
    /// Returns how the answer is chosen among the finished chains: as set in `choose`, or as usual
    /// for the strategy.
    pub fn choosing(&self) -> Choose {
        self.choose.unwrap_or(self.strategy.spec().usual_choose)
    }

    /// The most chains of a problem. With more, the process itself could run out of memory.
    pub const MAX_CHAINS: usize = 1 << 16;

    /// Checks each field, and that the fields fit together.
    ///
    /// # Errors
    /// N, M, the step limit or the problems in flight are 0, N is above
    /// [`MAX_CHAINS`](Self::MAX_CHAINS), N < M where M matters, a number is out of its range, or a
    /// key is set that has no meaning with this strategy.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("n", self.n)?;
        ConfigError::check_count("m", self.m)?;
        ConfigError::check_count("max_steps", self.max_steps)?;
        ConfigError::check_count("in_flight", self.in_flight)?;
        ConfigError::check_most("n", self.n, Self::MAX_CHAINS)?;
        let (n, m) = (self.n, self.m);
        // Other strategies ignore M, whose default must not refuse a small N.
        if self.strategy.spec().uses_m && n < m {
            return Err(ConfigError::FewerChainsThanFactor { n, m });
        }
        let words = "a score from 0 to 1";
        ConfigError::check_range("threshold", self.threshold, 0.0..=1.0, words)?;
        let words = "a probability below 1";
        ConfigError::check_range("confidence", self.confidence, 0.0..1.0, words)?;
        let words = "a score from 0 to 1";
        ConfigError::check_range("sure_score", self.sure_score, 0.0..=1.0, words)?;
        self.aggregation.validate()?;
        let words = "a number of logits, 0 or more";
        ConfigError::check_range("beam.margin", self.margin(), 0.0.., words)?;
        self.rollouts
            .iter()
            .try_for_each(RolloutsConfig::validate)?;
        self.variable_granularity.validate()?;
        self.rebase.validate()?;
        self.ets.iter().try_for_each(EtsConfig::validate)?;
        self.particle.validate()?;
        self.mcts.validate()?;
        self.deepconf
            .iter()
            .try_for_each(DeepConfConfig::validate)?;
        self.speculative_rejection.validate()?;
        self.refine.validate()?;
        self.refuse_idle_keys()
    }

    /// Refuses keys that have no effect with the other keys.
    fn refuse_idle_keys(&self) -> Result<(), ConfigError> {
        // A key without effect is an error: a comparison could otherwise credit it with a result.
        let spec = self.strategy.spec();
        let votes = spec.samples_independently && self.choosing() == Choose::Majority;
        let (field, with) = if self.confidence > 0.0 && self.strategy != StrategyKind::BEST_OF_N {
            ("confidence", "strategy = \"best-of-n\"".to_owned())
        } else if self.sure_score > 0.0 && self.confidence == 0.0 {
            ("sure_score", "confidence".to_owned())
        } else if self.early_rejection > 0 && !spec.rejects_early {
            let with = kinds_with(|kind| kind.spec().rejects_early);
            ("early_rejection", with)
        } else if self.margin() > 0.0
            && (self.strategy != StrategyKind::BEAM || self.early_rejection == 0)
        {
            let with = "strategy = \"beam\" and early_rejection above 0";
            ("beam.margin", with.to_owned())
        } else if self.beam.is_some() && !spec.uses_copies {
            ("beam.copies", kinds_with(|kind| kind.spec().uses_copies))
        } else if self.rollouts.is_some() && !self.rolls_out() {
            ("rollouts.value", "rollouts.count above 0".to_owned())
        } else if self.rolls_out() && !spec.rolls_out {
            ("rollouts.count", kinds_with(|kind| kind.spec().rolls_out))
        } else if self.rolls_out() && self.budget_tokens > 0 {
            ("rollouts.count", "budget_tokens = 0".to_owned())
        } else if self.rolls_out() && self.early_rejection > 0 {
            ("rollouts.count", "early_rejection = 0".to_owned())
        } else if self.rolls_out() && self.speculate {
            ("rollouts.count", "speculate = false".to_owned())
        } else if self.rolls_out() && self.confidence > 0.0 {
            ("rollouts.count", "confidence = 0".to_owned())
        } else if self.rolls_out() && self.consensus {
            ("rollouts.count", "consensus = false".to_owned())
        } else if self.consensus && !votes {
            let with = kinds_with(|kind| kind.spec().samples_independently);
            ("consensus", with + " and choose = \"majority\"")
        } else if self.speculate && !spec.in_rounds {
            let other = spec.name;
            let with = format!("a strategy that works in rounds, not with \"{other}\"");
            ("speculate", with)
        } else {
            return Ok(());
        };
        Err(ConfigError::Misplaced { field, with })
    }

    /// Returns the strategy or the choice that needs a scorer, in words; `None` if the search works
    /// without a scorer.
    pub fn needs_scorer(&self) -> Option<&'static str> {
        if let Some(rollouts) = self.rollouts.as_ref().filter(|_| self.rolls_out()) {
            // Values by a vote take the place of scores.
            return rollouts
                .uses_scores()
                .then_some("a value of rollouts by the reward model");
        }
        let spec = self.strategy.spec();
        if self.uses_outcomes() && spec.samples_independently && self.confidence == 0.0 {
            // Whole chains have the scores of the verifier.
            return None;
        }
        (spec.needs_scorer)(self)
    }

    /// Whether the search asks for scores if there is a scorer.
    pub fn uses_scores(&self) -> bool {
        if let Some(rollouts) = self.rollouts.as_ref().filter(|_| self.rolls_out()) {
            return rollouts.uses_scores();
        }
        (self.strategy.spec().uses_scores)(self)
    }

    /// Whether the search asks the verifier for outcomes of chains that end, which an open verifier
    /// may give.
    pub fn uses_outcomes(&self) -> bool {
        let rollouts = self.rollouts.as_ref().filter(|_| self.rolls_out());
        let by_outcome = rollouts.is_some_and(|rollouts| rollouts.value == RolloutValue::Verifier);
        self.scores_outcomes() || by_outcome
    }

    /// Whether complete chains score by their outcomes.
    pub fn scores_outcomes(&self) -> bool {
        self.outcome_scores || self.stop_when_verified
    }

    /// Makes a fresh strategy for one problem. Without a scorer nothing is scored.
    ///
    /// # Errors
    /// The configuration is invalid (see [`validate`](Self::validate)), or needs a scorer that is
    /// missing.
    pub fn build(&self, has_scorer: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        self.validate()?;
        if let Some(what) = self.needs_scorer().filter(|_| !has_scorer) {
            return Err(ConfigError::NeedsScorer { what });
        }
        Ok((self.strategy.spec().build)(self, has_scorer))
    }

    fn margin(&self) -> f32 {
        self.beam.as_ref().map_or(0.0, |beam| beam.margin)
    }

    /// Whether new steps are valued by rollouts.
    pub fn rolls_out(&self) -> bool {
        self.rollouts
            .as_ref()
            .is_some_and(|rollouts| rollouts.count > 0)
    }

    /// Returns the largest number of chains that are sampled for one problem, completions of steps
    /// included.
    pub fn sampled_chains(&self) -> usize {
        let count = self.rollouts.as_ref().map_or(0, |rollouts| rollouts.count);
        let each = count.saturating_mul(self.max_steps).saturating_add(1);
        self.chains().saturating_mul(each)
    }

    /// Returns the largest number of chains that vote for the answer: N, or all chains if there are
    /// rollouts, which vote, too.
    pub fn votes(&self) -> usize {
        if self.rolls_out() {
            usize::MAX
        } else {
            self.chains()
        }
    }

    /// Returns the largest number of chains of one problem: usually N, but 1 for greedy decoding.
    pub fn chains(&self) -> usize {
        (self.strategy.spec().chains)(self)
    }
}

/// Returns the setting that selects one of the strategies for which `has` holds, in words.
fn kinds_with(has: impl Fn(StrategyKind) -> bool) -> String {
    let kinds = StrategyKind::ALL.iter().filter(|kind| has(**kind));
    let names: Vec<String> = kinds.map(|kind| format!("\"{kind}\"")).collect();
    format!("strategy = {}", names.join(" or "))
}

impl Serialize for SearchConfig {
    /// Writes tables that are newer than the first run files only if their strategy is chosen or a
    /// key is set. Other configurations are written as they always were, so that old runs can be
    /// resumed.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Run files compare this text with that of the run to resume, also from older versions.
        let mut written = self.clone();
        if self.strategy == StrategyKind::ETS {
            written.ets.get_or_insert_default();
        }
        if self.strategy == StrategyKind::DEEPCONF {
            written.deepconf.get_or_insert_default();
        }
        Self::serialize(&written, to)
    }
}

impl<'de> Deserialize<'de> for SearchConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
}

/// Reads a value that may be left out but not be null.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Reads a table; `None` if all its keys have their defaults.
fn unusual<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    let keys = T::deserialize(from)?;
    Ok((keys != T::default()).then_some(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Copies, StrategyName};

    fn config(strategy: StrategyKind, n: usize, m: usize) -> SearchConfig {
        SearchConfig {
            strategy,
            n,
            m,
            ..SearchConfig::default()
        }
    }

    fn read(text: &str) -> SearchConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(SearchConfig::default().validate(), Ok(()));
    }

    #[test]
    fn without_choose_the_strategy_decides() {
        for (text, how) in [
            (r#"{"strategy":"beam"}"#, Choose::Weighted),
            (r#"{"strategy":"dvts"}"#, Choose::Weighted),
            (r#"{"strategy":"best-of-n"}"#, Choose::Best),
            (r#"{"strategy":"particle"}"#, Choose::Weighted),
            (r#"{"strategy":"mcts"}"#, Choose::Weighted),
            (r#"{"strategy":"refine"}"#, Choose::Best),
            (r#"{"strategy":"beam","choose":"best"}"#, Choose::Best),
        ] {
            let config = read(text);
            assert_eq!(config.choosing(), how, "{text}");
            // An unset choice must stay unset when written: the strategy may be changed later.
            assert_eq!(read(&serde_json::to_string(&config).unwrap()), config);
        }
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
        assert_eq!(config(StrategyKind::BEST_OF_N, most, 4).validate(), Ok(()));
        for n in [most + 1, usize::MAX] {
            let error = config(StrategyKind::BEST_OF_N, n, 4)
                .validate()
                .unwrap_err();
            assert!(error.to_string().starts_with("n = "), "{error}");
        }
    }

    #[test]
    fn a_factor_above_n_is_refused_where_it_matters() {
        for &strategy in StrategyKind::ALL {
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
        for &strategy in StrategyKind::ALL {
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
            c.choose = Some(Choose::Majority);
            assert_eq!(c.validate().is_ok(), strategy == StrategyKind::BEST_OF_N);
            let mut c = config(strategy, 4, 4);
            c.beam = Some(BeamConfig {
                copies: Copies::Distinct,
                ..BeamConfig::default()
            });
            let has_slots = ["beam", "dvts", "lookahead", "variable-granularity"];
            let expected = has_slots.contains(&strategy.name());
            assert_eq!(c.validate().is_ok(), expected, "{strategy}");
        }
    }

    #[test]
    fn rules_for_copies_are_read_and_written() {
        for (text, copies) in [
            ("slots", None),
            ("cap:3", Some(Copies::Cap(3))),
            ("distinct", Some(Copies::Distinct)),
        ] {
            let config = read(&format!(r#"{{"beam":{{"copies":"{text}"}}}}"#));
            assert_eq!(
                config.beam,
                copies.map(|copies| BeamConfig {
                    copies,
                    margin: 0.0
                })
            );
            let written = serde_json::to_string(&config).unwrap();
            assert_eq!(written.contains("copies"), copies.is_some(), "{written}");
            assert_eq!(read(&written), config);
        }
        for wrong in ["cap:0", "cap:", "cap:x", "many"] {
            let text = format!(r#"{{"beam":{{"copies":"{wrong}"}}}}"#);
            let error = serde_json::from_str::<SearchConfig>(&text).unwrap_err();
            assert!(error.to_string().contains("rule for copies"), "{error}");
        }
    }

    #[test]
    fn every_strategy_is_built_and_found_by_name() {
        for &strategy in StrategyKind::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            let json = serde_json::to_value(strategy).unwrap();
            assert_eq!(json, strategy.name());
            let config = config(strategy, 8, 4);
            assert!(config.build(true).is_ok());
            let free = ["greedy", "deepconf"].contains(&strategy.name());
            assert_eq!(config.build(false).is_ok(), free, "{strategy}");
        }
    }

    /// Run files compare this text: an old run can be resumed only if nothing in it has changed.
    #[test]
    fn the_written_form_stays_as_it_was() {
        let written = serde_json::to_string(&SearchConfig::default()).unwrap();
        let of_0_1 = concat!(
            r#"{"strategy":"beam","n":16,"m":4,"aggregation":"min","max_steps":40,"#,
            r#""budget_tokens":0,"threshold":0.0,"consensus":false,"early_rejection":0,"#,
            r#""speculate":false,"in_flight":16,"lookahead":{"steps":1},"#,
            r#""variable_granularity":{"granularity":2},"#,
            r#""rebase":{"temperature":0.2,"balance":"fair"},"particle":{"temperature":1.0},"#,
            r#""mcts":{"simulations":0,"exploration":1.25,"virtual_loss":1.0},"#,
            r#""speculative_rejection":{"memory_tokens":0,"fraction":0.5},"refine":{"rounds":2}}"#,
        );
        assert_eq!(written, of_0_1);
        let mut config = SearchConfig::default();
        config.rebase.temperature = 0.3;
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(written, of_0_1.replace("0.2", "0.3"));
        assert_eq!(
            serde_json::from_str::<SearchConfig>(&written).unwrap(),
            config
        );
    }

    #[test]
    fn rows_say_what_their_strategies_do() {
        for &strategy in StrategyKind::ALL {
            let config = config(strategy, 8, 4);
            let built = config.build(true).unwrap();
            assert_eq!(built.in_rounds(), strategy.spec().in_rounds, "{strategy}");
            let independent = strategy.spec().samples_independently;
            assert!(built.to_come().is_some() || !independent, "{strategy}");
        }
        let names: Vec<_> = StrategyName::all().collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "two rows for {}", name.name());
            assert_eq!(name.name().parse(), Ok(*name));
        }
    }

    #[test]
    fn younger_tables_are_written_if_chosen_or_set() {
        let of_ets = r#""ets":{"lambda_b":1.0,"lambda_d":1.5,"distance":0.05,"temperature":0.2}"#;
        let set = of_ets.replace("1.5", "2.0");
        for (text, written) in [
            (r#"{"strategy":"ets"}"#, Some(of_ets)),
            (r#"{"strategy":"ets","ets":{"lambda_d":2}}"#, Some(&set)),
            (r#"{"ets":{"lambda_d":2}}"#, Some(&set)),
            (r#"{"ets":{"lambda_d":1.5}}"#, None),
            (r#"{"strategy":"deepconf"}"#, None),
        ] {
            let config = read(text);
            let again = serde_json::to_string(&config).unwrap();
            assert_eq!(again.contains(r#""ets""#), written.is_some(), "{again}");
            assert!(again.contains(written.unwrap_or_default()), "{again}");
            assert_eq!(
                again.contains(r#""deepconf":{"warmup":0"#),
                text.contains("deepconf")
            );
            assert_eq!(read(&again), config);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (json, words) in [
            (
                r#"{"strategy": "beam", "beams": 4}"#,
                "unknown field `beams`",
            ),
            (
                r#"{"mcts": {"depth": 1}}"#,
                "unknown field `depth`, expected one of `simulations`",
            ),
            (
                r#"{"lookahead": {"depth": 1}}"#,
                "unknown field `depth`, expected `steps`",
            ),
            (r#"{"ets": {"distance": "x"}}"#, "invalid type: string"),
            (r#"{"ets": null}"#, "expected a table of keys"),
            (r#"{"choose": null}"#, "expected value"),
            (r#"{"strategy": "bean"}"#, "unknown strategy \"bean\""),
        ] {
            let error = serde_json::from_str::<SearchConfig>(json).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn scorers_are_asked_for_only_where_needed() {
        let mut c = config(StrategyKind::BEST_OF_N, 8, 4);
        assert!(c.build(false).is_err());
        c.choose = Some(Choose::Majority);
        assert!(c.build(false).is_ok() && !c.uses_scores());
        c.threshold = 0.5;
        assert!(c.build(false).is_err() && c.uses_scores());
        c.threshold = 0.0;
        c.strategy = StrategyKind::GREEDY;
        assert!(c.build(false).is_ok());
        c.strategy = StrategyKind::BEAM;
        assert!(c.build(false).is_err());
        assert!(c.build(true).is_ok());
    }
}
