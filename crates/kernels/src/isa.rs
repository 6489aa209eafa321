//! Which instructions to use: decided once, carried as a value.

use crate::simd::{Portable, Simd};
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};

/// A tier of instructions, as a person names it in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsaLevel {
    /// AVX-512 F, VL, DQ and BW.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// What the compiler makes of plain loops (SSE2 on x86-64, NEON on aarch64).
    Portable,
}

/// A tier of instructions *that this machine has*. Holding one is the proof that its
/// instructions may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(IsaLevel);

impl Isa {
    /// The best tier of this machine.
    #[must_use]
    pub fn detect() -> Self {
        [IsaLevel::Avx512, IsaLevel::Avx2]
            .into_iter()
            .find_map(Self::new)
            .unwrap_or(Self(IsaLevel::Portable))
    }

    /// That tier, or `None` if this machine lacks it.
    #[must_use]
    pub fn new(level: IsaLevel) -> Option<Self> {
        let present = match level {
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            IsaLevel::Avx512 | IsaLevel::Avx2 => false,
            IsaLevel::Portable => true,
        };
        present.then_some(Self(level))
    }

    /// Every tier of this machine, best first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        [IsaLevel::Avx512, IsaLevel::Avx2, IsaLevel::Portable]
            .into_iter()
            .filter_map(Self::new)
            .collect()
    }

    /// Which tier this is.
    #[must_use]
    pub fn level(self) -> IsaLevel {
        self.0
    }

    /// Runs `task` compiled for this tier.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            // SAFETY: an `Isa` of this level exists only if `Isa::new` found the features.
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx512 => unsafe { run_avx512(task) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => unsafe { run_avx2(task) },
            _ => task.run(Portable),
        }
    }
}

/// The body of an operation, written once over [`Simd`] and compiled once a tier.
///
/// `run` must be `#[inline(always)]`, and so must what it calls with the `Simd` value: only
/// code inlined into the entry points below is compiled with the tier's instructions.
pub(crate) trait Task {
    type Output;
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn run_avx512<T: Task>(task: T) -> T::Output {
    task.run(Avx512::new())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<T: Task>(task: T) -> T::Output {
    task.run(Avx2::new())
}
