//! Functions of f32 values, in forms that the compiler can vectorise in loops.

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The exponential by a polynomial in the style of Cephes, with a relative error below 3e-7. A call of libm's `exp`
/// would not be vectorised.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Outside this range 2^n below is not a normal f32.
    let x = x.clamp(-87.0, 87.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    // ln 2 is split into two constants, since a single f32 would lose digits of `r` for large `n`.
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4_f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_6e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    // The bits of 2^n are the biased exponent and a zero mantissa.
    e * f32::from_bits(((n as i32 + 127) << 23) as u32)
}

/// Folds a row into 16 accumulators and these into one, so that the compiler computes a sum or maximum with vector
/// instructions.
#[inline(always)]
pub(super) fn lanes(row: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut acc = [start; 16];
    for c in row.chunks(16) {
        for (a, v) in acc.iter_mut().zip(c) {
            *a = f(*a, *v);
        }
    }
    acc.iter().copied().fold(start, &f)
}

#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    // `f32::max` must treat NaN specially, which would cost extra instructions.
    if a > b { a } else { b }
}

vectorised! {
    /// Writes `exp(row - max(row))` to `out`. Returns the maximum and the sum of `out`.
    pub(super) fn exponentials<'a>(out: &'a mut [f32], row: &'a [f32]) -> (f32, f32) {
        let max = lanes(row, f32::MIN, larger);
        for (o, z) in out.iter_mut().zip(row) {
            *o = exp(z - max);
        }
        (max, lanes(out, 0.0, |a, b| a + b))
    }
}
