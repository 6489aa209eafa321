//! Finds the files of a model by name, on this machine or on a hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    ChatTemplate, Checkpoint, Compute, Model, ModelConfig, Precision, ThreadPool, Tokenizer,
    Weights,
};
use beamgen_hub::{Fetched, Hub, HubError, ModelId, Progress};
use beamgen_prm::UnloadedModel;

use crate::bundled::Bundled;
use crate::{Error, fingerprint};

/// A hub, and a callback for the progress of downloads from it.
pub(crate) struct Downloads {
    pub(crate) hub: Hub,
    pub(crate) observe: Observe,
}

/// A callback that gets the model's name and the progress of its download.
pub(crate) type Observe = Box<dyn FnMut(&str, Progress)>;

/// The location of a model's files.
pub(crate) enum Source {
    Bundled(Bundled),
    /// A folder or a GGUF file on this machine.
    Local {
        path: PathBuf,
        /// The folder of an adapter's base, if the base is from a hub.
        base: Option<PathBuf>,
        /// The model whose tokenizer is used, if it is another one.
        tokenizer: Option<PathBuf>,
    },
}

/// Finds models by their names.
#[derive(Default)]
pub(crate) struct Finder {
    /// The hub; `None` to find only models on this machine.
    pub(crate) downloads: Option<Downloads>,
    /// Notes for the user, a line each.
    pub(crate) notes: Vec<String>,
}

impl Finder {
    /// Finds a model: bundled if `name` is `None`, or else a path on this machine, or else a name
    /// on the hub. Its tokenizer is that of the model `tokenizer`, if that is given. May add notes.
    pub(crate) fn find(
        &mut self,
        name: Option<&Path>,
        tokenizer: Option<&Path>,
        bundled: Bundled,
    ) -> Result<Source, Error> {
        match (name, tokenizer) {
            (None, None) => Ok(Source::Bundled(bundled)),
            (None, Some(tokenizer)) => Err(Error::TokenizerOfBundled(tokenizer.to_owned())),
            (Some(name), None) => self.named(name, Hub::fetch),
            (Some(name), Some(other)) => {
                let found = self.path_of(other, Hub::fetch_tokenizer)?;
                let mut source = self.named(name, Hub::fetch_without_tokenizer)?;
                if let Source::Local { tokenizer, .. } = &mut source {
                    *tokenizer = Some(found);
                }
                Ok(source)
            }
        }
    }

    /// Finds a model's files except its weights, by the rules of [`find`](Self::find).
    #[cfg(feature = "remote")]
    pub(crate) fn tokenizer(&mut self, name: &Path) -> Result<Source, Error> {
        self.named(name, Hub::fetch_tokenizer)
    }

    /// Finds a model, and the base of an adapter.
    fn named(&mut self, name: &Path, fetch: impl Fetch + Copy) -> Result<Source, Error> {
        let path = self.path_of(name, fetch)?;
        let checkpoint = Checkpoint::from(&path);
        let base = if is_here(&path) {
            None
        } else {
            checkpoint.base_name()?
        };
        let base = base.map(|(name, revision)| {
            let revision = revision.map_or_else(String::new, |revision| format!("@{revision}"));
            self.path_of(Path::new(&format!("{name}{revision}")), fetch)
        });
        let base = base.transpose()?;
        Ok(Source::Local {
            path,
            base,
            tokenizer: None,
        })
    }

    fn path_of(&mut self, name: &Path, fetch: impl Fetch) -> Result<PathBuf, Error> {
        // A local path wins over a model of the same name on the hub. transformers has the same
        // rule.
        if name.exists() {
            let extension = name.extension();
            let is_gguf = extension.is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
            return if is_gguf || name.is_dir() {
                Ok(name.to_owned())
            } else {
                Err(Error::NotAModel(name.to_owned()))
            };
        }
        let hub = self.downloads.as_ref().map(|downloads| &downloads.hub);
        let id = name.to_str().and_then(|name| hub_id(name, hub).transpose());
        match (id.transpose()?, &mut self.downloads) {
            (Some(id), Some(Downloads { hub, observe })) => {
                let name = id.to_string();
                let fetched = fetch(hub, &id, &mut |progress| observe(&name, progress))?;
                self.notes.extend(fetched.note);
                Ok(fetched.path)
            }
            (id, _) => Err(Error::NoModel {
                name: name.to_owned(),
                hub: id.is_some(),
            }),
        }
    }
}

/// Whether a model, and the base of an adapter, are on this machine.
pub(crate) fn is_here(name: &Path) -> bool {
    let checkpoint = Checkpoint::from(name);
    name.exists() && (!checkpoint.is_adapter() || checkpoint.base_path().is_some())
}

/// Fetches files of a model from a hub.
trait Fetch: Fn(&Hub, &ModelId, &mut dyn FnMut(Progress)) -> Result<Fetched, HubError> {}

impl<F> Fetch for F where
    F: Fn(&Hub, &ModelId, &mut dyn FnMut(Progress)) -> Result<Fetched, HubError>
{
}

impl Source {
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        match self {
            Self::Bundled(bundled) => bundled.checkpoint(),
            Self::Local {
                path,
                base,
                tokenizer,
            } => {
                let mut checkpoint = Checkpoint::from(path);
                if let Some(base) = base {
                    checkpoint = checkpoint.with_base(base.into());
                }
                match tokenizer {
                    Some(tokenizer) => checkpoint.with_tokenizer(tokenizer.into()),
                    None => checkpoint,
                }
            }
        }
    }

    pub(crate) fn is_bundled(&self) -> bool {
        matches!(self, Self::Bundled(_))
    }

    pub(crate) fn fingerprint(&self) -> Result<String, Error> {
        match self {
            Self::Bundled(bundled) => Ok(fingerprint::of_files(bundled.files.iter().copied())),
            Self::Local { path, .. } => {
                let of = |path| fingerprint::of_path(path).map_err(Error::unreadable(path));
                let checkpoint = self.checkpoint();
                let others = [checkpoint.base_path(), checkpoint.tokenizer_path()];
                others
                    .into_iter()
                    .flatten()
                    .try_fold(of(path)?, |all, path| {
                        Ok(fingerprint::of_both(&all, &of(path)?))
                    })
            }
        }
    }
}

/// Parses the name of a model on a hub; `None` if the name looks like a path. A GGUF file in a
/// hub's repository is named after a colon. A web address that is not a model's page is an error.
fn hub_id(name: &str, hub: Option<&Hub>) -> Result<Option<ModelId>, HubError> {
    let id = match hub {
        Some(hub) => hub.model(name),
        None => name.parse(),
    };
    match id {
        // `folder/model.gguf` has the form ORG/NAME, but means a file.
        Ok(id) if id.repo().to_ascii_lowercase().ends_with(".gguf") => Ok(None),
        Err(error) if name.contains("://") => Err(error),
        id => Ok(id.ok()),
    }
}

/// A model whose files exist and are consistent. Its weights are not read yet.
pub(crate) struct OpenedModel {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) config: ModelConfig,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) weights: Weights,
    pub(crate) fingerprint: String,
    pub(crate) bundled: bool,
}

impl OpenedModel {
    pub(crate) fn open(source: &Source) -> Result<Self, Error> {
        let checkpoint = source.checkpoint();
        let open = || {
            let (config, weights) = ModelConfig::load_with_weights(checkpoint.clone())?;
            let tokenizer = Tokenizer::load(checkpoint.clone())?;
            tokenizer.check(&config)?;
            let template = ChatTemplate::of(&tokenizer)?;
            // The template is tried on a tiny problem, so that a faulty template is reported before
            // the run.
            if let Err(error) = template.prompt(None, "1 + 1 = ?")
                && error.exceeds_limits
            {
                return Err(error.into());
            }
            Ok((config, Arc::new(tokenizer), weights))
        };
        let (config, tokenizer, weights) = open()
            .map_err(|error: beamgen_engine::Error| Error::from(error).at(path(&checkpoint)))?;
        Ok(Self {
            config,
            tokenizer,
            weights,
            fingerprint: source.fingerprint()?,
            bundled: source.is_bundled(),
            checkpoint,
        })
    }

    /// Removes the language-model head, which a reward model does not use: a gigabyte in a 7B
    /// model.
    pub(crate) fn drop_head(&mut self) {
        // A tied head is the same matrix as the embedding, which is needed.
        if !self.config.tie_word_embeddings && self.weights.remove("lm_head.weight") {
            self.config.causal_lm = false;
        }
    }

    /// Adds the model's path to an error, unless the error names the path already.
    pub(crate) fn blame(&self, error: impl Into<Error>) -> Error {
        error.into().at(path(&self.checkpoint))
    }

    /// Returns the parts of the model by which the format of a reward model is recognised.
    pub(crate) fn unloaded(&self) -> UnloadedModel<'_> {
        UnloadedModel {
            checkpoint: &self.checkpoint,
            config: &self.config,
            tokenizer: &self.tokenizer,
            weights: &self.weights,
        }
    }

    /// Reads the weights and builds the model on a device.
    pub(crate) fn model(
        &self,
        precision: Precision,
        compute: &Compute,
        pool: &ThreadPool,
    ) -> Result<Model, Error> {
        let (config, weights) = (self.config.clone(), &self.weights);
        Model::on(compute, config, weights, precision, pool).map_err(|error| self.blame(error))
    }

    /// Whether both models have the same shape and weights, so that one copy in memory serves both.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        // The head does not matter: a reward model without its head has the generator's decoder.
        let alike = |config: &ModelConfig| ModelConfig {
            causal_lm: true,
            ..config.clone()
        };
        alike(&self.config) == alike(&other.config) && self.weights.same_decoder(&other.weights)
    }
}

fn path(checkpoint: &Checkpoint) -> String {
    checkpoint.path().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_hub_and_paths() {
        for id in [
            "org/name",
            "org/name@v1",
            "org/name@refs/pr/1",
            "org/name:f.gguf",
            "org/name-GGUF:folder/f.gguf",
            "org/name-GGUF:Q4_K_M",
            "hf.co/org/name-GGUF:Q4_K_M",
            "https://huggingface.co/org/name/tree/v1",
        ] {
            assert!(hub_id(id, None).is_ok_and(|id| id.is_some()), "{id}");
        }
        for path in [
            "./org/name",
            "/org/name",
            "../name",
            "a/b/c",
            "name",
            "~/name",
            "org/name/",
            "folder/missing.gguf",
        ] {
            assert!(hub_id(path, None).is_ok_and(|id| id.is_none()), "{path}");
        }
        for address in ["https://huggingface.co/datasets/a/b", "s3://bucket/a/b"] {
            hub_id(address, None).expect_err(address);
        }
    }
}
