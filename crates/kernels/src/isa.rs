//! Chooses the instruction set. The choice is made once and passed on as a value.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use crate::simd::{Int8, Portable, Simd};
#[cfg(target_arch = "x86_64")]
use crate::simd::{
    avx2::Avx2,
    avx512::Avx512,
    tiles,
    vnni::{Vnni256, Vnni512},
};

/// The name of a tier of instructions. The machine may lack it; compare [`Isa`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsaLevel {
    /// AVX-512, and AMX's tiles of bytes and of bfloat16. Tiles speed up int8 layers, layers of
    /// [`WeightFormat::Bf16Tiles`](crate::WeightFormat) and attention over bfloat16, with the same
    /// results.
    Amx,
    /// AVX-512 F, VL, DQ and BW.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// Plain loops, with the instructions that the compiler chooses (SSE2 on x86-64, NEON on
    /// aarch64).
    Portable,
}

/// A tier of instructions *that this machine has*. Holding one is the proof that its
/// instructions may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa {
    level: IsaLevel,
    /// Whether the tier's registers have the dot product of four bytes (AVX512-VNNI, AVX-VNNI,
    /// aarch64's `dotprod`). It makes int8 layers faster, with the same results.
    vnni: bool,
    /// Whether the tier has the dot product of two bfloat16 (AVX512-BF16), and it is faster than two
    /// multiply-adds of float32 ([`fast_bf16`]). It makes layers of
    /// [`WeightFormat::Bf16Pairs`](crate::WeightFormat) faster, with the same results.
    bf16: bool,
}

impl Isa {
    /// The best tier of this machine.
    #[must_use]
    pub fn detect() -> Self {
        [IsaLevel::Amx, IsaLevel::Avx512, IsaLevel::Avx2]
            .into_iter()
            .find_map(Self::new)
            .or_else(|| Self::new(IsaLevel::Portable))
            .expect("plain loops run everywhere")
    }

    /// Returns the tier `level`, or `None` if this machine lacks the instructions.
    #[must_use]
    pub fn new(level: IsaLevel) -> Option<Self> {
        let present = match level {
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Amx => {
                // Calls with few rows use VNNI even if the machine has tiles.
                Self::new(IsaLevel::Avx512).is_some_and(|isa| isa.vnni) && tiles::present()
            }
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    // Int8 layers without VNNI run on the lower tier.
                    && Self::new(IsaLevel::Avx2).is_some()
            }
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            IsaLevel::Amx | IsaLevel::Avx512 | IsaLevel::Avx2 => false,
            IsaLevel::Portable => true,
        };
        let vnni = match level {
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Amx | IsaLevel::Avx512 => is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "aarch64")]
            IsaLevel::Portable => std::arch::is_aarch64_feature_detected!("dotprod"),
            _ => false,
        };
        let bf16 = match level {
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Amx | IsaLevel::Avx512 => fast_bf16(),
            _ => false,
        };
        present.then_some(Self { level, vnni, bf16 })
    }

    /// Pretends that the machine lacks VNNI, so that tests cover the other instructions.
    #[cfg(test)]
    pub(crate) fn without_vnni(self) -> Self {
        let level = match self.level {
            IsaLevel::Amx => IsaLevel::Avx512,
            other => other,
        };
        Self {
            level,
            vnni: false,
            ..self
        }
    }

    /// Turns AVX512-BF16 on, even where it is slow, or off, so that tests cover both.
    #[cfg(test)]
    pub(crate) fn with_bf16(self, on: bool) -> Self {
        #[cfg(target_arch = "x86_64")]
        let present = matches!(self.level, IsaLevel::Amx | IsaLevel::Avx512)
            && is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        let present = false;
        Self {
            bf16: on && present,
            ..self
        }
    }

    /// Whether AMX's tiles may be used.
    pub(crate) fn tiles(self) -> bool {
        self.level == IsaLevel::Amx
    }

    /// Every tier of this machine, best first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        [
            IsaLevel::Amx,
            IsaLevel::Avx512,
            IsaLevel::Avx2,
            IsaLevel::Portable,
        ]
        .into_iter()
        .filter_map(Self::new)
        .collect()
    }

    /// The name of this tier, as in a configuration. VNNI is not part of the name.
    #[must_use]
    pub fn level(self) -> IsaLevel {
        self.level
    }

    /// Runs `task` compiled for this tier.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self.level {
            // SAFETY: an `Isa` of this level exists only if `Isa::new` found the features.
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Amx | IsaLevel::Avx512 => unsafe { run_avx512(task) },
            // SAFETY: an `Isa` of this level exists only if `Isa::new` found AVX2, FMA and F16C.
            #[cfg(target_arch = "x86_64")]
            IsaLevel::Avx2 => unsafe { run_avx2(task) },
            _ => run_portable(task),
        }
    }

    /// Whether the dot products of bfloat16 are the fastest way to multiply pairs.
    pub(crate) fn bf16(self) -> bool {
        self.bf16
    }

    /// Runs `task` compiled for this tier's dot products of bfloat16.
    ///
    /// # Panics
    /// If there are none ([`bf16`](Self::bf16)).
    #[inline]
    pub(crate) fn run_bf16<T: Task>(self, task: T) -> T::Output {
        assert!(self.bf16, "the tier has dot products of bfloat16");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `bf16` says that `Isa::new` found the features.
        return unsafe { run_avx512_bf16(task) };
        #[cfg(not(target_arch = "x86_64"))]
        self.run(task)
    }

    /// The most rows of a register block of int8 layers. More would not fit in the registers.
    pub(crate) fn int8_rows(self) -> usize {
        match (self.level, self.vnni) {
            (IsaLevel::Amx | IsaLevel::Avx512, true) => 6,
            _ => 3,
        }
    }

    /// Runs `task` compiled for this tier's dot products of bytes.
    #[inline]
    pub(crate) fn run_int8<T: Int8Task>(self, task: T) {
        match (self.level, self.vnni) {
            // SAFETY: an `Isa` of this level, and with `vnni`, exists only if `Isa::new` found the
            // features.
            #[cfg(target_arch = "x86_64")]
            (IsaLevel::Amx | IsaLevel::Avx512, true) => unsafe { run_vnni512(task) },
            // SAFETY: `vnni` at this level says that `Isa::new` found AVX-VNNI.
            #[cfg(target_arch = "x86_64")]
            (IsaLevel::Avx2, true) => unsafe { run_vnni256(task) },
            // SAFETY: `Isa::new` asks for AVX2 at each of these levels.
            #[cfg(target_arch = "x86_64")]
            (IsaLevel::Amx | IsaLevel::Avx512 | IsaLevel::Avx2, false) => unsafe {
                run_int8_avx2(task);
            },
            // SAFETY: `vnni` at this level says that `Isa::new` found the dot products of bytes.
            #[cfg(target_arch = "aarch64")]
            (IsaLevel::Portable, true) => unsafe { run_dotprod(task) },
            _ => run_int8_portable(task),
        }
    }
}

/// Whether VDPBF16PS exists and takes less time than the two multiply-adds of float32 that it
/// replaces.
/// 10^9 operations a second of one core (a multiply-add counts as two), as
/// [`Ceilings`](crate::Ceilings) measures them:
///
/// | processor | float32 | VDPBF16PS |
/// |---|---:|---:|
/// | AMD Zen 4 | 117 | 233 |
/// | AMD Zen 5 | 268 | 502 |
/// | Intel Emerald Rapids | 171 | 86 |
///
/// Other processors of a maker were not measured, and are taken to be alike.
#[cfg(target_arch = "x86_64")]
fn fast_bf16() -> bool {
    is_x86_feature_detected!("avx512bf16") && !is_intel()
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    // CPUID takes 40 microseconds in a virtual machine.
    static INTEL: LazyLock<bool> = LazyLock::new(|| {
        let id = std::arch::x86_64::__cpuid(0);
        [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
    });
    *INTEL
}

/// The body of an operation, written once over [`Simd`] and compiled once a tier.
///
/// `run` must be `#[inline(always)]`, and so must what it calls with the `Simd` value: only
/// code inlined into the entry points below is compiled with the tier's instructions. A part
/// that is a task itself becomes a function of its own by [`Simd::call`].
pub(crate) trait Task {
    type Output;
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

#[inline(never)]
pub(crate) fn run_portable<T: Task>(task: T) -> T::Output {
    task.run(Portable)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
#[inline(never)]
pub(crate) fn run_avx512<T: Task>(task: T) -> T::Output {
    task.run(Avx512::new())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")]
#[inline(never)]
pub(crate) fn run_avx512_bf16<T: Task>(task: T) -> T::Output {
    task.run(Avx512::with_bf16())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
pub(crate) fn run_avx2<T: Task>(task: T) -> T::Output {
    task.run(Avx2::new())
}

/// A [`Task`] over [`Int8`]. Its `run` must be `#[inline(always)]`, too.
pub(crate) trait Int8Task {
    fn run<I: Int8>(self, ints: I);
}

#[inline(never)]
pub(crate) fn run_int8_portable<T: Int8Task>(task: T) {
    task.run(Portable);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")]
#[inline(never)]
pub(crate) fn run_vnni512<T: Int8Task>(task: T) {
    task.run(Vnni512::new());
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
#[inline(never)]
pub(crate) fn run_vnni256<T: Int8Task>(task: T) {
    task.run(Vnni256::new());
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,dotprod")]
#[inline(never)]
pub(crate) fn run_dotprod<T: Int8Task>(task: T) {
    task.run(crate::simd::neon::Dotprod::new());
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
pub(crate) fn run_int8_avx2<T: Int8Task>(task: T) {
    task.run(Avx2::new());
}
