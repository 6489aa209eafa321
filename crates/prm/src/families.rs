//! The bundled families of reward models, and the choice of a family for a checkpoint.

use std::path::Path;

use beamgen_engine::{Checkpoint, Weights};
use serde::Deserialize;

use crate::error::Error;
use crate::recognise::Traits;
use crate::spec::{HeadSpec, LayerSpec, PrmSpec};

macro_rules! families {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../families/", $name, ".toml")))),*]
    };
}

/// The names and TOML texts of the families. A checkpoint belongs to the first family that
/// recognises it. `step-token` must be at index 0, since `from_json` changes that family.
const FAMILIES: [(&str, &str); 12] = families![
    "step-token",
    "reasonflux-prm-7b",
    "qwen2.5-math-prm",
    "skywork-o1-open-prm",
    "math-shepherd",
    "rlhflow-llama3.1",
    "trl-token-classification-blank-line",
    "trl-token-classification",
    "implicit-prm",
    "chat-judge",
    "genprm-direct",
    "specreason",
];

/// The files of a checkpoint that may contain its spec; `prm.toml` comes first.
const TOML: &str = "prm.toml";
const JSON: &str = "prm.json";

impl PrmSpec {
    /// Iterates over the names of the families, in the order in which they are tried.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().map(|(name, _)| *name)
    }

    /// Returns the family with this name; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (name, text) = FAMILIES.iter().find(|family| family.0 == name)?;
        // The text of a family cannot fail: a test parses all of them.
        Self::from_toml(text, name).ok()
    }

    /// Returns the family with this name; if there is none, reads the file at this path
    /// ([`from_file`](Self::from_file)).
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] if there is neither a family nor a file, or an error of the file.
    pub fn choose(name_or_path: &str) -> Result<Self, Error> {
        if let Some(spec) = Self::named(name_or_path) {
            return Ok(spec);
        }
        let path = Path::new(name_or_path);
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            || path.is_file()
        {
            // If a path that ends in .toml does not exist, the error is about the file and not
            // about a name.
            return Self::from_file(path);
        }
        Err(Error::UnknownFormat {
            name: name_or_path.to_owned(),
            known: known(),
        })
    }

    /// Returns the spec of a checkpoint: its `prm.toml`, its `prm.json`, or the first family that
    /// recognises its `config.json`, tensors and name.
    ///
    /// # Errors
    /// [`Error::NotRecognised`], or an error of a file.
    pub fn of(checkpoint: &Checkpoint, weights: &Weights) -> Result<Self, Error> {
        if let Some(text) = checkpoint.text(TOML)? {
            return Self::from_toml(&text, &checkpoint.path_of(TOML).display().to_string());
        }
        if let Some(text) = checkpoint.text(JSON)? {
            return Self::from_json(&text, &checkpoint.path_of(JSON));
        }
        let traits = Traits::of(checkpoint, weights)?;
        FAMILIES
            .iter()
            .filter_map(|(name, _)| Self::named(name))
            .find(|spec| traits.fit(&spec.recognise))
            .ok_or_else(|| Error::NotRecognised {
                model: checkpoint.path().to_owned(),
                known: known(),
            })
    }

    /// Reads a `prm.json`, which `beamgen train` writes. It is the family `step-token` with the
    /// step token and the tensors of this model.
    pub(crate) fn from_json(text: &str, path: &Path) -> Result<Self, Error> {
        let exported: Exported = serde_json::from_str(text).map_err(|error| Error::SpecFile {
            path: path.to_owned(),
            line: error.line(),
            reason: error.to_string(),
        })?;
        let Format::StepToken = exported.format;
        let ExportedHead::LinearSigmoid = exported.head;
        let (name, family) = FAMILIES[0];
        let mut spec = Self::from_toml(family, name)?;
        spec.name = path.display().to_string();
        spec.step.separator = Some(exported.step_token.clone());
        spec.step.tag = Some(exported.step_token);
        spec.head = HeadSpec::Linear(vec![LayerSpec {
            weight: exported.weight,
            bias: exported.bias,
        }]);
        Ok(spec)
    }
}

fn known() -> String {
    PrmSpec::names().collect::<Vec<_>>().join(", ")
}

/// The contents of `prm.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exported {
    format: Format,
    step_token: String,
    head: ExportedHead,
    weight: String,
    #[serde(default)]
    bias: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    StepToken,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExportedHead {
    LinearSigmoid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_a_spec() {
        for (name, text) in FAMILIES {
            let spec = PrmSpec::from_toml(text, name).unwrap_or_else(|e| panic!("{e}"));
            let written = spec.to_toml().unwrap();
            let again = PrmSpec::from_toml(&written, name).unwrap_or_else(|e| panic!("{e}"));
            let recognised = spec.recognise.clone();
            assert_eq!(
                PrmSpec {
                    recognise: recognised,
                    ..again
                },
                spec
            );
            assert_eq!(PrmSpec::named(name), Some(spec));
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/families");
        let files = std::fs::read_dir(folder).unwrap().filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension()
                .is_some_and(|extension| extension == "toml")
        });
        assert_eq!(files.count(), FAMILIES.len());
    }

    #[test]
    fn a_format_is_a_name_or_a_file() {
        assert_eq!(
            PrmSpec::choose("math-shepherd").unwrap().name,
            "math-shepherd"
        );
        let error = PrmSpec::choose("shepherd").unwrap_err().to_string();
        assert!(error.contains("math-shepherd"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let name = path.display().to_string();
        let error = PrmSpec::choose(&name).unwrap_err().to_string();
        assert!(error.contains("mine.toml"), "{error}");
        std::fs::write(&path, FAMILIES[2].1).unwrap();
        let spec = PrmSpec::choose(&name).unwrap();
        assert_eq!(spec.head, PrmSpec::named(FAMILIES[2].0).unwrap().head);
        let path = dir.path().join("mine.json");
        let text = r#"{"format": "step-token", "step_token": "x", "head": "linear-sigmoid", "weight": "v"}"#;
        std::fs::write(&path, text).unwrap();
        let spec = PrmSpec::choose(&path.display().to_string()).unwrap();
        assert_eq!(spec.step.tag.as_deref(), Some("x"));
        std::fs::write(&path, "[step]\n").unwrap();
        let error = PrmSpec::choose(&path.display().to_string()).unwrap_err();
        assert!(error.to_string().contains("mine.json:1"), "{error}");
    }

    #[test]
    fn prm_json_is_the_step_token_family() {
        let text = r#"{"format": "step-token", "step_token": "\n\n", "head": "linear-sigmoid",
            "weight": "v.weight"}"#;
        let spec = PrmSpec::from_json(text, Path::new("m/prm.json")).unwrap();
        assert_eq!(spec.step.tag.as_deref(), Some("\n\n"));
        assert!(spec.step.share_tokens);
        let layer = LayerSpec {
            weight: "v.weight".into(),
            bias: None,
        };
        assert_eq!(spec.head, HeadSpec::Linear(vec![layer]));
        for (from, to) in [
            ("\"weight\"", "\"weights\""),
            ("step-token", "step-tag"),
            ("linear-sigmoid", "softmax"),
        ] {
            let error = PrmSpec::from_json(&text.replace(from, to), Path::new("m/prm.json"));
            assert!(error.unwrap_err().to_string().starts_with("m/prm.json:"));
        }
    }
}
