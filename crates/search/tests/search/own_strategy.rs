//! A strategy from outside of the crate: one row, and it is found, read, run and listed like the
//! others.

use beamgen_search::*;
use serde::{Deserialize, Serialize};

use crate::scripted::*;

/// Writes `width` chains and has none of them scored.
struct Fan {
    width: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FanConfig {
    width: usize,
}

impl Default for FanConfig {
    fn default() -> Self {
        Self { width: 2 }
    }
}

impl StrategyKeys for FanConfig {
    const TABLE: &'static str = "fan";

    fn validate(&self) -> Result<(), ConfigError> {
        match self.width {
            0 => Err(ConfigError::Zero { field: "fan.width" }),
            _ => Ok(()),
        }
    }
}

impl Strategy for Fan {
    fn scoring(&self) -> Scoring {
        Scoring::Never
    }

    fn merges_siblings(&self) -> bool {
        false
    }

    fn begin(&mut self, _: Start) -> Vec<Action> {
        vec![Action::expand(ChainTree::ROOT, self.width)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let open = nodes
            .iter()
            .filter(|&&id| tree.node(id).state == State::Open);
        open.map(|&id| Action::expand(id, 1)).collect()
    }
}

struct Row;

impl StrategySpec for Row {
    fn name(&self) -> &'static str {
        "fan"
    }

    fn summary(&self) -> &'static str {
        "as many chains as its own key says"
    }

    fn keys(&self) -> Option<KeysSpec> {
        Some(KeysSpec::of::<FanConfig>())
    }

    fn needs_scorer(&self, _: &SearchConfig) -> Option<&'static str> {
        None
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset {
            name: "wide-fan",
            summary: "eight chains",
            apply: |config| config.keys.set(FanConfig { width: 8 }),
        }]
    }

    fn build(&self, config: &SearchConfig, _: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        let width = config.keys.get::<FanConfig>().width;
        Ok(Box::new(Fan { width }))
    }
}

fn strategies() -> Strategies {
    Strategies::builtin().with(&Row)
}

fn chains(config: &SearchConfig) -> usize {
    let mut generator = ScriptedGenerator::new(random_said);
    let (results, _) = solve(&mut generator, None, config, problems(1));
    results[0].tree.node(ChainTree::ROOT).children.len()
}

#[test]
fn it_is_found_by_name_listed_and_run() {
    let all = strategies();
    let help = all.help();
    for listed in [
        "  fan\n",
        "as many chains as its own key says",
        "  wide-fan\n",
        "  beam\n",
    ] {
        assert!(help.contains(listed), "{help}");
    }
    let error = all.find("fun").unwrap_err().to_string();
    assert!(error.contains("fan") && error.contains("beam"), "{error}");

    let mut config = SearchConfig {
        strategy: all.find("fan").unwrap(),
        ..SearchConfig::default()
    };
    assert_eq!(chains(&config), 2);
    all.find_named("wide-fan").unwrap().apply(&mut config);
    assert_eq!(chains(&config), 8);
}

#[test]
fn it_is_read_and_written_with_its_table() {
    let read = |json: &str| {
        let mut from = serde_json::Deserializer::from_str(json);
        strategies().read_config(&mut from)
    };
    let config = read(r#"{"strategy": "fan", "fan": {"width": 5}, "mcts": {"exploration": 2}}"#);
    let config = config.unwrap();
    assert_eq!(chains(&config), 5);
    assert_eq!(config.keys.get::<MctsConfig>().exploration, 2.0);
    let written = serde_json::to_string(&config).unwrap();
    assert!(written.contains(r#""fan":{"width":5}"#), "{written}");
    assert_eq!(read(&written).unwrap(), config);

    for (json, words) in [
        (
            r#"{"fan": {"depth": 1}}"#,
            "unknown field `depth`, expected `width`",
        ),
        (r#"{"fan": {"width": "x"}}"#, "invalid type"),
        (r#"{"fin": {}}"#, "`fan`"),
    ] {
        let error = read(json).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let bad = read(r#"{"fan": {"width": 0}}"#).unwrap();
    assert_eq!(
        bad.validate(),
        Err(ConfigError::Zero { field: "fan.width" })
    );
    // Who does not know it refuses it by name.
    assert!(serde_json::from_str::<SearchConfig>(&written).is_err());
}
