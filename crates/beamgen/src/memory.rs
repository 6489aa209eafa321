//! What a run will need in memory, known before any weight is read.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::Error;

/// Of the memory that is free, what is left to everything that is not planned: trees, logits,
/// tokenizers, the file cache.
const SPARE: u64 = 10;

/// What a run needs, model by model.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// The generator first.
    pub models: Vec<ModelMemory>,
    /// Bytes that programs can have on this machine now; `None` if the system does not tell.
    pub available: Option<u64>,
}

/// What one model needs, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMemory {
    /// Its part: `generator`, `prm`, `reference`.
    pub role: &'static str,
    /// Where it comes from.
    pub name: String,
    /// Packed weights; 0 if another model's are used.
    pub weights: u64,
    /// Buffers of a forward pass.
    pub buffers: u64,
    /// Most that its KV cache may take.
    pub kv: u64,
    /// KV cache of one token.
    pub kv_per_token: u64,
    /// Longest sequence, in tokens.
    pub context: usize,
}

impl MemoryPlan {
    /// Bytes that are taken whatever the search does.
    #[must_use]
    pub fn fixed(&self) -> u64 {
        let fixed = |model: &ModelMemory| model.weights + model.buffers;
        self.models.iter().map(fixed).sum()
    }

    /// Bytes with full KV caches.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.fixed() + self.models.iter().map(|model| model.kv).sum::<u64>()
    }

    /// Lowers what the KV caches may take until everything fits: what is left when each has one chain of
    /// `longest` tokens (or its full context) is shared equally.
    ///
    /// # Errors
    /// [`Error::Memory`] if weights and buffers leave no room for one such chain in each model or for
    /// what its cache may take, whichever is less.
    pub(crate) fn fit(&mut self, longest: usize) -> Result<(), Error> {
        let Some(available) = self.available else {
            return Ok(());
        };
        let usable = available - available / SPARE;
        let least = |model: &ModelMemory| {
            let tokens = model.context.min(longest) as u64;
            model.kv.min(tokens * model.kv_per_token)
        };
        let needed = self.fixed() + self.models.iter().map(least).sum::<u64>();
        if needed > usable {
            return Err(Error::Memory { needed, usable });
        }
        // Whoever wants less than an equal share leaves the rest to the others.
        let mut left = usable - needed;
        let mut by_wish: Vec<&mut ModelMemory> = self.models.iter_mut().collect();
        by_wish.sort_by_key(|model| model.kv - least(model));
        let mut models = by_wish.len() as u64;
        for model in by_wish {
            let least = least(model);
            let more = (model.kv - least).min(left / models);
            model.kv = least + more;
            left -= more;
            models -= 1;
        }
        Ok(())
    }
}

/// Bytes that programs can have now, within the limits of the control group.
pub(crate) fn available() -> Option<u64> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory));
    let free = system.available_memory();
    let limit = system
        .cgroup_limits()
        .map_or(u64::MAX, |limits| limits.free_memory);
    Some(free.min(limit)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(weights: u64, kv: u64) -> ModelMemory {
        ModelMemory {
            role: "generator",
            name: "m".into(),
            weights,
            buffers: 10,
            kv,
            kv_per_token: 1,
            context: 100,
        }
    }

    const LONGEST: usize = 1000;

    fn fitted(available: u64, models: Vec<ModelMemory>) -> Result<MemoryPlan, Error> {
        let mut plan = MemoryPlan {
            models,
            available: Some(available),
        };
        plan.fit(LONGEST).map(|()| plan)
    }

    #[test]
    fn caches_share_what_is_left() {
        let caches = |available, kv: &[u64]| -> Vec<u64> {
            let models = kv.iter().map(|kv| model(40, *kv)).collect();
            let plan = fitted(available, models).unwrap();
            plan.models.iter().map(|model| model.kv).collect()
        };
        // 900 usable, 100 of them taken.
        assert_eq!(caches(1000, &[300, 300]), [300, 300]);
        assert_eq!(caches(1000, &[700, 700]), [400, 400]);
        assert_eq!(caches(1000, &[700, 150]), [650, 150]);
    }

    #[test]
    fn a_long_context_has_its_room() {
        let long = ModelMemory {
            context: 600,
            ..model(40, 700)
        };
        let plan = fitted(1000, vec![long, model(40, 700)]).unwrap();
        // 900 usable, 100 taken, 600 and 100 for a full context each.
        assert_eq!((plan.models[0].kv, plan.models[1].kv), (650, 150));
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(fitted(1000, vec![model(700, 100)]).is_ok());
        let error = fitted(1000, vec![model(900, 100)]).unwrap_err().to_string();
        assert!(error.contains("--dtype"), "{error}");
        assert!(error.contains("kv_bytes"), "{error}");
    }

    /// A long context is no reason to refuse what short chains fit into.
    #[test]
    fn only_chains_that_can_be_count() {
        let mut long = model(700, 100_000);
        long.context = 131_072;
        assert!(fitted(1000, vec![long.clone()]).is_err());
        let mut plan = MemoryPlan {
            models: vec![long],
            available: Some(1000),
        };
        assert!(plan.fit(150).is_ok());
        assert_eq!(plan.models[0].kv, 190);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
