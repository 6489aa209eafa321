//! Where models come from, and loading them.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Checkpoint, Engine, Model, ThreadPool, Tokenizer};
use beamgen_generator::LmGenerator;
use beamgen_prm::{Renderer, RewardModel, same_tokenizer};

use crate::bundled::Bundled;
use crate::{Config, Error, fingerprint};

/// Where a model comes from.
pub(crate) enum Source<'a> {
    Directory(&'a Path),
    Bundled(Bundled),
}

impl<'a> Source<'a> {
    pub(crate) fn new(dir: Option<&'a Path>, bundled: Bundled) -> Self {
        dir.map_or(Self::Bundled(bundled), Self::Directory)
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        match self {
            Self::Directory(dir) => Checkpoint::from(*dir),
            Self::Bundled(bundled) => bundled.checkpoint(),
        }
    }

    pub(crate) fn path(&self) -> String {
        self.checkpoint().path().display().to_string()
    }

    pub(crate) fn fingerprint(&self) -> Result<String, Error> {
        match self {
            Self::Bundled(bundled) => Ok(fingerprint::of_files(bundled.files.iter().copied())),
            Self::Directory(dir) => {
                fingerprint::of_dir(dir).map_err(|source| Error::NoCheckpoint {
                    path: dir.to_path_buf(),
                    source,
                })
            }
        }
    }

    pub(crate) fn load_generator(
        &self,
        config: &Config,
        pool: ThreadPool,
    ) -> Result<LmGenerator, Error> {
        let checkpoint = self.checkpoint();
        let model = Arc::new(Model::load(checkpoint.clone())?);
        let tokenizer = Arc::new(Tokenizer::load(checkpoint)?);
        let engine = Engine::with_pool(model, config.engine.clone(), pool)?;
        Ok(LmGenerator::new(
            engine,
            tokenizer,
            config.generator.clone(),
        )?)
    }

    pub(crate) fn load_scorer(
        &self,
        config: &Config,
        pool: ThreadPool,
        generator: Option<&Source<'_>>,
    ) -> Result<RewardModel, Error> {
        let checkpoint = self.checkpoint();
        let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone())?);
        let template = ChatTemplate::of(&tokenizer)?;
        let writes_special_tokens = template.writes_special_tokens();
        let renderer = Renderer::new(
            move |problem| template.prompt(None, problem),
            writes_special_tokens,
        );
        let shared = match generator {
            Some(generator) => same_tokenizer(checkpoint.clone(), generator.checkpoint())?,
            None => false,
        };
        let mut model =
            RewardModel::load(checkpoint, config.engine.clone(), pool, tokenizer, renderer)?;
        model.share_tokens(shared);
        Ok(model)
    }
}
