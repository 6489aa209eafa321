//! From settings to models: everything that can be wrong is found, and what is needed is known, before
//! any weight is read.

use std::sync::Arc;

use beamgen_engine::{
    ChatTemplate, Checkpoint, Compute, DeviceChoice, Engine, EngineConfig, IdleKv, KvType,
    ModelConfig, ThreadPool, WeightType, Weights,
};
use beamgen_generator::{LmGenerator, Prompts};
use beamgen_prm::{Body, HeadSpec, PrmSpec, RewardModel, same_tokenizer};
use beamgen_search::{GenError, Problem, Scorer};
use serde_json::{Map, Value};

use crate::memory::{MemoryPlan, ModelMemory, kept_as};
use crate::own::{Identity, OwnParts, format_identity};
use crate::served::Served;
use crate::size::human_size;
use crate::source::{Downloads, OpenedModel, Source};
use crate::{Config, Error, ScorerKind, Solver, bundled};

/// Tokens that a prompt is taken to have where memory is planned.
const PROMPT: usize = 2048;

/// Models that were found and fit, with what they will need.
pub struct Prepared {
    config: Config,
    compute: Compute,
    generator: Option<OpenedModel>,
    prompts: Option<Prompts>,
    judge: Option<Judge>,
    own: OwnParts,
    plan: MemoryPlan,
    notes: Vec<String>,
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "there are none"))]
    served: Served,
}

/// A reward model, and the one it is compared with if it is a log-ratio.
struct Judge {
    prm: OpenedModel,
    spec: PrmSpec,
    reference: Option<OpenedModel>,
    /// Whose weights are the generator's.
    prm_shares: bool,
    reference_shares: bool,
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
        config.check()?;
        let mut config = config.resolved();
        let mut notes = Vec::new();
        let mut served = Served::open(&config)?;
        let written = match wanted {
            Wanted::RewardModel => None,
            Wanted::Pair => served.generator(&mut config, &mut own, &mut downloads, &mut notes)?,
        };
        let generator = match wanted {
            Wanted::RewardModel => None,
            Wanted::Pair if own.generator.is_some() => None,
            Wanted::Pair => {
                let name = config.models.generator.as_deref();
                let source = Source::find(name, bundled::GENERATOR, &mut downloads, &mut notes)?;
                Some(OpenedModel::open(&source)?)
            }
        };
        let prompts = generator.as_ref().map(|opened| prompts(opened, &config));
        let mut prompts = prompts.transpose()?;
        let mut tokens_of = generator.as_ref().map(|opened| opened.checkpoint.clone());
        if let Some((written, checkpoint)) = written {
            (prompts, tokens_of) = (Some(written), Some(checkpoint));
        }
        let has_kind = config.models.scorer != ScorerKind::None;
        let scores =
            wanted == Wanted::RewardModel || config.uses_scorer() || (own.load_scorer && has_kind);
        if scores {
            let generator = tokens_of.as_ref();
            served.scorer(&config, generator, &mut own, &mut downloads, &mut notes)?;
        }
        own.scorer.take_if(|_| !scores);
        let judge = match scores && own.scorer.is_none() {
            true => Some(Judge::open(
                &config,
                generator.as_ref(),
                &mut downloads,
                &mut notes,
            )?),
            false => None,
        };
        let plan = |compute: &Compute| plan(&config, compute, generator.as_ref(), judge.as_ref());
        let judges = judge.iter().flat_map(Judge::models);
        let bundled = generator.iter().chain(judges).all(|model| model.bundled);
        let choice = device_choice(&config, bundled);
        let (compute, plan) = on_device(choice, &mut notes, plan)?;
        if !compute.is_cpu() && config.models.dtype == WeightType::Auto {
            let judges = judge.iter().flat_map(Judge::models);
            let unpacked = generator
                .iter()
                .chain(judges)
                .filter(|m| m.weights.has_blocks());
            notes.extend(unpacked.map(|model| {
                let path = model.checkpoint.path().display();
                format!("{path}: unpacked to float32 on a CUDA device; --dtype bf16 takes half of that and is faster")
            }));
        }
        if compute.is_cpu() && config.models.dtype == WeightType::Auto {
            let judges = judge.iter().flat_map(Judge::models);
            for model in generator.iter().chain(judges) {
                notes.extend(unpacked(model, &config, &compute)?);
            }
        }
        Ok(Self {
            config,
            compute,
            generator,
            prompts,
            judge,
            own,
            plan,
            notes,
            served,
        })
    }

    /// What the models will need.
    pub fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// What the user should know, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the generator takes a problem; any is taken where there is none.
    ///
    /// # Errors
    /// The problem does not fit the context, or the template or the tokenizer refuses it.
    pub fn check(&self, problem: &Problem) -> Result<(), GenError> {
        match &self.prompts {
            Some(prompts) => prompts.tokens(&problem.text).map(drop),
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
        let judges = self.judge.iter().flat_map(Judge::models);
        self.generator.iter().chain(judges).all(|m| m.bundled)
    }

    /// Whether one of the models is bundled: it knows the problems of [the bundled
    /// world](crate::bundled) only.
    pub fn has_bundled(&self) -> bool {
        let judges = self.judge.iter().flat_map(Judge::models);
        self.generator.iter().chain(judges).any(|m| m.bundled)
    }

    /// Loads generator and reward model.
    ///
    /// # Errors
    /// What is at fault: file, field or tensor.
    pub fn solver(mut self) -> Result<Solver, Error> {
        if self.generator.is_none() && self.own.generator.is_none() {
            return Err(Error::NoGenerator);
        }
        let loaded = self.or_on_cpu(Self::load)?;
        let models = self.identity()?;
        let has_bundled = self.has_bundled();
        let effective = self.effective()?;
        if let Some(generator) = &loaded.generator {
            self.notes.extend_from_slice(generator.notes());
        }
        let generator = match (loaded.generator, self.own.generator) {
            (Some(generator), _) => Box::new(generator),
            (None, Some((_, own))) => own,
            (None, None) => return Err(Error::NoGenerator),
        };
        let own_scorer = self.own.scorer.map(|(_, scorer)| scorer);
        Ok(Solver {
            config: loaded.config,
            generator,
            scorer: loaded.scorer.or(own_scorer),
            answers: self.own.answers,
            models,
            notes: self.notes,
            has_bundled,
            effective,
            #[cfg(feature = "remote")]
            served: self.served.connections,
        })
    }

    /// What a run with these models really uses.
    fn effective(&self) -> Result<Map<String, Value>, Error> {
        let mut effective = Map::new();
        effective.insert("device".into(), self.compute.to_string().into());
        let isa = self.config.engine.isa.resolved()?;
        effective.insert("isa".into(), isa.into());
        let kv: u64 = self.plan.models.iter().map(|model| model.kv).sum();
        effective.insert("kv_bytes".into(), kv.into());
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
            (None, Some((Identity::Served(facts), _))) => Value::Object(facts.clone()),
            (None, None) => return Err(Error::NoGenerator),
        };
        models.insert("generator".into(), written_by);
        match (&self.own.scorer, &self.judge) {
            (Some((Identity::Named(name), _)), _) => {
                models.insert("scorer".into(), name.clone().into());
            }
            (Some((Identity::Served(facts), _)), _) => models.extend(facts.clone()),
            (None, judge) => {
                let kind = match judge {
                    Some(_) => self.config.models.scorer,
                    None => ScorerKind::None,
                };
                models.insert("scorer".into(), kind.name().into());
            }
        }
        if let Some(judge) = &self.judge {
            judge.identify(&mut models);
        }
        // On the processor these hold the checkpoints' own values, all of them, and any other rounds. A device
        // rounds what meets the weights to what they are.
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
        let engine = engine_config(&self.plan, &config, "prm");
        let judge = self.judge.as_ref().map(|judge| -> Result<_, Error> {
            let place = judge.prm.checkpoint.clone();
            let weights = loaded.as_ref().map(|loaded| &loaded.model);
            let mut prm = judge.load(&config, compute, engine, weights, pool.clone())?;
            if let Some(loaded) = &mut loaded {
                prm.share_tokens(same_tokenizer(place, loaded.checkpoint.clone())?);
                if self.plan.lends {
                    let idle = Arc::new(IdleKv::default());
                    loaded.generator.lend(Arc::clone(&idle));
                    prm.borrow(&idle);
                }
            }
            Ok(Box::new(prm) as Box<dyn Scorer + Send>)
        });
        Ok(LoadedModels {
            scorer: judge.transpose()?,
            generator: loaded.map(|loaded| loaded.generator),
            config,
        })
    }

    /// What `load` loads; if it cannot on a device that nobody asked for by name, on the CPU, with a note.
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
        let (generator, judge) = (self.generator.as_ref(), self.judge.as_ref());
        self.plan = plan(&self.config, &self.compute, generator, judge)?;
        self.notes.push(note);
        load(self)
    }

    /// Loads the reward model alone, for [`score_chains`](crate::score_chains).
    ///
    /// # Errors
    /// What is at fault: file, field or tensor; or there is none.
    pub fn reward_model(&mut self) -> Result<Box<dyn Scorer + Send>, Error> {
        if let Some((_, scorer)) = self.own.scorer.take() {
            return Ok(scorer);
        }
        let model = self.or_on_cpu(|this| {
            let pool = ThreadPool::new(this.config.engine.threads);
            let engine = this.engine_config("prm");
            let judge = this.judge.as_ref().ok_or(Error::NoScorer)?;
            judge.load(&this.config, &this.compute, engine, None, pool)
        })?;
        Ok(Box::new(model))
    }

    fn engine_config(&self, role: &str) -> EngineConfig {
        engine_config(&self.plan, &self.config, role)
    }
}

/// The device to compute on. Unless one is named, bundled models stay on the CPU: there a pass of theirs takes less
/// time than its launches on a device would.
pub(crate) fn device_choice(config: &Config, bundled: bool) -> DeviceChoice {
    match config.engine.device {
        DeviceChoice::Auto if bundled => DeviceChoice::Cpu,
        choice => choice,
    }
}

/// Opens what is to compute and makes `plan` for it. Where that is open (`auto`) and a device cannot have it, the processor
/// has it, with a note.
pub(crate) fn on_device<T>(
    choice: DeviceChoice,
    notes: &mut Vec<String>,
    plan: impl Fn(&Compute) -> Result<T, Error>,
) -> Result<(Compute, T), Error> {
    let (compute, instead) = choice.open_or_say()?;
    notes.extend(instead.map(|error| format!("the cpu computes: {error}")));
    match plan(&compute) {
        Err(error) if choice == DeviceChoice::Auto && !compute.is_cpu() => {
            notes.push(format!("the cpu computes, not the {compute}: {error}"));
            Ok((Compute::Cpu, plan(&Compute::Cpu)?))
        }
        planned => Ok((compute, planned?)),
    }
}

/// What the models will need.
fn plan(
    config: &Config,
    compute: &Compute,
    generator: Option<&OpenedModel>,
    judge: Option<&Judge>,
) -> Result<MemoryPlan, Error> {
    let mut plan = MemoryPlan::new(compute, &config.engine)?;
    let needs = |role, model: &OpenedModel, shares| needs(role, model, config, compute, shares);
    if let Some(generator) = generator {
        plan.models.push(needs("generator", generator, false)?);
    }
    if let Some(judge) = judge {
        let mut prm = needs("prm", &judge.prm, judge.prm_shares)?;
        let reference = judge
            .reference
            .as_ref()
            .map(|reference| needs("reference", reference, judge.reference_shares));
        let reference = reference.transpose()?.map(|mut reference| {
            // The two read the same tokens, out of one share.
            prm.kv_per_token += reference.kv_per_token;
            reference.kv_per_token = 0;
            reference
        });
        plan.models.push(prm);
        plan.models.extend(reference);
    }
    let (longest, spare) = longest_chain(config);
    // Some strategies draw more chains than they keep.
    plan.no_more_than(
        2 * config.search.n * config.search.in_flight,
        longest,
        spare,
    );
    plan.fit(longest, spare)?;
    Ok(plan)
}

/// Tokens of the longest chain that memory is planned for, and what it takes besides: pages are taken
/// whole, and a fork's last one twice.
pub(crate) fn longest_chain(config: &Config) -> (usize, usize) {
    let longest = config.generator.max_chain_tokens + PROMPT;
    (longest, 2 * config.engine.page_size)
}

/// The settings, with the share of memory that the plan gives to a model.
fn engine_config(plan: &MemoryPlan, config: &Config, role: &str) -> EngineConfig {
    let planned = plan.models.iter().find(|model| model.role == role);
    // 0 would be open.
    let kv_bytes = planned.and_then(|model| usize::try_from(model.kv.max(1)).ok());
    EngineConfig {
        kv_bytes: kv_bytes.unwrap_or(config.engine.kv_bytes),
        ..config.engine.clone()
    }
}

impl Judge {
    fn open(
        config: &Config,
        generator: Option<&OpenedModel>,
        downloads: &mut Option<Downloads>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let bundled = match config.models.scorer {
            ScorerKind::Prm => bundled::PRM,
            ScorerKind::Orm => bundled::ORM,
            ScorerKind::Exact | ScorerKind::None => return Err(Error::NoScorer),
        };
        let models = &config.models;
        let source = Source::find(models.prm.as_deref(), bundled, downloads, notes)?;
        let mut prm = OpenedModel::open(&source)?;
        let format = models.prm_format.as_deref().filter(|name| *name != "auto");
        let spec = match format {
            None => PrmSpec::of(&prm.checkpoint, &prm.weights),
            Some(format) => PrmSpec::choose(format),
        };
        let mut spec = spec.map_err(|error| prm.blame(error))?;
        if format.is_none() && !prm.bundled {
            let (prm, format) = (prm.checkpoint.path().display(), &spec.name);
            notes.push(format!("{prm} is read as {format} (--prm-format)"));
        }
        if spec.prompt.text.is_none() && spec.prompt.date.is_none() {
            // Whatever day it is, it is part of the run's identity if it is part of a prompt.
            let template = ChatTemplate::of(&prm.tokenizer).map_err(|error| prm.blame(error))?;
            let today = template.date();
            spec.prompt.date = today.map(|today| config.generator.date.clone().unwrap_or(today));
        }
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
                let source = Source::find(Some(name), bundled, downloads, notes)?;
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
                notes.push(format!(
                    "generator and {role} have the same weights: they are in memory once"
                ));
            }
        }
        Ok(Self {
            prm,
            spec,
            reference,
            prm_shares,
            reference_shares,
        })
    }

    fn models(&self) -> impl Iterator<Item = &OpenedModel> {
        std::iter::once(&self.prm).chain(&self.reference)
    }

    /// What decides the scores, for the run's identity.
    fn identify(&self, models: &mut Map<String, Value>) {
        models.insert("prm".into(), self.prm.fingerprint.clone().into());
        if let Some(reference) = &self.reference {
            models.insert("reference".into(), reference.fingerprint.clone().into());
        }
        format_identity(&self.spec, models);
    }

    fn load(
        &self,
        config: &Config,
        compute: &Compute,
        engine: EngineConfig,
        generator: Option<&Arc<beamgen_engine::Model>>,
        pool: ThreadPool,
    ) -> Result<RewardModel, Error> {
        let place = self.prm.checkpoint.path().display().to_string();
        let body = |model: &OpenedModel, shares: bool| -> Result<Body, Error> {
            let checkpoint = model.checkpoint.clone();
            let model = match generator.filter(|_| shares) {
                Some(generator) => Arc::clone(generator),
                None => Arc::new(model.model(config.models.dtype, compute, &pool)?),
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
            .map_err(|error| Error::from(error).at(place))
    }
}

/// The prompts of a generator that can be one.
fn prompts(generator: &OpenedModel, config: &Config) -> Result<Prompts, Error> {
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

fn needs(
    role: &'static str,
    model: &OpenedModel,
    config: &Config,
    compute: &Compute,
    shares: bool,
) -> Result<ModelMemory, Error> {
    let mut memory = memory(role, &model.config, &model.weights, config, compute)
        .map_err(|error| model.blame(error))?;
    memory.name = model.checkpoint.path().display().to_string();
    if shares {
        memory.weights = 0;
    }
    Ok(memory)
}

/// What a model of this shape needs, without its name.
pub(crate) fn memory(
    role: &'static str,
    model: &ModelConfig,
    weights: &Weights,
    config: &Config,
    compute: &Compute,
) -> Result<ModelMemory, beamgen_engine::Error> {
    let footprint = model.footprint(weights, config.models.dtype, &config.engine, compute)?;
    // On a device the logits of a pass stay there.
    let rows = match !compute.is_cpu() && role == "generator" {
        true => 4 * model.vocab_size * config.search.n * config.search.in_flight,
        false => 0,
    };
    Ok(ModelMemory {
        role,
        name: String::new(),
        kept_as: kept_as(weights, config.models.dtype),
        weights: footprint.weights as u64,
        buffers: (footprint.buffers + rows) as u64,
        kv: 0,
        kv_per_token: footprint.kv_per_token as u64,
        context: model.max_position_embeddings,
    })
}

/// A hint for a model whose quantised blocks are unpacked although they could be kept.
fn unpacked(
    model: &OpenedModel,
    config: &Config,
    compute: &Compute,
) -> Result<Option<String>, Error> {
    let stored = model.weights.main_encoding();
    let Some(stored) = stored.filter(|stored| stored.can_be_kept()) else {
        return Ok(None);
    };
    let bytes = |dtype| -> Result<u64, Error> {
        let engine = &config.engine;
        let footprint = model
            .config
            .footprint(&model.weights, dtype, engine, compute)
            .map_err(|error| model.blame(error))?;
        Ok(footprint.weights as u64)
    };
    let (now, kept) = (bytes(WeightType::Auto)?, bytes(WeightType::Int8)?);
    let path = model.checkpoint.path().display();
    let (now, kept) = (human_size(now), human_size(kept));
    Ok(Some(format!(
        "{path}: {stored} is unpacked to f32, {now}; dtype int8 keeps it as it is, {kept}, and is faster, \
         but rounds activations to 8 bits"
    )))
}
