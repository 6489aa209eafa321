//! Chooses the device that runs the models, and plans its memory.

use beamgen_engine::{Compute, DeviceChoice, EngineConfig, ModelConfig, WeightType, Weights};
use beamgen_prm::{HeadSpec, RewardModel};

use super::judges::PreparedJudge;
use super::reward::RewardModels;
use crate::memory::{MemoryPlan, ModelMemory, kept_as};
use crate::size::human_size;
use crate::source::OpenedModel;
use crate::{Config, Error};

/// The length that the memory plan assumes for a prompt, in tokens.
const PROMPT: usize = 2048;

/// Returns the device to use. Bundled models run on the CPU unless the settings name a device: they
/// are so small that launching kernels on a CUDA device would take longer than the pass.
pub(crate) fn device_choice(config: &Config, bundled: bool) -> DeviceChoice {
    match config.engine.device {
        DeviceChoice::Auto if bundled => DeviceChoice::Cpu,
        choice => choice,
    }
}

/// Opens a device and makes a plan for it. With `auto`, falls back to the CPU and adds a note if
/// the device cannot be used or the models do not fit.
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

/// The models that this process runs with its own engine.
pub(super) struct Opened<'a> {
    pub(super) generator: Option<&'a OpenedModel>,
    pub(super) reward: Option<&'a RewardModels>,
    pub(super) judges: &'a [PreparedJudge],
}

impl<'a> Opened<'a> {
    pub(super) fn models(&self) -> impl Iterator<Item = &'a OpenedModel> + use<'a> {
        let rewards = self.reward.into_iter().flat_map(RewardModels::models);
        let judges = self.judges.iter().flat_map(PreparedJudge::models);
        self.generator.into_iter().chain(rewards).chain(judges)
    }
}

/// The opened device, and the plan of its memory.
pub(super) struct PlannedMemory {
    pub(super) compute: Compute,
    pub(super) plan: MemoryPlan,
}

/// Chooses the device and plans its memory. Adds a note for each model whose quantised weights are
/// unpacked.
pub(super) fn plan_memory(
    config: &Config,
    opened: &Opened<'_>,
    notes: &mut Vec<String>,
) -> Result<PlannedMemory, Error> {
    // All models run on the same device, and a single model that is not bundled is worth the
    // launches of a CUDA device.
    let bundled = opened.models().all(|model| model.bundled);
    let choice = device_choice(config, bundled);
    let (compute, plan) = on_device(choice, notes, |compute| plan(config, compute, opened))?;
    // Weights in bfloat16 already take half of what the notes below are about.
    let arithmetic = config.models.compute;
    if config.models.dtype == WeightType::Auto && !arithmetic.is_bf16() {
        for model in opened.models() {
            if compute.is_cpu() {
                notes.extend(unpacked(model, config, &compute)?);
            } else if model.weights.has_blocks() {
                let path = model.checkpoint.path().display();
                notes.push(format!(
                    "{path}: unpacked to float32 on a CUDA device; dtype bf16 takes half of that and is faster"
                ));
            }
        }
    }
    Ok(PlannedMemory { compute, plan })
}

/// Plans the memory of a device for all models.
pub(super) fn plan(
    config: &Config,
    compute: &Compute,
    opened: &Opened<'_>,
) -> Result<MemoryPlan, Error> {
    let mut plan = MemoryPlan::new(compute, config)?;
    let needs = |role: &str, model: &OpenedModel, read| needs(role, model, config, compute, read);
    // The generator must be first: `MemoryPlan::fit` gives the first model the rest.
    if let Some(generator) = opened.generator {
        let read = (Returned::Logits, false);
        plan.models.push(needs("generator", generator, read)?);
    }
    let scorer = opened.reward;
    let scorer = scorer.map(|reward| ("prm".to_owned(), "reference".to_owned(), reward));
    let judges = opened.judges.iter().filter_map(|judge| {
        let role = judge.role();
        Some((role.clone(), format!("{role} reference"), judge.reward()?))
    });
    for (role, reference_role, reward) in scorer.into_iter().chain(judges) {
        let returned = Returned::by(&reward.spec.head);
        let mut prm = needs(&role, &reward.prm, (returned, reward.prm_shares))?;
        let reference = reward.reference.as_ref().map(|reference| {
            let read = (returned, reward.reference_shares);
            needs(&reference_role, reference, read)
        });
        let reference = reference.transpose()?.map(|mut reference| {
            // The reference model reads the same tokens as the reward model, so one budget serves
            // both.
            prm.kv_per_token += reference.kv_per_token;
            reference.kv_per_token = 0;
            reference
        });
        plan.models.push(prm);
        plan.models.extend(reference);
    }
    let (longest, spare) = longest_chain(config);
    // Some strategies sample more chains than they keep, so the limit is twice the number of
    // chains.
    plan.no_more_than(
        2 * config.search.n * config.search.in_flight,
        longest,
        spare,
    );
    plan.fit(longest, spare)?;
    Ok(plan)
}

/// Returns the assumed length of the longest chain in tokens, and a number of spare tokens. The
/// spare tokens are needed because pages are allocated whole, and a fork copies the last page.
pub(crate) fn longest_chain(config: &Config) -> (usize, usize) {
    let longest = config.generator.most_tokens() + PROMPT;
    (longest, 2 * config.engine.page_size)
}

/// Returns the engine settings of a model, whose KV cache gets the share in the plan.
pub(super) fn engine_config(plan: &MemoryPlan, config: &Config, role: &str) -> EngineConfig {
    let planned = plan.models.iter().find(|model| model.role == role);
    // 0 would mean an unlimited cache.
    let kv_bytes = planned.and_then(|model| usize::try_from(model.kv.max(1)).ok());
    EngineConfig {
        kv_bytes: kv_bytes.unwrap_or(config.engine.kv_bytes),
        ..config.engine.clone()
    }
}

/// The kind of result that a model's call returns. Results stay in the device's memory, so they are
/// part of the plan.
#[derive(Clone, Copy)]
pub(crate) enum Returned {
    /// A row of logits for each chain.
    Logits,
    /// A hidden state for each chain.
    Hidden,
    /// Logits of every token, computed for some of the tokens at a time.
    EveryLogit,
}

impl Returned {
    fn by(head: &HeadSpec) -> Self {
        match head {
            HeadSpec::LogRatio(_) => Self::EveryLogit,
            HeadSpec::Linear(_) | HeadSpec::Tokens(_) => Self::Hidden,
        }
    }

    /// Returns the size of a call's result in bytes, for `chains` chains in the call.
    fn bytes(self, model: &ModelConfig, chains: usize) -> usize {
        match self {
            Self::Logits => 4 * model.vocab_size * chains,
            Self::Hidden => 4 * model.hidden_size * chains,
            Self::EveryLogit => RewardModel::logit_bytes(model.vocab_size),
        }
    }
}

fn needs(
    role: &str,
    model: &OpenedModel,
    config: &Config,
    compute: &Compute,
    (returned, shares): (Returned, bool),
) -> Result<ModelMemory, Error> {
    let (shape, weights) = (&model.config, &model.weights);
    let mut memory = memory(role, shape, weights, config, compute, returned)
        .map_err(|error| model.blame(error))?;
    memory.name = model.checkpoint.path().display().to_string();
    if shares {
        memory.weights = 0;
    }
    Ok(memory)
}

/// Returns the memory that a model of shape `model` needs. The caller sets the name.
pub(crate) fn memory(
    role: &str,
    model: &ModelConfig,
    weights: &Weights,
    config: &Config,
    compute: &Compute,
    returned: Returned,
) -> Result<ModelMemory, beamgen_engine::Error> {
    let footprint = model.footprint(weights, config.models.precision(), &config.engine, compute)?;
    // On the CPU, results of calls belong to the memory that the plan leaves free
    // (`memory::SPARE`).
    let rows = if compute.is_cpu() {
        0
    } else {
        let chains = config.search.n * config.search.in_flight;
        footprint.first_rows.max(returned.bytes(model, chains))
    };
    Ok(ModelMemory {
        role: role.to_owned(),
        name: String::new(),
        kept_as: kept_as(weights, config.models.precision()),
        weights: footprint.weights as u64,
        buffers: (footprint.buffers + rows) as u64,
        kv: 0,
        kv_per_token: footprint.kv_per_token as u64,
        context: model.max_position_embeddings,
    })
}

/// Returns a note if the model's quantised blocks are unpacked although int8 could keep them.
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
