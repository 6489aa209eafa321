//! Turns a row of logits and the settings of sampling into a distribution of tokens.

use std::cmp::Ordering;

use beamgen_kernels::{
    BLOCK, ExpRow, Isa, exp_sums, exp_weights, indices_at_least, maxima, maxima_len, nucleus,
    sums_at_least,
};

use super::SamplingParams;

/// The number of weights whose sum is compared at once when a token is searched.
const GROUP: usize = 32;

/// The distribution of the row that was read last. Buffers are reused for the next row.
#[derive(Debug)]
pub(super) struct Distribution {
    isa: Isa,
    /// The logarithm of the sum of exponentials of the row, at temperature 1 and without filters.
    pub(super) total: f64,
    shape: Shape,
    /// The output of [`maxima`]: the largest logits of parts of the row, in which top-k searches.
    maxima: Vec<f32>,
    /// The tokens that top-k keeps, in rising order.
    ids: Vec<u32>,
    /// The logits of the tokens in `ids`.
    logits: Vec<f32>,
    /// The weights of tokens, if a filter reads them more than once.
    weights: Vec<f32>,
    /// The sum of the kept weights in each block of [`BLOCK`] weights.
    sums: Vec<f64>,
    spare: Vec<f32>,
}

/// The form in which the kept tokens' weights are available.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Only this token is possible, so no weights are needed.
    Sure(usize),
    /// The weights are computed again from the row, as `e^((logit - max) * scale)`. Weights below
    /// `least` count as 0.
    Row { max: f32, scale: f32, least: f32 },
    /// The weights are in the field `weights`: those of all tokens, or of the tokens in `ids`.
    /// Weights below `least` count as 0.
    Weights { least: f32, of_ids: bool },
}

impl Distribution {
    pub(super) fn new(isa: Isa) -> Self {
        Self {
            isa,
            total: 0.0,
            shape: Shape::Sure(0),
            maxima: Vec::new(),
            ids: Vec::new(),
            logits: Vec::new(),
            weights: Vec::new(),
            sums: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// Allocates memory for rows of `len` logits. `filtered` means that top-k or top-p is used.
    pub(super) fn reserve(&mut self, len: usize, filtered: bool) {
        room(&mut self.maxima, maxima_len(len));
        room(&mut self.sums, len.div_ceil(BLOCK));
        if filtered {
            room(&mut self.ids, len);
            room(&mut self.logits, len);
            room(&mut self.weights, len);
            room(&mut self.spare, len + 16);
        }
    }

    /// Reads a row. A setting out of range acts like the nearest valid value. `next` is the row
    /// that will be read next, or empty; it is prefetched.
    pub(super) fn read(&mut self, x: &[f32], params: &SamplingParams, next: &[f32]) {
        self.maxima.resize(maxima_len(x.len()), 0.0);
        let max = maxima(self.isa, x, &mut self.maxima);
        // An infinite maximum would make NaN weights. If it is plus infinity, the first such token
        // is certain; if it is minus infinity, no token has a weight.
        if max.is_infinite() {
            self.total = f64::from(max);
            self.shape = Shape::Sure(self.first(x, max));
            return;
        }
        let scale = 1.0 / params.temperature;
        let row = ExpRow {
            x,
            max,
            scale,
            least: 0.0,
            next,
        };
        let min_p = if params.min_p > 0.0 {
            params.min_p.min(1.0)
        } else {
            0.0
        };
        // The inverse is infinite, or not a number, if the temperature is 0, tiny or NaN. All these
        // mean greedy.
        if !(scale > 0.0 && scale.is_finite()) {
            self.sum(ExpRow { scale: 1.0, ..row });
            self.shape = Shape::Sure(self.first(x, max));
        } else if (1..x.len()).contains(&params.top_k) {
            // The total is over the whole row, so it is computed before top-k removes tokens.
            self.sum(ExpRow { scale: 1.0, ..row });
            self.keep_top_k(x, params.top_k);
            let kept = std::mem::take(&mut self.logits);
            // The pass over the whole row has already prefetched the next row.
            let next = &[][..];
            self.weigh(ExpRow {
                x: &kept,
                next,
                ..row
            });
            self.logits = kept;
            self.filter(params.top_p, min_p, true);
        } else if params.top_p < 1.0 {
            let sum = self.weigh(row);
            self.total = f64::from(max) + sum.ln();
            self.filter(params.top_p, min_p, false);
        } else {
            // Without top-k and top-p, a weight is needed only once. No weight is stored: the one
            // block with the sampled token is computed a second time.
            let least = min_p;
            self.sum(ExpRow { least, ..row });
            self.shape = Shape::Row { max, scale, least };
        }
    }

    /// The first index of the maximum; 0 if no logit is above minus infinity.
    fn first(&self, x: &[f32], max: f32) -> usize {
        if max == f32::NEG_INFINITY {
            return 0;
        }
        let mut blocks = self.maxima.chunks_exact(maxima_len(1));
        let block = blocks.position(|maxima| maxima.contains(&max)).unwrap_or(0);
        let from = block * BLOCK;
        from + x[from..].iter().position(|x| *x == max).unwrap_or(0)
    }

    /// Sums the weights of each block without storing them, and sets the total at temperature 1.
    fn sum(&mut self, row: ExpRow<'_>) {
        self.sums.resize(row.x.len().div_ceil(BLOCK), 0.0);
        let sum = exp_sums(self.isa, row, None, &mut self.sums);
        self.total = f64::from(row.max) + sum.ln();
    }

    /// Stores the weights and the sums of their blocks. Returns the sum at temperature 1.
    fn weigh(&mut self, row: ExpRow<'_>) -> f64 {
        self.sums.resize(row.x.len().div_ceil(BLOCK), 0.0);
        self.weights.resize(row.x.len(), 0.0);
        exp_sums(self.isa, row, Some(&mut self.weights), &mut self.sums)
    }

    /// Returns the tokens of the `k` largest logits above minus infinity, largest first, and among
    /// equals the lowest id first. Overwrites the distribution that was read before.
    ///
    /// # Panics
    /// If `k` is 0.
    pub(super) fn likeliest(&mut self, x: &[f32], k: usize) -> &[u32] {
        self.maxima.resize(maxima_len(x.len()), 0.0);
        maxima(self.isa, x, &mut self.maxima);
        self.keep_top_k(x, k);
        // The sort is stable, so equal logits stay in the order of their ids.
        self.ids.sort_by(|&a, &b| {
            let (a, b) = (x[a as usize], x[b as usize]);
            b.partial_cmp(&a).unwrap_or(Ordering::Equal)
        });
        &self.ids
    }

    /// Finds the `k` largest logits, and among equals the lowest ids. Logits of minus infinity are
    /// left out, because they have no weight.
    fn keep_top_k(&mut self, x: &[f32], k: usize) {
        self.ids.clear();
        // The `k`-th largest of the maxima is at most the `k`-th largest logit, so it is a lower
        // bound.
        let mut floor = f32::MIN;
        if k <= self.maxima.len() {
            self.spare.clear();
            self.spare.extend_from_slice(&self.maxima);
            floor = floor.max(nth_largest(&mut self.spare, k));
        }
        let per_block = maxima_len(1);
        for (i, maxima) in self.maxima.chunks_exact(per_block).enumerate() {
            if maxima.iter().any(|most| *most >= floor) {
                let from = i * BLOCK;
                let block = &x[from..x.len().min(from + BLOCK)];
                indices_at_least(self.isa, block, floor, from, &mut self.ids);
            }
        }
        let logit = |id: &u32| x[*id as usize];
        if self.ids.len() > k {
            self.spare.clear();
            self.spare.extend(self.ids.iter().map(logit));
            let least = nth_largest(&mut self.spare, k);
            let above = self.spare[..k].iter().filter(|x| **x > least).count();
            let mut equals = k - above;
            self.ids.retain(|id| {
                let equal = logit(id) == least;
                let stays = if equal { equals > 0 } else { logit(id) > least };
                equals -= usize::from(equal && stays);
                stays
            });
        }
        self.logits.clear();
        self.logits.extend(self.ids.iter().map(logit));
    }

    /// Applies top-p and then min-p to the stored weights.
    fn filter(&mut self, top_p: f32, min_p: f32, of_ids: bool) {
        // Tokens without a weight are never sampled, so `least` may be 0.
        let mut least = min_p;
        if top_p < 1.0 {
            let sum = self.sums.iter().sum();
            if let Some(top) = nucleus(self.isa, &self.weights, sum, top_p, &mut self.spare) {
                // Both filters keep the largest weights, so together they keep those above the
                // larger limit.
                least = least.max(top.least);
                if top.more {
                    // Among equal weights at the limit of top-p, the first ones stay.
                    let equal = self.weights.iter_mut().filter(|w| **w == top.least);
                    equal.skip(top.equals).for_each(|w| *w = 0.0);
                }
            }
        }
        if least > 0.0 {
            sums_at_least(self.isa, &self.weights, least, &mut self.sums);
        }
        self.shape = Shape::Weights { least, of_ids };
    }

    /// Returns the token at which the running sum of weights exceeds the fraction `u()` of the
    /// whole sum. `u` is not called if only one token is possible. `x` must be the row that was
    /// read.
    pub(super) fn token(&self, x: &[f32], u: impl FnOnce() -> f64) -> usize {
        if let Shape::Sure(token) = self.shape {
            return token;
        }
        // The search has three levels (blocks, groups, tokens), so a large vocabulary needs few
        // additions. The order of the sums is fixed, so equal rows give equal tokens.
        let left = u() * self.sums.iter().sum::<f64>();
        let (block, left) = pass(self.sums.iter().copied(), left);
        let from = block * BLOCK;
        let mut buffer = [0.0; BLOCK];
        let (weights, least) = match self.shape {
            Shape::Row { max, scale, least } => {
                let x = &x[from..x.len().min(from + BLOCK)];
                let weights = &mut buffer[..x.len()];
                exp_weights(self.isa, x, max, scale, weights);
                (&*weights, least)
            }
            Shape::Weights { least, .. } => {
                let to = self.weights.len().min(from + BLOCK);
                (&self.weights[from..to], least)
            }
            Shape::Sure(_) => unreachable!("has returned"),
        };
        let wide = |w: &f32| if *w >= least { f64::from(*w) } else { 0.0 };
        let groups = weights
            .chunks(GROUP)
            .map(|group| group.iter().map(wide).sum());
        let (group, left) = pass(groups, left);
        let (at, _) = pass(weights[group * GROUP..].iter().take(GROUP).map(wide), left);
        let index = from + group * GROUP + at;
        match self.shape {
            Shape::Weights { of_ids: true, .. } => self.ids[index] as usize,
            _ => index,
        }
    }
}

/// Returns the index at which the running sum exceeds `left`, and the part of `left` that remains
/// at that index. If rounding keeps the sum below `left`, returns the last positive value, with
/// infinity.
fn pass(values: impl Iterator<Item = f64>, mut left: f64) -> (usize, f64) {
    let mut last = 0;
    for (i, value) in values.enumerate() {
        if value > 0.0 {
            if left < value {
                return (i, left);
            }
            left -= value;
            // A remainder of infinity makes the next level also choose its last positive value.
            last = i;
        }
    }
    (last, f64::INFINITY)
}

pub(super) fn room<T>(values: &mut Vec<T>, len: usize) {
    values.reserve(len.saturating_sub(values.len()));
}

/// Returns the `k`-th largest value, and moves the larger values to the front.
fn nth_largest(values: &mut [f32], k: usize) -> f32 {
    *values
        .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a))
        .1
}
