//! The memory plan of a run, made before any weight is read.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use beamgen_engine::{Compute, EngineConfig, WeightType, Weights};

use crate::Error;

/// One part in `SPARE` of the free memory is left for what is not planned: trees, logits on the CPU,
/// tokenizers, the file cache.
const SPARE: u64 = 10;

/// A budget for KV caches without a limit, before the free memory is known.
const OPEN: u64 = u64::MAX;

/// The memory that a run needs, by model.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// The memory of each model, the generator's first.
    pub models: Vec<ModelMemory>,
    /// The most bytes of all KV caches together.
    pub kv: u64,
    /// The bytes that are free on the device; `None` if the system does not report them.
    pub available: Option<u64>,
    /// The device that computes: `cpu`, or a CUDA device's name.
    pub device: String,
    /// Whether the reward model may use what the generator leaves of its KV cache. On a CUDA device
    /// the two caches are separate.
    pub lends: bool,
}

/// The memory that a model needs, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMemory {
    /// The model's role: `generator`, `prm`, `reference`, or a judge with its name.
    pub role: String,
    /// The model's folder, file or name.
    pub name: String,
    /// The number type of the weights in memory, e.g. `bf16`, or `f32 (unpacked from q8_0)`.
    pub kept_as: String,
    /// The bytes of packed weights; 0 if the model shares another model's weights.
    pub weights: u64,
    /// The bytes of buffers for a forward pass.
    pub buffers: u64,
    /// The model's own share of the KV budget, in bytes. The reward model may also use pages that the
    /// generator does not need at the time.
    pub kv: u64,
    /// The bytes of KV cache of a token.
    pub kv_per_token: u64,
    /// The longest sequence, in tokens.
    pub context: usize,
}

impl ModelMemory {
    /// Returns the bytes of KV cache of a chain: `longest` tokens, but at most the context, plus `spare`.
    fn chain(&self, longest: usize, spare: usize) -> u64 {
        (self.context.min(longest) + spare) as u64 * self.kv_per_token
    }
}

impl MemoryPlan {
    /// Returns a plan without models, with KV caches of at most `config.kv_bytes`. If that is 0 (open),
    /// a CUDA device's caches may take all free memory (see [`no_more_than`](Self::no_more_than)).
    ///
    /// # Errors
    /// Returns an error if the device does not report its free memory.
    pub(crate) fn new(compute: &Compute, config: &EngineConfig) -> Result<Self, Error> {
        let available = match compute.free_bytes()? {
            Some(bytes) => Some(bytes as u64),
            None => available(),
        };
        Ok(Self {
            models: Vec::new(),
            kv: match config.kv_bytes {
                0 if !compute.is_cpu() => OPEN,
                _ => config.kv_budget() as u64,
            },
            available,
            device: compute.to_string(),
            lends: compute.is_cpu(),
        })
    }

    /// Limits an open budget to the KV cache of `chains` chains of `longest` tokens, each with `spare`
    /// tokens more: a device's cache is allocated at the start, so it should not take everything.
    pub(crate) fn no_more_than(&mut self, chains: usize, longest: usize, spare: usize) {
        if self.kv == OPEN {
            self.kv = self.chain(longest, spare).saturating_mul(chains as u64);
        }
    }

    /// Returns the bytes of KV cache of a chain in all models together.
    fn chain(&self, longest: usize, spare: usize) -> u64 {
        let chains = self.models.iter().map(|model| model.chain(longest, spare));
        chains.sum()
    }

    /// Returns the bytes that are used whatever the search does: weights and buffers.
    #[must_use]
    pub fn fixed(&self) -> u64 {
        self.models
            .iter()
            .map(|model| model.weights + model.buffers)
            .sum()
    }

    /// Returns the bytes with full KV caches.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.fixed() + self.kv
    }

    /// Returns the least bytes with which a search can run: weights, buffers, and a chain of `longest`
    /// tokens (at most the context) plus `spare` in each model; less if the KV budget is less.
    pub(crate) fn needed(&self, longest: usize, spare: usize) -> u64 {
        self.fixed() + self.chain(longest, spare).min(self.kv)
    }

    /// Lowers the KV budget until everything fits, and divides it among the models.
    ///
    /// The reward model's own share is the cache of a chain of `longest` tokens (at most the context),
    /// plus `spare` for pages that are not full, so that it can score any such chain. A reward model
    /// needs far less cache than a generator for most of its speed (FastTTS), and may use what the
    /// generator leaves, so the rest is the generator's. If caches are separate, the rest is divided
    /// so that both have room for the same number of further tokens. If there is too little for a
    /// chain in each model, the budget itself is divided like that.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if weights and buffers leave less than a chain in each model, or less
    /// than the KV budget if that is smaller.
    pub(crate) fn fit(&mut self, longest: usize, spare: usize) -> Result<(), Error> {
        let usable = self
            .available
            // Without a report of the free memory there is no limit: the run may fail later, but it
            // can start.
            .map_or(u64::MAX, |available| available - available / SPARE);
        let chain = |model: &ModelMemory| model.chain(longest, spare);
        let chains = self.chain(longest, spare);
        let fixed = self.fixed();
        let needed = self.needed(longest, spare);
        if needed > usable {
            return Err(Error::Memory {
                needed,
                fixed,
                usable,
                available: self.available.unwrap_or(usable),
                device: self.device.clone(),
            });
        }
        self.kv = self.kv.min(usable - fixed);
        let per_token: u64 = self.models.iter().map(|model| model.kv_per_token).sum();
        let mut left = self.kv;
        for model in self.models.iter_mut().skip(1) {
            let share = |bytes: u64| {
                // The product of bytes and bytes per token can exceed 64 bits.
                (u128::from(bytes) * u128::from(model.kv_per_token) / u128::from(per_token)) as u64
            };
            model.kv = match self.kv.checked_sub(chains) {
                Some(more) if !self.lends => chain(model) + share(more),
                _ => chain(model).min(share(self.kv)),
            };
            left -= model.kv;
        }
        if let Some(first) = self.models.first_mut() {
            // The generator is first, and takes the rest, so that no byte is lost to rounding.
            first.kv = left;
        }
        Ok(())
    }
}

/// Describes the number type of most weights of a model in memory.
pub(crate) fn kept_as(weights: &Weights, dtype: WeightType) -> String {
    let Some(stored) = weights.main_encoding() else {
        return dtype.to_string();
    };
    match (dtype, stored.is_block()) {
        (WeightType::Auto, false) => stored.to_string(),
        (WeightType::Auto, true) => format!("f32 (unpacked from {stored})"),
        (WeightType::Int8, true) if stored.can_be_kept() => format!("{stored} (int8)"),
        _ => dtype.to_string(),
    }
}

/// Returns the bytes of memory that are free, within the limits of the control group.
pub(crate) fn available() -> Option<u64> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory));
    let free = system.available_memory();
    let limit = system
        .cgroup_limits()
        .map_or(u64::MAX, |limits| limits.free_memory);
    // sysinfo reports 0 where it knows nothing, and 0 as a limit would refuse every model.
    Some(free.min(limit)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(weights: u64, kv_per_token: u64) -> ModelMemory {
        ModelMemory {
            role: "generator".into(),
            name: "m".into(),
            kept_as: "f32".into(),
            weights,
            buffers: 10,
            kv: 0,
            kv_per_token,
            context: 100,
        }
    }

    const LONGEST: usize = 1000;

    fn plan() -> MemoryPlan {
        MemoryPlan {
            models: Vec::new(),
            kv: 0,
            available: None,
            device: "cpu".into(),
            lends: true,
        }
    }

    #[test]
    fn what_is_not_lent_is_shared_out() {
        let mut plan = MemoryPlan {
            models: vec![model(40, 1), model(40, 2)],
            kv: 900,
            lends: false,
            ..plan()
        };
        plan.fit(LONGEST, 0).unwrap();
        assert_eq!((plan.models[0].kv, plan.models[1].kv), (300, 600));
        // A chain in each comes first, whatever their contexts.
        let short = ModelMemory {
            context: 10,
            ..model(40, 1)
        };
        let mut plan = MemoryPlan {
            models: vec![model(40, 1), short],
            kv: 130,
            lends: false,
            ..super::tests::plan()
        };
        plan.fit(LONGEST, 0).unwrap();
        assert_eq!((plan.models[0].kv, plan.models[1].kv), (110, 20));
    }

    fn fitted(available: u64, kv: u64, models: Vec<ModelMemory>) -> Result<MemoryPlan, Error> {
        let mut plan = MemoryPlan {
            models,
            kv,
            available: Some(available),
            ..plan()
        };
        plan.fit(LONGEST, 0).map(|()| plan)
    }

    #[test]
    fn one_budget_for_all_caches() {
        let caches = |available, kv, per_token: &[u64]| -> Vec<u64> {
            let models = per_token.iter().map(|kv| model(40, *kv)).collect();
            let plan = fitted(available, kv, models).unwrap();
            let caches: Vec<u64> = plan.models.iter().map(|model| model.kv).collect();
            assert_eq!(caches.iter().sum::<u64>(), plan.kv);
            caches
        };
        // 900 usable, 100 of them taken; a chain is 100 tokens.
        assert_eq!(caches(1000, 600, &[1, 1]), [500, 100]);
        assert_eq!(caches(1000, 9000, &[1, 1]), [700, 100]);
        assert_eq!(caches(1000, 9000, &[1, 2]), [600, 200]);
        // Too little for a chain in each: as many tokens for the one as for the other.
        assert_eq!(caches(1000, 150, &[1, 1]), [75, 75]);
        assert_eq!(caches(1000, 150, &[1, 2]), [50, 100]);
        assert_eq!(caches(1000, 9000, &[3]), [850]);
        // A reference reads the reward model's tokens, out of its share.
        assert_eq!(caches(2000, 600, &[1, 1, 0]), [500, 100, 0]);
    }

    /// Else a chain that fills the context would be refused for want of its last page, whatever the
    /// budget.
    #[test]
    fn pages_that_are_not_full_come_on_top_of_the_context() {
        let mut plan = MemoryPlan {
            models: vec![model(40, 1), model(40, 2)],
            kv: 900,
            ..plan()
        };
        plan.fit(LONGEST, 32).unwrap();
        assert_eq!(plan.models[1].kv, 2 * (100 + 32));
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(fitted(1000, 100, vec![model(700, 1)]).is_ok());
        let error = fitted(1000, 100, vec![model(900, 1)]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("dtype int8"), "{error}");
        assert!(error.contains("KV memory"), "{error}");
    }

    /// A device's memory is taken at once, so no more than is of use.
    #[test]
    fn what_is_open_is_what_chains_can_take() {
        let open = |available| {
            let mut plan = MemoryPlan {
                models: vec![model(40, 1), model(40, 2)],
                kv: OPEN,
                available: Some(available),
                lends: false,
                ..plan()
            };
            plan.no_more_than(7, LONGEST, 5);
            plan.fit(LONGEST, 5).map(|()| plan.kv)
        };
        assert_eq!(open(1_000_000).unwrap(), 7 * 3 * 105);
        assert_eq!(open(2000).unwrap(), 1800 - 100);
        let mut given = MemoryPlan {
            models: vec![model(40, 1)],
            kv: 5000,
            ..plan()
        };
        given.no_more_than(7, LONGEST, 5);
        assert_eq!(given.kv, 5000);
    }

    /// A long context is no reason to refuse what short chains fit into.
    #[test]
    fn only_chains_that_can_be_count() {
        let mut long = model(700, 1);
        long.context = 131_072;
        assert!(fitted(1000, 100_000, vec![long.clone()]).is_err());
        let mut plan = MemoryPlan {
            models: vec![long],
            kv: 100_000,
            available: Some(1000),
            ..plan()
        };
        assert!(plan.fit(150, 0).is_ok());
        assert_eq!(plan.models[0].kv, 190);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
