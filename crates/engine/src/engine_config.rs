//! Settings of an engine, and their limits.

use beamgen_kernels::{Isa, IsaLevel, MachineRates, ThreadPool};
use serde::{Deserialize, Serialize};

use crate::{DeviceChoice, Error, KvType};

/// The settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// The number of positions in a page, 1 to 256. Multiples of 16 are fastest.
    pub page_size: usize,
    /// The most bytes of keys and values; in a file also a size such as `"2GiB"`. The processor
    /// allocates them page by page, a CUDA device all at once. 0 (`"auto"`) means
    /// [`kv_budget`](Self::kv_budget).
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub kv_bytes: usize,
    /// The number type of cached keys and values.
    pub kv_dtype: KvType,
    /// The most rows of a pass. Longer calls are split, with the same results.
    pub max_rows: usize,
    /// The device that models are loaded on. An engine computes where its model is.
    pub device: DeviceChoice,
    /// Whether passes on a CUDA device may be recorded as graphs, which changes only their speed.
    pub cuda_graphs: bool,
    /// The number of threads; 0 means one for each physical core.
    pub threads: usize,
    /// The instruction set of the processor.
    pub isa: IsaChoice,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            page_size: 16,
            kv_bytes: 0,
            kv_dtype: KvType::Auto,
            max_rows: 512,
            device: DeviceChoice::Auto,
            cuda_graphs: true,
            threads: 0,
            isa: IsaChoice::Auto,
        }
    }
}

/// The instruction sets of the processor that an engine may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsaChoice {
    /// The fastest instruction set that this machine has.
    #[default]
    Auto,
    /// AVX-512 with AMX's tiles of bytes and of bfloat16.
    Amx,
    /// AVX-512.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// Plain loops, compiled for any processor.
    Portable,
}

impl EngineConfig {
    /// The most bytes of keys and values. If `kv_bytes` is 0, this is 4 GiB; a caller who knows
    /// which models share a device's memory should set it.
    #[must_use]
    pub fn kv_budget(&self) -> usize {
        match self.kv_bytes {
            0 => 4 << 30,
            bytes => bytes,
        }
    }

    /// Refuses settings that no machine supports, before anything is loaded.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn validate(&self) -> Result<(), Error> {
        let most = ThreadPool::MAX_THREADS;
        if self.threads <= most {
            return Ok(());
        }
        let reason = format!("{} is too many: use at most {most}", self.threads);
        Err(Error::setting("threads", reason))
    }

    /// Measures the machine's best rates with these instructions and threads, on two arrays of
    /// `memory` bytes (see [`MachineRates::measure`]).
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting is invalid, or the machine lacks the instructions or the
    /// memory.
    pub fn ceilings(&self, memory: usize) -> Result<MachineRates, Error> {
        self.validate()?;
        let pool = ThreadPool::new(self.threads);
        let rates = MachineRates::measure(&pool, self.isa.resolve()?, memory);
        rates.map_err(|error| {
            let reason = format!("two arrays of {memory} bytes are not available: {error}");
            Error::setting("memory", reason)
        })
    }
}

impl IsaChoice {
    /// The name of the instruction set that this machine will use: `amx`, `avx512`, `avx2` or
    /// `portable`.
    ///
    /// # Errors
    /// [`Error::Setting`] if the machine lacks it.
    pub fn resolved(self) -> Result<&'static str, Error> {
        Ok(match self.resolve()?.level() {
            IsaLevel::Amx => "amx",
            IsaLevel::Avx512 => "avx512",
            IsaLevel::Avx2 => "avx2",
            IsaLevel::Portable => "portable",
        })
    }

    pub(crate) fn resolve(self) -> Result<Isa, Error> {
        let level = match self {
            Self::Auto => return Ok(Isa::detect()),
            Self::Amx => IsaLevel::Amx,
            Self::Avx512 => IsaLevel::Avx512,
            Self::Avx2 => IsaLevel::Avx2,
            Self::Portable => IsaLevel::Portable,
        };
        let found = Isa::new(level);
        found.ok_or_else(|| {
            let reason = format!("this machine has no {level:?}: use auto");
            Error::setting("isa", reason)
        })
    }
}
