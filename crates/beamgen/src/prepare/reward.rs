//! Finds, recognises, checks and loads the reward model.

use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Compute, EngineConfig, TextLimit, ThreadPool};
use beamgen_prm::{Body, HeadSpec, PrmSpec, RewardModel};
use serde_json::{Map, Value};

use crate::bundled::{self, Bundled};
use crate::config::ScorerKind;
use crate::own::format_identity;
use crate::source::{Finder, OpenedModel, Source};
use crate::{Config, Error};

/// A reward model. Implicit reward models also have a reference model.
pub(super) struct RewardModels {
    pub(super) prm: OpenedModel,
    pub(super) spec: PrmSpec,
    pub(super) reference: Option<OpenedModel>,
    /// Whether the reward model is the generator's own model, so that both share one copy of the
    /// weights.
    pub(super) prm_shares: bool,
    pub(super) reference_shares: bool,
}

impl RewardModels {
    /// Finds the reward model that the settings name.
    pub(super) fn find(config: &Config, finder: &mut Finder) -> Result<Source, Error> {
        let bundled = bundled(config)?;
        let models = &config.models;
        let (name, tokenizer) = (models.prm.as_deref(), models.prm_tokenizer.as_deref());
        finder.find(name, tokenizer, bundled)
    }

    pub(super) fn open(
        source: &Source,
        config: &Config,
        generator: Option<&OpenedModel>,
        finder: &mut Finder,
    ) -> Result<Self, Error> {
        let models = &config.models;
        let mut prm = OpenedModel::open(source)?;
        let format = models.prm_format.as_deref().filter(|name| *name != "auto");
        let spec = match format {
            None => PrmSpec::of(&prm.checkpoint, &prm.weights),
            Some(format) => PrmSpec::choose(format),
        };
        let mut spec = spec.map_err(|error| prm.blame(error))?;
        // A wrong format gives wrong scores without an error, so the user should see which one was
        // recognised.
        if format.is_none() && !prm.bundled {
            let (prm, format) = (prm.checkpoint.path().display(), &spec.name);
            finder
                .notes
                .push(format!("{prm} is read as {format} (prm_format)"));
        }
        if spec.prompt.text.is_none() && spec.prompt.date.is_none() {
            // A template that writes today's date changes the prompt each day, so the date is part
            // of the run's identity.
            let template = ChatTemplate::of(&prm.tokenizer).map_err(|error| prm.blame(error))?;
            let today = template.date();
            spec.prompt.date = today.map(|today| config.generator.date.clone().unwrap_or(today));
        }
        // The head must stay until the format is recognised by it, and must go before memory is
        // planned.
        if matches!(spec.head, HeadSpec::Linear(_)) {
            prm.drop_head();
        }
        let reference = match (&spec.head, models.prm_reference.as_deref()) {
            (HeadSpec::LogRatio(_), None) => {
                return Err(Error::NoReference {
                    prm: prm.checkpoint.path().to_owned(),
                    format: spec.name,
                });
            }
            (HeadSpec::LogRatio(_), Some(name)) => {
                let tokenizer = models.prm_tokenizer.as_deref();
                let source = finder.find(Some(name), tokenizer, bundled(config)?)?;
                Some(OpenedModel::open(&source)?)
            }
            (_, None) => None,
            (_, Some(name)) => {
                return Err(Error::UselessReference {
                    reference: name.to_owned(),
                    format: spec.name,
                });
            }
        };
        spec.check_fit(
            prm.unloaded(),
            reference.as_ref().map(OpenedModel::unloaded),
        )
        .map_err(|error| prm.blame(error))?;
        let shares =
            |model: &OpenedModel| generator.is_some_and(|generator| model.same_as(generator));
        let prm_shares = shares(&prm);
        let reference_shares = reference.as_ref().is_some_and(shares);
        for (shares, role) in [(prm_shares, "prm"), (reference_shares, "reference")] {
            if shares {
                finder.notes.push(format!(
                    "generator and {role} have the same weights: they are in memory once"
                ));
            }
        }
        if config.search.early_rejection > 0 && !spec.partial {
            finder.notes.push(format!(
                "warning: {} was not trained on beginnings of steps, so early rejection may drop right ones: \
                 see `beamgen eval-prm --partial`, and train it further with `beamgen train prm --partial`",
                prm.checkpoint.path().display()
            ));
        }
        Ok(Self {
            prm,
            spec,
            reference,
            prm_shares,
            reference_shares,
        })
    }

    pub(super) fn models(&self) -> impl Iterator<Item = &OpenedModel> {
        std::iter::once(&self.prm).chain(&self.reference)
    }

    /// Returns the longest text that fits into the contexts of both the reward model and its
    /// reference.
    pub(super) fn text_limit(&self) -> TextLimit {
        // Both models read the same text, so the shorter context is the limit.
        let context = self
            .models()
            .map(|m| m.config.max_position_embeddings)
            .min();
        TextLimit::new(Arc::clone(&self.prm.tokenizer), context.unwrap_or(0))
    }

    /// Adds the facts that the scores depend on to the run's identity.
    pub(super) fn identify(&self, models: &mut Map<String, Value>) {
        models.insert("prm".into(), self.prm.fingerprint.clone().into());
        if let Some(reference) = &self.reference {
            models.insert("reference".into(), reference.fingerprint.clone().into());
        }
        format_identity(&self.spec, models);
    }

    pub(super) fn load(
        &self,
        config: &Config,
        compute: &Compute,
        engine: EngineConfig,
        generator: Option<&Arc<beamgen_engine::Model>>,
        pool: ThreadPool,
    ) -> Result<RewardModel, Error> {
        let body = |model: &OpenedModel, shares: bool| -> Result<Body, Error> {
            let checkpoint = model.checkpoint.clone();
            let model = match generator.filter(|_| shares) {
                Some(generator) => Arc::clone(generator),
                None => Arc::new(model.model(config.models.precision(), compute, &pool)?),
            };
            Ok(Body {
                checkpoint,
                model: Some(model),
            })
        };
        let prm = body(&self.prm, self.prm_shares)?;
        let reference = self.reference.as_ref();
        let reference = reference.map(|r| body(r, self.reference_shares));
        let spec = Some(self.spec.clone());
        RewardModel::load(prm, spec, reference.transpose()?, engine, pool)
            .map_err(|error| self.prm.blame(error))
    }
}

/// Returns the bundled model to use if the settings name no reward model.
fn bundled(config: &Config) -> Result<Bundled, Error> {
    match config.models.scorer {
        ScorerKind::Prm => Ok(bundled::PRM),
        ScorerKind::Orm => Ok(bundled::ORM),
        ScorerKind::Exact | ScorerKind::None => Err(Error::NoScorer),
    }
}
