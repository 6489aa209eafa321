//! Settings of an engine.

use beamgen_kernels::{Isa, IsaLevel, MachineRates, ThreadPool};
use serde::{Deserialize, Serialize};

use crate::{DeviceChoice, Error, KvType};

/// Settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Positions of a page, 1 to 256. Multiples of 16 are fastest.
    pub page_size: usize,
    /// Most bytes of keys and values; in a file also as a size (`"2GiB"`). They are taken from the
    /// system when they are needed, on a CUDA device at once. 0 (`"auto"`) is
    /// [`kv_budget`](Self::kv_budget)'s.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub kv_bytes: usize,
    /// How keys and values are kept.
    pub kv_dtype: KvType,
    /// Rows computed at once; longer calls are cut, with the same results.
    pub max_rows: usize,
    /// What computes. An engine computes where its model is; this says where models are loaded.
    pub device: DeviceChoice,
    /// Whether passes on a CUDA device may be recorded as graphs, which changes their speed only.
    pub cuda_graphs: bool,
    /// Threads; 0 is one for each physical core.
    pub threads: usize,
    /// Instructions of the processor to use.
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

/// Instructions to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsaChoice {
    /// The best the machine has.
    #[default]
    Auto,
    /// AVX-512 with AMX's tiles of bytes and of bfloat16.
    Amx,
    /// AVX-512.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// What the compiler makes of plain loops.
    Portable,
}

impl EngineConfig {
    /// Most bytes of keys and values. Where that is open it is 4 GiB; whoever knows which models
    /// share a device's memory shares it out instead.
    #[must_use]
    pub fn kv_budget(&self) -> usize {
        match self.kv_bytes {
            0 => 4 << 30,
            bytes => bytes,
        }
    }

    /// Refuses settings that no machine can have, before anything is loaded.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn validate(&self) -> Result<(), Error> {
        let most = ThreadPool::MAX_THREADS;
        if self.threads <= most {
            return Ok(());
        }
        let reason = format!("{} is too many: at most {most}", self.threads);
        Err(Error::setting("threads", reason))
    }

    /// What the machine can do at best with these instructions and threads, measured now with
    /// `memory` bytes twice (see [`MachineRates::measure`]).
    ///
    /// # Errors
    /// [`Error::Setting`] if the settings cannot be, or the machine lacks the instructions or the
    /// memory.
    pub fn ceilings(&self, memory: usize) -> Result<MachineRates, Error> {
        self.validate()?;
        let pool = ThreadPool::new(self.threads);
        let rates = MachineRates::measure(&pool, self.isa.resolve()?, memory);
        rates.map_err(|error| {
            let reason = format!("{memory} bytes twice cannot be had: {error}");
            Error::setting("memory", reason)
        })
    }
}

impl IsaChoice {
    /// The tier that this machine will use: `amx`, `avx512`, `avx2` or `portable`.
    ///
    /// # Errors
    /// The machine lacks it.
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
        let missing = || Error::setting("isa", format!("this machine has no {level:?}"));
        Isa::new(level).ok_or_else(missing)
    }
}
