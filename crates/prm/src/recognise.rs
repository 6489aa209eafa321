//! Finds the family of a reward model by the properties of its checkpoint.

use std::path::{Component, Path};

use beamgen_engine::{Checkpoint, Weights};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// The rules by which a checkpoint is recognised if no format is named. All non-empty rules must
/// hold; a spec without rules recognises nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recognise {
    /// One of these names must be in `architectures` of `config.json`.
    pub architectures: Vec<String>,
    /// One of these names must be the `model_type` of `config.json`.
    pub model_types: Vec<String>,
    /// One of these class names must be in `auto_map` of `config.json`.
    pub auto_map: Vec<String>,
    /// The checkpoint must have all of these tensors.
    pub tensors: Vec<String>,
    /// One of these texts must occur in a name of the checkpoint, in upper or lower case. The names
    /// are that of the folder or file, without the folders above, and the last part of
    /// `_name_or_path`.
    pub names: Vec<String>,
}

/// The properties of a checkpoint that the rules of [`Recognise`] are compared with.
pub(crate) struct Traits<'a> {
    architectures: Vec<String>,
    model_type: String,
    classes: Vec<String>,
    /// The name of the folder or file and that in `_name_or_path`, in lower case.
    name: String,
    weights: &'a Weights,
}

impl<'a> Traits<'a> {
    pub(crate) fn of(checkpoint: &Checkpoint, weights: &'a Weights) -> Result<Self, Error> {
        let text = checkpoint.required_text("config.json")?;
        let config: Value =
            serde_json::from_str(&text).map_err(|source| beamgen_engine::Error::Json {
                path: checkpoint.path_of("config.json"),
                source,
            })?;
        let list = config["architectures"].as_array();
        let map = config["auto_map"].as_object();
        // A line break separates the names, so that no text matches the end of one and the start of
        // the other.
        let name = format!(
            "{}\n{}",
            own_name(checkpoint.path()),
            own_name(Path::new(
                config["_name_or_path"].as_str().unwrap_or_default()
            ))
        );
        Ok(Self {
            architectures: list.into_iter().flatten().filter_map(string).collect(),
            model_type: string(&config["model_type"]).unwrap_or_default(),
            classes: map
                .into_iter()
                .flat_map(|map| map.values())
                // A value is `file.Class`, or a list of such texts.
                .flat_map(|value| match value {
                    Value::Array(all) => all.iter().filter_map(string).collect(),
                    one => string(one).into_iter().collect::<Vec<_>>(),
                })
                .filter_map(|path| path.rsplit('.').next().map(str::to_owned))
                .collect(),
            name: name.to_lowercase(),
            weights,
        })
    }

    pub(crate) fn fit(&self, rules: &Recognise) -> bool {
        // Without this test, a spec without rules would recognise every checkpoint.
        *rules != Recognise::default()
            && holds(&rules.architectures, |a| self.architectures.contains(a))
            && holds(&rules.model_types, |t| self.model_type == *t)
            && holds(&rules.auto_map, |c| self.classes.contains(c))
            && holds(&rules.names, |n| self.name.contains(&n.to_lowercase()))
            && rules.tensors.iter().all(|t| self.weights.contains(t))
    }
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Whether a rule holds: one of its values is found, or it is empty.
fn holds(wanted: &[String], found: impl FnMut(&String) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(found)
}

/// Returns the name that belongs to a checkpoint itself. This is its folder; for a GGUF file the
/// folder and the file; in the hub's cache the repository (`models--ORG--NAME/snapshots/COMMIT`).
/// Folders further up may have any name.
fn own_name(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        })
        .collect();
    let cached = parts
        .windows(2)
        .find(|pair| pair[0].starts_with("models--") && pair[1] == "snapshots");
    let is_file = path
        .extension()
        .is_some_and(|extension| extension == "gguf");
    let own = match cached {
        Some(pair) => &pair[..1],
        None => &parts[parts.len().saturating_sub(1 + usize::from(is_file))..],
    };
    own.join("/")
}

#[cfg(test)]
mod tests {
    use beamgen_engine::Tensor;

    use super::*;

    const CONFIG: &str = r#"{"architectures": ["A", "B"], "model_type": "qwen2",
        "auto_map": {"AutoModel": "modeling.Reward", "AutoTokenizer": ["t.Slow", null]}}"#;

    #[test]
    fn folders_above_a_model_do_not_name_it() {
        for (path, name) in [
            (
                "/home/reasonflux/Qwen2.5-Math-PRM-7B",
                "Qwen2.5-Math-PRM-7B",
            ),
            ("org/name/", "name"),
            ("/m/EurusPRM-Stage2/q8.gguf", "EurusPRM-Stage2/q8.gguf"),
            (
                "/c/models--PRIME-RL--EurusPRM-Stage2/snapshots/0123",
                "models--PRIME-RL--EurusPRM-Stage2",
            ),
            (".", ""),
            ("", ""),
        ] {
            assert_eq!(own_name(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn all_rules_given_must_hold() {
        fn rules(text: &str) -> Recognise {
            toml::from_str(text).unwrap()
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("Some-PRM-7B");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config.json"), CONFIG).unwrap();
        let tensor = Tensor {
            shape: vec![1],
            data: vec![0.0],
        };
        let weights = Weights::from_tensors([("v.weight".to_owned(), tensor)]).unwrap();
        let traits = Traits::of(&folder.as_path().into(), &weights).unwrap();
        for held in [
            "architectures = ['X', 'B']",
            "model_types = ['qwen2']",
            "auto_map = ['Reward']",
            "auto_map = ['Slow']",
            "tensors = ['v.weight']",
            "names = ['some-prm']",
            "architectures = ['A']\nnames = ['PRM']",
        ] {
            assert!(traits.fit(&rules(held)), "{held}");
        }
        for broken in [
            "",
            "architectures = ['X']",
            "model_types = ['llama']",
            "auto_map = ['modeling']",
            "tensors = ['v.weight', 'v.bias']",
            "architectures = ['A']\nnames = ['shepherd']",
        ] {
            assert!(!traits.fit(&rules(broken)), "{broken}");
        }
    }
}
