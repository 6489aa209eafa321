//! Functions of single values, written so that compilers vectorise loops over them.

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The exponential by a Cephes-style polynomial, relative error below 3e-7. A libm call would not
/// vectorise.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Outside this range the exponent below would leave the normal numbers of f32.
    let x = x.clamp(-87.0, 87.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    // ln 2 in two pieces: a single f32 would lose digits of `r` for large `n`.
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4_f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_6e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    // The bits of 2^n: the biased exponent, a zero mantissa.
    e * f32::from_bits(((n as i32 + 127) << 23) as u32)
}

/// Folds a row with 16 accumulators, so that the compiler takes a sum or a maximum by whole
/// vectors.
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
    // `f32::max` also handles NaN, which costs the vectorised loop extra instructions.
    if a > b { a } else { b }
}

vectorised! {
    /// Writes `exp(row - max)` to `out`; returns the maximum of `row` and the sum of `out`.
    pub(super) fn exponentials<'a>(out: &'a mut [f32], row: &'a [f32]) -> (f32, f32) {
        let max = lanes(row, f32::MIN, larger);
        for (o, z) in out.iter_mut().zip(row) {
            *o = exp(z - max);
        }
        (max, lanes(out, 0.0, |a, b| a + b))
    }
}
