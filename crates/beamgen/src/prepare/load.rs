//! Reads the weights of all models into the memory of their device.

use std::sync::Arc;

use beamgen_engine::{Compute, DeviceChoice, Engine, IdleKv, Model, ThreadPool};
use beamgen_generator::LmGenerator;
use beamgen_prm::{RewardModel, same_tokenizer};
use beamgen_search::Scorer;

use super::Prepared;
use super::plan::{engine_config, plan};
use super::reward::RewardModels;
use crate::source::OpenedModel;
use crate::{Config, Error};

pub(super) struct LoadedModels {
    pub(super) config: Config,
    pub(super) generator: Option<LmGenerator>,
    pub(super) scorer: Option<Box<dyn Scorer + Send>>,
    /// For each judge, its reward model; `None` if the judge has no weights to load here.
    pub(super) judges: Vec<Option<Box<dyn Scorer + Send>>>,
}

impl Prepared {
    /// Loads all models on the device of the memory plan.
    pub(super) fn load(&self) -> Result<LoadedModels, Error> {
        let pool = ThreadPool::new(self.config.engine.threads);
        let mut config = self.config.clone();
        let compute = &self.memory.compute;
        let mut loaded = match &self.generator.opened {
            Some(opened) => Some(self.load_generator(opened, &pool)?),
            None => None,
        };
        if let Some((generator, _)) = &loaded {
            // The generator has completed its settings with values of the checkpoint.
            config.generator.clone_from(generator.config());
        }
        let load = |reward: &RewardModels, role: &str| -> Result<RewardModel, Error> {
            let place = reward.prm.checkpoint.clone();
            let weights = loaded.as_ref().map(|(_, model)| model);
            let engine = engine_config(&self.memory.plan, &config, role);
            let mut prm = reward.load(&config, compute, engine, weights, pool.clone())?;
            if let Some(generator) = &self.generator.opened {
                prm.share_tokens(same_tokenizer(place, generator.checkpoint.clone())?);
            }
            Ok(prm)
        };
        let reward = self.scorer.reward.as_ref();
        let mut reward = reward.map(|reward| load(reward, "prm")).transpose()?;
        let mut judges = Vec::with_capacity(self.judges.len());
        for judge in &self.judges {
            let model = judge.reward().map(|reward| load(reward, &judge.role()));
            judges.push(model.transpose()?);
        }
        if let (Some(model), Some(found)) = (&mut reward, &self.scorer.calibration)
            && let Some(head) = found.calibration.quantiles.clone()
        {
            model.read_quantiles(Box::new(move |step| {
                head.apply(step.hidden, step.score, step.lowest)
            }));
        }
        if let Some((generator, _)) = loaded.as_mut().filter(|_| self.memory.plan.lends) {
            let borrowers = || reward.iter().chain(judges.iter().flatten());
            if borrowers().next().is_some() {
                let page_bytes = borrowers().map(RewardModel::page_bytes).sum();
                let idle = Arc::new(IdleKv::default());
                generator.lend(Arc::clone(&idle));
                for model in reward.iter_mut().chain(judges.iter_mut().flatten()) {
                    model.borrow_beside(&idle, page_bytes);
                }
            }
        }
        let boxed = |model: RewardModel| Box::new(model) as Box<dyn Scorer + Send>;
        Ok(LoadedModels {
            scorer: reward.map(boxed),
            judges: judges.into_iter().map(|model| model.map(boxed)).collect(),
            generator: loaded.map(|(generator, _)| generator),
            config,
        })
    }

    /// Loads the generator. Also returns its model, whose weights a reward model may share.
    fn load_generator(
        &self,
        opened: &OpenedModel,
        pool: &ThreadPool,
    ) -> Result<(LmGenerator, Arc<Model>), Error> {
        let config = &self.config;
        let model = opened.model(config.models.precision(), &self.memory.compute, pool)?;
        let model = Arc::new(model);
        let engine = engine_config(&self.memory.plan, config, "generator");
        let engine = Engine::with_pool(Arc::clone(&model), engine, pool.clone());
        let engine = engine.map_err(|error| opened.blame(error))?;
        let tokenizer = Arc::clone(&opened.tokenizer);
        let generator = LmGenerator::new(engine, tokenizer, config.generator.clone());
        let generator = generator.map_err(|error| opened.blame(error))?;
        Ok((generator, model))
    }

    /// Returns the result of `load`. If `load` fails on a device that was chosen automatically,
    /// makes a new plan for the CPU, adds a note, and tries again there.
    pub(super) fn or_on_cpu<T>(
        &mut self,
        load: impl Fn(&Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let error = match load(self) {
            Err(error) if self.config.engine.device == DeviceChoice::Auto => error,
            loaded => return loaded,
        };
        // The CPU itself failed, so nothing is left to try.
        if self.memory.compute.is_cpu() {
            return Err(error);
        }
        let note = format!("the cpu computes, not the {}: {error}", self.memory.compute);
        self.memory.compute = Compute::Cpu;
        // The plan is made again, because the CPU has different memory, and its caches can be
        // shared.
        self.memory.plan = plan(&self.config, &Compute::Cpu, &self.opened())?;
        self.notes.push(note);
        load(self)
    }
}
