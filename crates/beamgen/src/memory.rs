//! Plans the memory of a run, before weights are read.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use beamgen_engine::{Compute, ComputeType, Precision, WeightType, Weights};

use crate::{Config, Error};

/// The divisor of the free memory whose result stays unplanned: for search trees, logits on the
/// CPU, tokenizers and the file cache.
const SPARE: u64 = 10;

/// The value of a KV budget that has no limit yet, until the number of chains is known.
const OPEN: u64 = u64::MAX;

/// The memory that a run needs.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// The memory of each model. The generator comes first.
    pub models: Vec<ModelMemory>,
    /// The maximum size of all KV caches together, in bytes.
    pub kv: u64,
    /// The free memory of the device, in bytes; `None` if the system does not report it.
    pub available: Option<u64>,
    /// The device that runs the models: `cpu`, or the name of a CUDA device.
    pub device: String,
    /// The arithmetic of float weights on that device.
    pub arithmetic: ComputeType,
    /// Whether reward models may borrow the part of the generator's KV cache that the generator
    /// does not use at the time. True on the CPU; on a CUDA device each cache is separate.
    pub lends: bool,
}

/// The memory that one model needs, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMemory {
    /// The role of the model: `generator`, `prm`, `reference`, or `judge` with the judge's name.
    pub role: String,
    /// The folder, file or name of the model.
    pub name: String,
    /// The number type of the weights in memory, such as `bf16`, or `f32 (unpacked from q8_0)`.
    pub kept_as: String,
    /// The size of the packed weights; 0 if another model in the plan has the same weights.
    pub weights: u64,
    /// The size of the buffers for a forward pass.
    pub buffers: u64,
    /// The part of the KV budget that only this model may use. A reward model may also borrow pages
    /// from the generator.
    pub kv: u64,
    /// The KV cache that one token takes.
    pub kv_per_token: u64,
    /// The maximum length of a sequence, in tokens.
    pub context: usize,
}

impl ModelMemory {
    /// Returns the KV cache of one chain in bytes: for `longest` tokens or the context, whichever
    /// is less, plus `spare` tokens.
    fn chain(&self, longest: usize, spare: usize) -> u64 {
        (self.context.min(longest) + spare) as u64 * self.kv_per_token
    }
}

impl MemoryPlan {
    /// Returns a plan without models. The KV budget is `engine.kv_bytes`; 0 means the default on
    /// the CPU, and no limit on a CUDA device until [`no_more_than`](Self::no_more_than) sets one.
    ///
    /// # Errors
    /// Returns an error if a CUDA device does not report its free memory.
    pub(crate) fn new(compute: &Compute, config: &Config) -> Result<Self, Error> {
        let available = match compute.free_bytes()? {
            Some(bytes) => Some(bytes as u64),
            None => available(),
        };
        Ok(Self {
            models: Vec::new(),
            kv: match config.engine.kv_bytes {
                0 if !compute.is_cpu() => OPEN,
                _ => config.engine.kv_budget() as u64,
            },
            available,
            device: compute.to_string(),
            arithmetic: config.models.compute.on(compute),
            lends: compute.is_cpu(),
        })
    }

    /// Limits an unlimited budget to `chains` chains of `longest` plus `spare` tokens. A CUDA
    /// device's cache is allocated at the start, so it should not take all memory.
    pub(crate) fn no_more_than(&mut self, chains: usize, longest: usize, spare: usize) {
        if self.kv == OPEN {
            self.kv = self.chain(longest, spare).saturating_mul(chains as u64);
        }
    }

    /// Returns the KV cache of one chain in all models together, in bytes.
    fn chain(&self, longest: usize, spare: usize) -> u64 {
        let chains = self.models.iter().map(|model| model.chain(longest, spare));
        chains.sum()
    }

    /// Returns the bytes of weights and buffers, which do not depend on the search.
    #[must_use]
    pub fn fixed(&self) -> u64 {
        self.models
            .iter()
            .map(|model| model.weights + model.buffers)
            .sum()
    }

    /// Returns the bytes in use when all KV caches are full.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.fixed() + self.kv
    }

    /// Returns the minimum with which a search can run, in bytes: weights, buffers, and one chain
    /// of `longest` plus `spare` tokens in each model. A smaller KV budget lowers the minimum.
    pub(crate) fn needed(&self, longest: usize, spare: usize) -> u64 {
        self.fixed() + self.chain(longest, spare).min(self.kv)
    }

    /// Lowers the KV budget until everything fits, and divides it among the models.
    ///
    /// A reward model's own share is the cache of one chain of `longest` tokens (at most the
    /// context) plus `spare` for partly filled pages, so that it can score any such chain. A reward
    /// model needs far less cache than a generator for most of its speed (FastTTS), and it may
    /// borrow from the generator. The generator therefore gets the rest. If caches are separate,
    /// the rest is divided so that each model has room for the same number of further tokens. If
    /// the budget is less than one chain in each model, the whole budget is divided in proportion
    /// to the models' cache per token.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if weights and buffers leave less than the smaller of the KV
    /// budget and one chain in each model.
    pub(crate) fn fit(&mut self, longest: usize, spare: usize) -> Result<(), Error> {
        let usable = self
            .available
            // Without a report there is no limit: the run may fail later, but it can start.
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
                // The product of the two byte counts can exceed 64 bits.
                (u128::from(bytes) * u128::from(model.kv_per_token) / u128::from(per_token)) as u64
            };
            model.kv = match self.kv.checked_sub(chains) {
                Some(more) if !self.lends => chain(model) + share(more),
                _ => chain(model).min(share(self.kv)),
            };
            left -= model.kv;
        }
        if let Some(first) = self.models.first_mut() {
            // The generator takes the remainder, so that rounding loses no byte.
            first.kv = left;
        }
        Ok(())
    }
}

/// Describes the number type that most of the model's weights have in memory.
pub(crate) fn kept_as(weights: &Weights, precision: Precision) -> String {
    let dtype = match precision.weights {
        WeightType::Auto if precision.compute.is_bf16() => WeightType::Bf16,
        other => other,
    };
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

/// Returns the free memory in bytes, within the limits of the control group; `None` if it is
/// unknown.
pub(crate) fn available() -> Option<u64> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory));
    let free = system.available_memory();
    let limit = system
        .cgroup_limits()
        .map_or(u64::MAX, |limits| limits.free_memory);
    // sysinfo reports 0 if it knows nothing. A limit of 0 would refuse every model.
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
            arithmetic: ComputeType::Auto,
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
