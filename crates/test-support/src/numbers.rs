//! Pseudo-random numbers for tests, and comparisons of numerical results.

/// Returns `n` numbers in -1..1 with a uniform distribution, which depend on `seed` only.
#[must_use]
pub fn noise(n: usize, seed: u64) -> Vec<f32> {
    // Xorshift gives the same numbers on every machine, and needs no dependency.
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

/// Asserts that the lengths are equal, and that `|a - b| <= tolerance * (1 + |b|)` for each
/// element.
#[track_caller]
pub fn assert_close(a: &[f32], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let difference = (f64::from(*a) - b).abs();
        assert!(
            difference <= tolerance * (1.0 + b.abs()),
            "at {i}: {a} instead of {b}"
        );
    }
}

/// Asserts that the elements are equal bit by bit, such as for results that must not depend on the
/// batch.
#[track_caller]
pub fn assert_same_bits(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "at {i}: {a} instead of {b}");
    }
}
