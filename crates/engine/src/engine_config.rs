//! Settings of an engine, with their defaults and limits.

use beamgen_kernels::{Isa, IsaLevel, MachineRates, ThreadPool};
use serde::{Deserialize, Serialize};

use crate::{DeviceChoice, Error, KvType};

/// The settings of an [`Engine`](crate::Engine): its memory, its device and its precision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// The number of positions in a page, 1 to 256. Multiples of 16 are the fastest.
    pub page_size: usize,
    /// The most bytes of keys and values; in a configuration file also a size such as `"2GiB"`. The
    /// processor allocates them page by page, a CUDA device all at once. 0 (`"auto"`) means the
    /// default of [`kv_budget`](Self::kv_budget).
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub kv_bytes: usize,
    /// The number type of cached keys and values. Half precision halves their memory.
    pub kv_dtype: KvType,
    /// Whether tokens that begin as another sequence did are found in its pages and not read again.
    /// Results are the same. Prompts of freed sequences are kept in up to 64 MiB, and up to a
    /// sixteenth of the budget; the least recently used are given up first.
    pub prefix_cache: bool,
    /// The most rows of a pass. Longer calls are split into passes, with the same results.
    pub max_rows: usize,
    /// The device on which models are loaded. An engine always runs on its model's device.
    pub device: DeviceChoice,
    /// Whether passes on a CUDA device may be recorded as graphs. Graphs change only the speed.
    pub cuda_graphs: bool,
    /// The number of threads on the processor; 0 means one for each physical core.
    pub threads: usize,
    /// The processor's instruction set. A set that the machine lacks is an error.
    pub isa: IsaChoice,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            page_size: 16,
            kv_bytes: 0,
            kv_dtype: KvType::Auto,
            prefix_cache: true,
            max_rows: 512,
            device: DeviceChoice::Auto,
            cuda_graphs: true,
            threads: 0,
            isa: IsaChoice::Auto,
        }
    }
}

/// The instruction set of the processor that an engine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsaChoice {
    /// The fastest instruction set that [`Isa::detect`] finds on this machine.
    #[default]
    Auto,
    /// AVX-512 with AMX's tiles of bytes and of bfloat16.
    Amx,
    /// AVX-512.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// Plain loops, which run on any processor.
    Portable,
}

impl EngineConfig {
    /// The most bytes of keys and values: `kv_bytes`, or 4 GiB if that is 0. If several models
    /// share a device, the caller should set `kv_bytes`.
    #[must_use]
    pub fn kv_budget(&self) -> usize {
        match self.kv_bytes {
            0 => 4 << 30,
            bytes => bytes,
        }
    }

    /// Refuses settings that no machine supports, before a model is loaded.
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

    /// Measures the machine's best rates with these settings' instructions and threads, on two
    /// arrays of `memory` bytes (see [`MachineRates::measure`]).
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting is invalid, or the machine lacks the instruction set or the
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
    /// Returns the name of the instruction set that this machine will use: `amx`, `avx512`, `avx2`
    /// or `portable`.
    ///
    /// # Errors
    /// [`Error::Setting`] if the machine lacks the instruction set.
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
