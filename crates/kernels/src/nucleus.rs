//! Selects the largest values of a row, by number or by sum. A search with pivots replaces a sort.

use crate::Isa;
use crate::isa::Task;
use crate::simd::{LANES, Simd};
use crate::softmax::{BLOCK, for_vectors};

/// The number of pivots in a round. Seven pivots would be a sixth slower with AVX-512, and a tenth
/// faster with AVX2.
const PIVOTS: usize = 4;
/// The most values that are sorted at the end of the search.
const FEW: usize = 64;

/// Appends the indices of values of at least `floor`, in rising order. `first` is the index of
/// `x[0]`.
pub fn indices_at_least(isa: Isa, x: &[f32], floor: f32, first: usize, out: &mut Vec<u32>) {
    isa.run(Indices(x, floor, first, out));
}

/// For each block of weights, writes the sum of the weights that are at least `least`. The
/// additions have the order of [`exp_sums`](crate::exp_sums).
///
/// # Panics
/// If `sums` does not have one place per block.
pub fn sums_at_least(isa: Isa, weights: &[f32], least: f32, sums: &mut [f64]) {
    assert_eq!(sums.len(), weights.len().div_ceil(BLOCK));
    isa.run(SumsAtLeast(weights, least, sums));
}

/// The limit of a nucleus. A nucleus is the fewest largest weights whose sum reaches a given value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nucleus {
    /// The least weight in the nucleus.
    pub least: f32,
    /// The number of weights in the nucleus that equal `least`; at least 1.
    pub equals: usize,
    /// Whether weights outside the nucleus also equal `least`.
    pub more: bool,
}

/// Finds the nucleus of `weights`: the fewest largest weights, at least one, whose sum reaches the
/// fraction `p` of `sum`. The weights must be from 0 to 1, and `sum` must be their sum. `None`
/// means that all weights above 0 are in the nucleus. `spare` is working memory, which grows to
/// sixteen more places than weights.
#[must_use]
pub fn nucleus(
    isa: Isa,
    weights: &[f32],
    sum: f64,
    p: f32,
    spare: &mut Vec<f32>,
) -> Option<Nucleus> {
    spare.resize(weights.len() + LANES, 0.0);
    let p = f64::from(p).clamp(0.0, 1.0);
    // The target is above 0, so that a `p` of 0 takes the largest weight.
    let missing = (sum * p).max(f64::MIN_POSITIVE);
    // Bits of positive floats are in the order of the floats, and nearly even in their logarithm.
    // The limit is above `low` and at most `high`: all the weights of at most `low` together have
    // less than the rest of the sum.
    let mut low = (0.999 * (1.0 - p) * sum / weights.len() as f64) as f32;
    let mut high = 1.0f32;
    // `above` is the sum of the weights above `high`. `left` is the number of weights in `spare`,
    // which are those above `low` and at most `high`.
    let mut above = 0.0;
    let mut left = None;
    while high.to_bits() - low.to_bits() > 1 && left.is_none_or(|n| n > FEW) {
        let (from, range) = (low.to_bits(), u64::from(high.to_bits() - low.to_bits()));
        let pivots = std::array::from_fn(|i| {
            let part = range * (i as u64 + 1) / (PIVOTS as u64 + 1);
            f32::from_bits(from + part as u32)
        });
        let values = left.map_or(weights, |n| &spare[..n]);
        let sums = isa.run(SumsAbove(values, pivots));
        for (pivot, sum) in pivots.into_iter().zip(sums) {
            if above + sum < missing {
                (high, above) = (pivot, above + sum);
                break;
            }
            low = pivot;
        }
        let values = left.map_or(weights.as_ptr(), |_| spare.as_ptr());
        let len = left.unwrap_or(weights.len());
        // SAFETY: `len` values to read and `len + 16` places, which are the same or apart.
        left = Some(isa.run(unsafe { Between::new(values, len, low, high, spare.as_mut_ptr()) }));
    }
    let rest = match left {
        Some(n) => &mut spare[..n],
        None => return None,
    };
    rest.sort_unstable_by(|a, b| b.total_cmp(a));
    for equal in rest.chunk_by(|a, b| a == b) {
        let (least, count) = (equal[0], equal.len());
        let with = above + count as f64 * f64::from(least);
        if with >= missing {
            let equals = ((missing - above) / f64::from(least)).ceil() as usize;
            return Some(Nucleus {
                least,
                equals: equals.clamp(1, count),
                more: equals < count,
            });
        }
        above = with;
    }
    None
}

struct Indices<'a>(&'a [f32], f32, usize, &'a mut Vec<u32>);

impl Task for Indices<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self(x, floor, first, out) = self;
        let floor = s.splat(floor);
        for_vectors!(s, x, |at, n, v| {
            let mut mask = u32::from(s.at_least(v, floor)) & ((1 << n) - 1);
            while mask != 0 {
                out.push((first + at) as u32 + mask.trailing_zeros());
                mask &= mask - 1;
            }
        });
    }
}

struct SumsAtLeast<'a>(&'a [f32], f32, &'a mut [f64]);

impl Task for SumsAtLeast<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self(weights, least, sums) = self;
        let least = s.splat(least);
        for (block, out) in weights.chunks(BLOCK).zip(sums) {
            let mut sum = s.widen(s.splat(0.0));
            for_vectors!(s, block, |at, _n, v| {
                // The lanes beyond the end are minus infinity, so they are never added.
                sum = s.add_where(sum, s.widen(v), v, least);
            });
            *out = s.sum_wide(sum);
        }
    }
}

/// Sums the values above each pivot. The pivots are positive and rising.
struct SumsAbove<'a>(&'a [f32], [f32; PIVOTS]);

impl Task for SumsAbove<'_> {
    type Output = [f64; PIVOTS];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f64; PIVOTS] {
        let Self(values, pivots) = self;
        let [p, q, r, t] = pivots.map(|pivot| s.splat(pivot.next_up()));
        let zero = s.widen(s.splat(0.0));
        let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
        for_vectors!(s, values, |at, _n, v| {
            let wide = s.widen(v);
            a = s.add_where(a, wide, v, p);
            b = s.add_where(b, wide, v, q);
            c = s.add_where(c, wide, v, r);
            d = s.add_where(d, wide, v, t);
        });
        [s.sum_wide(a), s.sum_wide(b), s.sum_wide(c), s.sum_wide(d)]
    }
}

/// Moves the values above `low` and of at most `high` to the front of `to`; returns their number.
struct Between {
    from: *const f32,
    len: usize,
    low: f32,
    high: f32,
    to: *mut f32,
}

impl Between {
    /// # Safety
    /// `from` must be valid for reading `len` floats and `to` for writing `len + 16`; they may be
    /// the same, and else must not overlap.
    unsafe fn new(from: *const f32, len: usize, low: f32, high: f32, to: *mut f32) -> Self {
        Self {
            from,
            len,
            low,
            high,
            to,
        }
    }
}

impl Task for Between {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        let (low, high) = (s.splat(self.low.next_up()), s.splat(self.high.next_up()));
        let (mut at, mut n) = (0, 0);
        while at < self.len {
            let lanes = (self.len - at).min(LANES);
            // SAFETY: `at + lanes <= len`. Writing begins at `n <= at`, after all values up to `at
            // + 16` were read, and ends before `len + 16`.
            unsafe {
                let v = s.load_first(self.from.add(at), lanes, f32::NEG_INFINITY);
                let mask = s.at_least(v, low) & !s.at_least(v, high);
                s.compress(self.to.add(n), v, mask);
                n += mask.count_ones() as usize;
            }
            at += LANES;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, noise};

    fn lengths() -> impl Iterator<Item = usize> {
        SIZES.into_iter().chain([1000, 1023, 1025, 5000, 49_152])
    }

    /// Weights like those of logits of a given spread, the largest 1.
    fn weights(n: usize, spread: f32, seed: u64) -> Vec<f32> {
        let mut w: Vec<f32> = noise(n, seed)
            .iter()
            .map(|x| (spread * (x - 1.0)).exp())
            .collect();
        w[n / 2] = 1.0;
        w
    }

    /// Returns the indices in the nucleus, by sorting and summing in float64.
    fn nucleus_reference(weights: &[f32], p: f32) -> Vec<usize> {
        let mut ids: Vec<usize> = (0..weights.len()).collect();
        ids.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        let total: f64 = ids.iter().map(|i| f64::from(weights[*i])).sum();
        let mut sum = 0.0;
        let end = ids.iter().position(|i| {
            sum += f64::from(weights[*i]);
            sum >= total * f64::from(p)
        });
        ids.truncate(end.map_or(ids.len(), |end| end + 1));
        ids.retain(|i| weights[*i] > 0.0);
        ids.sort_unstable();
        ids
    }

    fn kept(isa: Isa, weights: &[f32], p: f32) -> Vec<usize> {
        let sum = weights.iter().map(|w| f64::from(*w)).sum();
        let mut spare = Vec::new();
        let above_zero = (0..weights.len()).filter(|i| weights[*i] > 0.0);
        let Some(nucleus) = nucleus(isa, weights, sum, p, &mut spare) else {
            return above_zero.collect();
        };
        let equal = weights.iter().filter(|w| **w == nucleus.least).count();
        assert_eq!(nucleus.more, nucleus.equals < equal);
        let mut equals = nucleus.equals;
        above_zero
            .filter(|i| {
                let w = weights[*i];
                if w == nucleus.least && equals > 0 {
                    equals -= 1;
                    return true;
                }
                w > nucleus.least
            })
            .collect()
    }

    #[test]
    fn nuclei_equal_those_of_a_sort() {
        for isa in Isa::all() {
            for n in lengths() {
                for spread in [0.0, 0.1, 3.0, 20.0] {
                    let w = weights(n, spread, 3);
                    for p in [1e-9, 0.3, 0.5, 0.9, 0.95, 0.999, 0.999_999_94] {
                        let want = nucleus_reference(&w, p);
                        // Equal weights have one sum, whichever of them come first.
                        assert_eq!(kept(isa, &w, p), want, "{isa:?} {n} {spread} {p}");
                    }
                }
            }
        }
    }

    #[test]
    fn nuclei_of_few_different_weights() {
        for isa in Isa::all() {
            for n in lengths() {
                let w: Vec<f32> = (0..n)
                    .map(|i| [1.0, 0.25, 0.25, 0.0, 0.5, 2f32.powi(-20)][i % 6])
                    .collect();
                for p in [0.0, 0.25, 0.5, 0.75, 0.9, 0.99] {
                    assert_eq!(
                        kept(isa, &w, p),
                        nucleus_reference(&w, p),
                        "{isa:?} {n} {p}"
                    );
                }
            }
        }
    }

    #[test]
    fn indices_and_sums_equal_the_reference() {
        for isa in Isa::all() {
            for n in lengths() {
                let mut x = noise(n, 5);
                x[n / 3] = f32::NAN;
                for floor in [f32::MIN, -0.5, 0.0, 0.9, 2.0] {
                    let mut got = vec![7];
                    indices_at_least(isa, &x, floor, 100, &mut got);
                    let want = (0..n).filter(|i| x[*i] >= floor).map(|i| i as u32 + 100);
                    assert_eq!(got, [7].into_iter().chain(want).collect::<Vec<_>>());
                }
                let w = weights(n, 9.0, 6);
                let mut sums = vec![9.0; n.div_ceil(BLOCK)];
                sums_at_least(isa, &w, 0.01, &mut sums);
                for (got, block) in sums.iter().zip(w.chunks(BLOCK)) {
                    let some = block.iter().filter(|w| **w >= 0.01);
                    let want: f64 = some.map(|w| f64::from(*w)).sum();
                    assert!((got - want).abs() <= 1e-13 * want);
                }
            }
        }
    }
}
