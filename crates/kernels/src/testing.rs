//! Helpers of the tests.

use crate::{Cpu, Isa, Parallel};

/// Sizes around the widths of registers and panels.
pub(crate) const SIZES: [usize; 14] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37, 129];

/// Uniform in -1..1, the same for the same seed.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Every tier of this machine, one thread.
pub(crate) fn cpus() -> Vec<Cpu<'static>> {
    Isa::all()
        .into_iter()
        .map(|isa| Cpu {
            isa,
            parallel: Parallel::serial(),
        })
        .collect()
}

/// `|a - b| <= tolerance * (1 + |b|)` for every element.
#[track_caller]
pub(crate) fn assert_close(a: &[f32], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let difference = (f64::from(*a) - b).abs();
        assert!(
            difference <= tolerance * (1.0 + b.abs()),
            "at {i}: {a} instead of {b}"
        );
    }
}

/// Bitwise equality, for the invariance tests.
#[track_caller]
pub(crate) fn assert_same_bits(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "at {i}: {a} instead of {b}");
    }
}
