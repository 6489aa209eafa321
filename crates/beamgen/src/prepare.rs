//! From settings to models: everything that can be wrong is found, and what is needed is known,
//! before any weight is read.

pub(crate) mod calibration;
mod judges;
pub(crate) mod plan;
mod reward;

use std::cell::RefCell;
use std::sync::Arc;

use beamgen_engine::{
    Checkpoint, Compute, DeviceChoice, Engine, EngineConfig, IdleKv, KvType, ThreadPool, WeightType,
};
use beamgen_generator::{LmGenerator, Prompts};
use beamgen_prm::{QuantileReader, RewardModel, same_tokenizer};
use beamgen_search::{GenError, Judge, Judges, Problem, Scorer};
use serde_json::{Map, Value};

use self::calibration::Found;
use self::judges::{Finding, PreparedJudge};
use self::plan::{device_choice, engine_config, on_device, plan, unpacked};
use self::reward::RewardModels;
use crate::calibrated::Calibrated;
use crate::candle::{CandleClassifier, CandleGenerator};
use crate::long_texts::TextLimits;
use crate::memory::MemoryPlan;
use crate::own::{Identity, OwnParts};
use crate::served::Served;
use crate::source::{Downloads, OpenedModel, Source};
use crate::{Config, Error, ScorerKind, Solver, bundled, candle};

/// Models that were found and fit, with what they will need.
pub struct Prepared {
    config: Config,
    compute: Compute,
    generator: Option<OpenedModel>,
    prompts: Option<Prompts>,
    reward: Option<RewardModels>,
    judges: Vec<PreparedJudge>,
    calibration: Option<Found>,
    /// Is called with the hidden state of each step that the reward model alone scores.
    observer: RefCell<Option<QuantileReader>>,
    own: OwnParts,
    candle: Option<CandleGenerator>,
    classifier: Option<CandleClassifier>,
    plan: MemoryPlan,
    notes: Vec<String>,
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "there are none"))]
    served: Served,
}

/// A generator that was loaded.
struct Loaded {
    generator: LmGenerator,
    model: Arc<beamgen_engine::Model>,
    checkpoint: Checkpoint,
}

/// All models, loaded.
struct LoadedModels {
    config: Config,
    generator: Option<LmGenerator>,
    scorer: Option<Box<dyn Scorer + Send>>,
    /// By judge: its reward model, if it is one.
    judges: Vec<Option<Box<dyn Scorer + Send>>>,
}

impl Loaded {
    fn new(
        opened: &OpenedModel,
        config: &Config,
        compute: &Compute,
        engine: EngineConfig,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        let checkpoint = opened.checkpoint.clone();
        let place = checkpoint.path().display().to_string();
        let tokenizer = Arc::clone(&opened.tokenizer);
        let model = Arc::new(opened.model(config.models.dtype, compute, pool)?);
        let load = || -> Result<LmGenerator, Error> {
            let engine = Engine::with_pool(Arc::clone(&model), engine, pool.clone())?;
            Ok(LmGenerator::new(
                engine,
                tokenizer,
                config.generator.clone(),
            )?)
        };
        let generator = load().map_err(|error| error.at(place))?;
        Ok(Self {
            generator,
            model,
            checkpoint,
        })
    }
}

/// Which models are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Pair,
    RewardModel,
}

impl Prepared {
    pub(crate) fn new(
        config: Config,
        wanted: Wanted,
        mut own: OwnParts,
        mut downloads: Option<Downloads>,
    ) -> Result<Self, Error> {
        config.check_beside(!own.judges.is_empty())?;
        let mut config = config.resolved();
        let mut notes = Vec::new();
        let mut served = Served::open(&config)?;
        let written = match wanted {
            Wanted::RewardModel => None,
            Wanted::Pair => served.generator(&mut config, &mut own, &mut downloads, &mut notes)?,
        };
        let (mut candle, mut prompts, mut tokens_of) = (None, None, None);
        let generator = match wanted {
            Wanted::RewardModel => None,
            Wanted::Pair if own.generator.is_some() => None,
            Wanted::Pair => {
                let name = config.models.generator.as_deref();
                let source = Source::find(name, bundled::GENERATOR, &mut downloads, &mut notes)?;
                let checkpoint = source.checkpoint();
                match candle::generator(&checkpoint) {
                    None => Some(OpenedModel::open(&source)?),
                    Some(family) => {
                        let (config, notes) = (&mut config, &mut notes);
                        let opened =
                            CandleGenerator::open(&source, &checkpoint, family, config, notes)?;
                        prompts = Some(opened.prompts()?);
                        tokens_of = Some(checkpoint);
                        candle = Some(opened);
                        None
                    }
                }
            }
        };
        if let Some(generator) = &generator {
            prompts = Some(prompts_of(generator, &config)?);
            tokens_of = Some(generator.checkpoint.clone());
        }
        if let Some((written, checkpoint)) = written {
            (prompts, tokens_of) = (Some(written), Some(checkpoint));
        }
        let has_judges = !config.models.judges.is_empty()
            || !config.checkers.is_empty()
            || !own.judges.is_empty();
        let has_kind = config.models.scorer != ScorerKind::None;
        let asks = own.load_scorer || config.search.uses_scores();
        let judged = wanted == Wanted::Pair && has_judges && asks;
        let scores = wanted == Wanted::RewardModel || (has_kind && asks);
        if scores {
            let (generator, downloads) = (tokens_of.as_ref(), &mut downloads);
            let scorer = served.scorer("prm", &config, generator, &own, downloads, &mut notes)?;
            own.scorer = scorer.or(own.scorer);
        }
        own.scorer.take_if(|_| !scores);
        let (mut reward, mut classifier, mut found_at) = (None, None, None);
        if scores && own.scorer.is_none() {
            let (downloads, notes) = (&mut downloads, &mut notes);
            let source = RewardModels::find(&config, downloads, notes)?;
            let checkpoint = source.checkpoint();
            if let Some(family) = candle::classifier(&checkpoint) {
                let opened = CandleClassifier::open(&source, &checkpoint, family, &config, notes)?;
                classifier = Some(opened);
            } else {
                let generator = generator.as_ref();
                let opened = RewardModels::open(&source, &config, generator, downloads, notes)?;
                reward = Some(opened);
            }
            found_at = Some(source);
        }
        let calibration = match scores && wanted == Wanted::Pair {
            true => calibration::find(&config, found_at.as_ref())?,
            false => None,
        };
        if let Some(found) = &calibration {
            found.check(config.models.score_as, reward.as_ref())?;
        }
        let finding = Finding {
            config: &config,
            served: &mut served,
            generator: generator.as_ref(),
            tokens_of: tokens_of.as_ref(),
            downloads: &mut downloads,
            notes: &mut notes,
        };
        let judges = match judged {
            true => {
                let name = scorer_name(&config, &own, scores).map(str::to_owned);
                finding.judges(name, &mut own)?
            }
            false => Vec::new(),
        };
        let plan = |compute: &Compute| {
            plan(
                &config,
                compute,
                generator.as_ref(),
                reward.as_ref(),
                &judges,
            )
        };
        let opened = || {
            let rewards = reward.iter().flat_map(RewardModels::models);
            let judges = judges.iter().flat_map(PreparedJudge::models);
            generator.iter().chain(rewards).chain(judges)
        };
        let bundled = opened().all(|model| model.bundled);
        let choice = device_choice(&config, bundled);
        let (compute, plan) = on_device(choice, &mut notes, plan)?;
        if !compute.is_cpu() && config.models.dtype == WeightType::Auto {
            let unpacked = opened().filter(|m| m.weights.has_blocks());
            notes.extend(unpacked.map(|model| {
                let path = model.checkpoint.path().display();
                format!("{path}: unpacked to float32 on a CUDA device; dtype bf16 takes half of that and is faster")
            }));
        }
        if compute.is_cpu() && config.models.dtype == WeightType::Auto {
            for model in opened() {
                notes.extend(unpacked(model, &config, &compute)?);
            }
        }
        Ok(Self {
            config,
            compute,
            generator,
            prompts,
            reward,
            judges,
            calibration,
            observer: RefCell::new(None),
            own,
            candle,
            classifier,
            plan,
            notes,
            served,
        })
    }

    /// What the models will need.
    pub fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Notes for the user so far, a line each.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.compute.note()).collect()
    }

    /// Whether the generator takes a problem; any is taken where there is none.
    ///
    /// # Errors
    /// The problem does not fit the context, or the template or the tokenizer refuses it.
    pub fn check(&self, problem: &Problem) -> Result<(), GenError> {
        match &self.prompts {
            Some(prompts) => prompts.prompt(&problem.text).map(drop),
            None => Ok(()),
        }
    }

    /// Whether the generator comes with a chat template; without one the problem's text is the
    /// prompt.
    pub fn has_chat_template(&self) -> bool {
        self.prompts
            .as_ref()
            .is_some_and(Prompts::has_chat_template)
    }

    /// Whether all models are those that every build carries.
    pub fn is_bundled(&self) -> bool {
        let only_these =
            self.own.generator.is_none() && self.candle.is_none() && self.classifier.is_none();
        only_these && self.opened().all(|model| model.bundled)
    }

    /// Whether one of the models is bundled: it knows the problems of [the bundled
    /// world](crate::bundled) only.
    pub fn has_bundled(&self) -> bool {
        self.opened().any(|model| model.bundled)
    }

    /// The models of this process's own engine.
    fn opened(&self) -> impl Iterator<Item = &OpenedModel> {
        let rewards = self.reward.iter().flat_map(RewardModels::models);
        let judges = self.judges.iter().flat_map(PreparedJudge::models);
        self.generator.iter().chain(rewards).chain(judges)
    }

    /// Loads generator and reward model.
    ///
    /// # Errors
    /// What is at fault: file, field or tensor.
    pub fn solver(mut self) -> Result<Solver, Error> {
        if let Some(candle) = self.candle.take() {
            self.own.generator = Some(candle.load(&self.plan)?);
        }
        self.load_classifier()?;
        if self.generator.is_none() && self.own.generator.is_none() {
            return Err(Error::NoGenerator);
        }
        let loaded = self.or_on_cpu(Self::load)?;
        let models = self.identity()?;
        let has_bundled = self.has_bundled();
        let has_chat_template = self.has_chat_template();
        let limits = TextLimits {
            generator: self.prompts.as_ref().map(Prompts::text_limit),
            scorer: self.reward.as_ref().map(RewardModels::text_limit),
        };
        let effective = self.effective()?;
        if let Some(generator) = &loaded.generator {
            self.notes.extend_from_slice(generator.notes());
        }
        let name = scorer_name(&self.config, &self.own, true).map(str::to_owned);
        let generator = match (loaded.generator, self.own.generator) {
            (Some(generator), _) => Box::new(generator),
            (None, Some((_, own))) => own,
            (None, None) => return Err(Error::NoGenerator),
        };
        let own_scorer = self.own.scorer.map(|(_, scorer)| scorer);
        let mut scorer = loaded.scorer.or(own_scorer);
        if let Some(found) = &self.calibration {
            let (map, score_as) = (found.calibration.map.clone(), self.config.models.score_as);
            let calibrated = |scorer| -> Box<dyn Scorer + Send> {
                Box::new(Calibrated::new(scorer, map, score_as))
            };
            scorer = scorer.map(calibrated);
        }
        let lost = self.judges.iter();
        let lost = lost.filter_map(|judge| Some((judge.name.clone(), judge.lost.clone()?)));
        let lost = lost.collect();
        if !self.judges.is_empty() {
            let first = scorer.take().map(|scorer| {
                let name = name.unwrap_or_else(|| ScorerKind::Prm.name().to_owned());
                Judge::boxed(name, scorer)
            });
            let mut all: Vec<Judge> = first.into_iter().collect();
            for (judge, model) in self.judges.into_iter().zip(loaded.judges) {
                all.push(judge.judge(model, &self.plan)?);
            }
            let judges = Judges::new(all, self.config.models.combine);
            scorer = Some(Box::new(judges));
        }
        let prm = self
            .reward
            .as_ref()
            .map(|reward| reward.prm.fingerprint.clone());
        let mut solver = Solver {
            config: loaded.config,
            generator,
            scorer,
            answers: self.own.answers,
            models,
            notes: self.notes,
            compute: self.compute,
            has_bundled,
            has_chat_template,
            limits,
            effective,
            lost,
            #[cfg(feature = "remote")]
            served: self.served.connections,
        };
        if let Some(found) = self.calibration {
            let prm = prm.unwrap_or_default();
            solver.calibrate(&found.calibration, &found.path, &prm)?;
        }
        Ok(solver)
    }

    /// What a run with these models really uses.
    fn effective(&self) -> Result<Map<String, Value>, Error> {
        let mut effective = Map::new();
        effective.insert("device".into(), self.compute.to_string().into());
        let isa = self.config.engine.isa.resolved()?;
        effective.insert("isa".into(), isa.into());
        let kv: u64 = self.plan.models.iter().map(|model| model.kv).sum();
        effective.insert("kv_bytes".into(), kv.into());
        if !self.compute.is_cpu() {
            let graphs = self.config.engine.cuda_graphs && self.compute.note().is_none();
            effective.insert("cuda_graphs".into(), graphs.into());
        }
        #[cfg(feature = "remote")]
        for (role, connection, facts) in &self.served.connections {
            let mut facts = serde_json::to_value(facts).unwrap_or_default();
            let addresses = connection.addresses().map(ToString::to_string);
            facts["urls"] = addresses.collect::<Vec<_>>().into();
            effective.insert(format!("{role}_server"), facts);
        }
        Ok(effective)
    }

    /// What decides the results besides the settings that a run file has.
    fn identity(&self) -> Result<Map<String, Value>, Error> {
        let mut models = Map::new();
        let written_by = match (&self.generator, &self.own.generator) {
            (Some(generator), _) => generator.fingerprint.clone().into(),
            (None, Some((Identity::Named(name), _))) => name.clone().into(),
            (None, Some((Identity::Facts(facts), _))) => Value::Object(facts.clone()),
            (None, None) => return Err(Error::NoGenerator),
        };
        models.insert("generator".into(), written_by);
        match (&self.own.scorer, &self.reward) {
            (Some((Identity::Named(name), _)), _) => {
                models.insert("scorer".into(), name.clone().into());
            }
            (Some((Identity::Facts(facts), _)), _) => models.extend(facts.clone()),
            (None, reward) => {
                let kind = match reward {
                    Some(_) => self.config.models.scorer,
                    None => ScorerKind::None,
                };
                models.insert("scorer".into(), kind.name().into());
            }
        }
        if let Some(reward) = &self.reward {
            reward.identify(&mut models);
        }
        if !self.judges.is_empty() {
            let judges = self.judges.iter().map(PreparedJudge::identify);
            models.insert("judges".into(), judges.collect());
            let rule = self.config.models.combine.to_string();
            models.insert("combine".into(), rule.into());
        }
        if let Some(found) = &self.calibration {
            let mut facts = Map::new();
            let score_as = self.config.models.score_as.to_string();
            facts.insert("fitted".into(), found.calibration.name().into());
            facts.insert("score_as".into(), score_as.into());
            models.insert("calibration".into(), facts.into());
        }
        // On the processor these hold the checkpoints' own values, all of them, and any other
        // rounds. A device rounds what meets the weights to what they are.
        let (dtype, kv_dtype) = (self.config.models.dtype, self.config.engine.kv_dtype);
        let cpu = self.compute.is_cpu();
        if dtype != WeightType::Auto && !(cpu && dtype == WeightType::F32) {
            models.insert("dtype".into(), dtype.to_string().into());
        }
        if kv_dtype != KvType::Auto && !(cpu && kv_dtype == KvType::F32) {
            models.insert("kv_dtype".into(), kv_dtype.to_string().into());
        }
        // Sums in another order, and by default keys and values in fewer bits.
        if !self.compute.is_cpu() {
            models.insert("device".into(), "cuda".into());
        }
        Ok(models)
    }

    /// Loads generator and reward model to the device that `self.compute` is.
    fn load(&self) -> Result<LoadedModels, Error> {
        let pool = ThreadPool::new(self.config.engine.threads);
        let engine = self.engine_config("generator");
        let mut config = self.config.clone();
        let compute = &self.compute;
        let mut loaded = match &self.generator {
            Some(checkpoint) => Some(Loaded::new(checkpoint, &config, compute, engine, &pool)?),
            None => None,
        };
        if let Some(loaded) = &loaded {
            config.generator.clone_from(loaded.generator.config());
        }
        let load = |reward: &RewardModels, role: &str| -> Result<RewardModel, Error> {
            let place = reward.prm.checkpoint.clone();
            let weights = loaded.as_ref().map(|loaded| &loaded.model);
            let engine = engine_config(&self.plan, &config, role);
            let mut prm = reward.load(&config, compute, engine, weights, pool.clone())?;
            if let Some(loaded) = &loaded {
                prm.share_tokens(same_tokenizer(place, loaded.checkpoint.clone())?);
            }
            Ok(prm)
        };
        let reward = self.reward.as_ref().map(|reward| load(reward, "prm"));
        let mut reward = reward.transpose()?;
        let mut judges = Vec::with_capacity(self.judges.len());
        for judge in &self.judges {
            let model = judge.reward().map(|reward| load(reward, &judge.role()));
            judges.push(model.transpose()?);
        }
        if let (Some(model), Some(found)) = (&mut reward, &self.calibration)
            && let Some(head) = found.calibration.quantiles.clone()
        {
            model.read_quantiles(Box::new(move |step| {
                head.apply(step.hidden, step.score, step.lowest)
            }));
        }
        if let Some(loaded) = loaded.as_mut().filter(|_| self.plan.lends) {
            let borrowers = || reward.iter().chain(judges.iter().flatten());
            if borrowers().next().is_some() {
                let page_bytes = borrowers().map(RewardModel::page_bytes).sum();
                let idle = Arc::new(IdleKv::default());
                loaded.generator.lend(Arc::clone(&idle));
                for model in reward.iter_mut().chain(judges.iter_mut().flatten()) {
                    model.borrow_beside(&idle, page_bytes);
                }
            }
        }
        let boxed = |model: RewardModel| Box::new(model) as Box<dyn Scorer + Send>;
        Ok(LoadedModels {
            scorer: reward.map(boxed),
            judges: judges.into_iter().map(|model| model.map(boxed)).collect(),
            generator: loaded.map(|loaded| loaded.generator),
            config,
        })
    }

    /// What `load` loads; if it cannot on a device that nobody asked for by name, on the CPU, with
    /// a note.
    fn or_on_cpu<T>(&mut self, load: impl Fn(&Self) -> Result<T, Error>) -> Result<T, Error> {
        let error = match load(self) {
            Err(error) if self.config.engine.device == DeviceChoice::Auto => error,
            loaded => return loaded,
        };
        if self.compute.is_cpu() {
            return Err(error);
        }
        let note = format!("the cpu computes, not the {}: {error}", self.compute);
        self.compute = Compute::Cpu;
        let (generator, reward) = (self.generator.as_ref(), self.reward.as_ref());
        self.plan = plan(&self.config, &self.compute, generator, reward, &self.judges)?;
        self.notes.push(note);
        load(self)
    }

    /// Loads the reward model alone, for [`score_chains`](crate::score_chains).
    ///
    /// # Errors
    /// What is at fault: file, field or tensor; or there is none.
    pub fn reward_model(&mut self) -> Result<Box<dyn Scorer + Send>, Error> {
        self.load_classifier()?;
        if let Some((_, scorer)) = self.own.scorer.take() {
            return Ok(scorer);
        }
        let model = self.or_on_cpu(|this| {
            let pool = ThreadPool::new(this.config.engine.threads);
            let engine = this.engine_config("prm");
            let reward = this.reward.as_ref().ok_or(Error::NoScorer)?;
            let mut model = reward.load(&this.config, &this.compute, engine, None, pool)?;
            if let Some(observer) = this.observer.take() {
                model.read_quantiles(observer);
            }
            Ok(model)
        })?;
        Ok(Box::new(model))
    }

    /// Has `observer` called with the hidden state that each step's score is read from, and the
    /// score, by the model that [`reward_model`](Self::reward_model) gives, in the order of the
    /// chains and steps. What it returns are quantiles, which nobody reads there. Models that are
    /// not computed by this process's engine call nobody.
    pub fn observe_hidden(&mut self, observer: QuantileReader) {
        self.observer = RefCell::new(Some(observer));
    }

    /// The fingerprint of the reward model's files, if they are on this machine.
    pub fn prm_fingerprint(&self) -> Option<&str> {
        let reward = self.reward.as_ref();
        reward.map(|reward| reward.prm.fingerprint.as_str())
    }

    fn load_classifier(&mut self) -> Result<(), Error> {
        if let Some(classifier) = self.classifier.take() {
            self.own.scorer = Some(classifier.load(&self.plan)?);
        }
        Ok(())
    }

    fn engine_config(&self, role: &str) -> EngineConfig {
        engine_config(&self.plan, &self.config, role)
    }
}

/// The scorer's name among judges, if there is one.
fn scorer_name<'a>(config: &Config, own: &'a OwnParts, scores: bool) -> Option<&'a str> {
    match (&own.scorer, config.models.scorer) {
        _ if !scores => None,
        (Some((Identity::Named(name), _)), _) => Some(name),
        (_, ScorerKind::None) => None,
        (_, kind) => Some(kind.name()),
    }
}

/// The prompts of a generator that can be one.
fn prompts_of(generator: &OpenedModel, config: &Config) -> Result<Prompts, Error> {
    let write = || {
        if !generator.gives_logits() {
            return Err(beamgen_generator::Error::NoHead);
        }
        let tokenizer = Arc::clone(&generator.tokenizer);
        let context = generator.config.max_position_embeddings;
        Prompts::new(tokenizer, context, &config.generator)
    };
    write().map_err(|error| generator.blame(error))
}
