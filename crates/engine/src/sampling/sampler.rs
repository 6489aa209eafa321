//! Samples tokens from many rows of logits, on the threads of a pool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use beamgen_kernels::{Isa, ThreadPool, log_sum_exp};

use super::distribution::{Distribution, room};
use super::{RowEdits, Sampled, SamplingParams, relative_to};
use crate::rng::Draw;

/// Floating-point operations for each logit, roughly.
const WORK: usize = 40;
/// The number of logits that are worth a task of their own.
const TASK: usize = 1 << 15;
/// The most logits that one thread reads without help. They take about 80 microseconds, too little
/// to wake other threads.
const ALONE: usize = 1 << 16;

/// A token to sample from a row of logits.
#[derive(Clone, Debug)]
pub struct SampleRequest<'a> {
    /// The row of logits, which must not be empty.
    pub logits: &'a [f32],
    /// The tokens that the repetition penalty applies to. A repeated token is penalised once.
    pub history: &'a [u32],
    /// The settings; values out of range act like the nearest valid ones.
    pub params: SamplingParams,
    /// Changes of the row that apply to this token only.
    pub edits: RowEdits<'a>,
    /// The random numbers of the token's position in its chain.
    pub draw: Draw,
}

impl SampleRequest<'_> {
    /// Whether both requests surely have the same distribution.
    fn shares_with(&self, other: &Self) -> bool {
        // Rows are compared by address, because comparing values would cost as much as reading the
        // row.
        std::ptr::eq(self.logits, other.logits)
            && self.params == other.params
            && self.edits.are_same(&other.edits)
            && (self.params.repetition_penalty == 1.0 || self.history == other.history)
    }

    /// Whether the penalty or the edits change the row before the distribution is computed.
    fn changes_row(&self) -> bool {
        let penalised = self.params.repetition_penalty != 1.0 && !self.history.is_empty();
        penalised || !self.edits.is_empty()
    }
}

/// Samples tokens, and keeps its buffers from call to call.
#[derive(Debug)]
pub struct Sampler {
    isa: Isa,
    /// The buffers of running threads, at least one for each thread of a pool that was used.
    places: Vec<Mutex<Place>>,
    /// The index of the first request of each run, then the number of requests. The requests of a
    /// run have the same distribution.
    runs: Vec<usize>,
    /// The sampled token of each request, and the bits of its log-probability.
    sampled: Vec<AtomicU64>,
}

#[derive(Debug)]
struct Place {
    distribution: Distribution,
    /// The row after penalty and edits; empty if the row is unchanged.
    changed: Vec<f32>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

impl Sampler {
    /// Creates a sampler. Buffers are allocated at the first use.
    #[must_use]
    pub fn new() -> Self {
        let isa = Isa::detect();
        Self {
            isa,
            places: vec![Mutex::new(Place::new(isa))],
            runs: Vec::new(),
            sampled: Vec::new(),
        }
    }

    /// Samples a token by inversion, with one uniform number.
    ///
    /// A NaN logit counts as minus infinity. If no logit is above minus infinity, the result is
    /// token 0 with log-probability minus infinity. A setting out of range acts like the nearest
    /// valid value ([`SamplingParams::validate`] reports it).
    ///
    /// # Panics
    /// If `logits` is empty.
    pub fn sample(&mut self, logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
        self.sample_after(&[], logits, params, draw)
    }

    /// Samples a token like [`sample`](Self::sample), with the repetition penalty on the tokens in
    /// `history`. A repeated token is penalised once.
    ///
    /// # Panics
    /// If `logits` is empty, or a token of `history` is not less than the number of logits.
    pub fn sample_after(
        &mut self,
        history: &[u32],
        logits: &[f32],
        params: &SamplingParams,
        draw: &mut Draw,
    ) -> Sampled {
        let request = SampleRequest {
            logits,
            history,
            params: *params,
            edits: RowEdits::default(),
            draw: draw.clone(),
        };
        let mut place = take_place(&self.places);
        place.read(&request, &[]);
        place.sample(logits, draw)
    }

    /// Samples the token of one request, with the same result as in a
    /// [`sample_batch`](Self::sample_batch).
    ///
    /// # Panics
    /// If the request has no logits, or a token of its history is not less than their number.
    pub fn sample_one(&mut self, mut request: SampleRequest<'_>) -> Sampled {
        let mut place = take_place(&self.places);
        place.read(&request, &[]);
        place.sample(request.logits, &mut request.draw)
    }

    /// Lists the `count` most likely tokens of a row, with the natural logarithms of their
    /// probabilities in the model's own distribution. The most likely token is first, and among
    /// equals the lowest id. Tokens of probability 0 are left out. The former contents of `out` are
    /// dropped.
    ///
    /// A token's log-probability has the same bits as when the token is sampled.
    pub fn top_log_probs(&mut self, logits: &[f32], count: usize, out: &mut Vec<(u32, f32)>) {
        out.clear();
        if count == 0 || logits.is_empty() {
            return;
        }
        let total = log_sum_exp(self.isa, logits);
        let mut place = take_place(&self.places);
        let likeliest = place.distribution.likeliest(logits, count).iter();
        out.extend(likeliest.map(|&token| (token, relative_to(total, logits[token as usize]))));
        out.retain(|(_, logprob)| *logprob > f32::NEG_INFINITY);
    }

    /// Samples `count` tokens like [`sample_one`](Self::sample_one), on the threads of `pool`.
    /// Consecutive requests with the same slice of logits and the same settings compute their
    /// distribution only once. `request(i)` may be called more than once.
    ///
    /// # Panics
    /// If a request has no logits, or a token of its history is not less than their number.
    pub fn sample_batch<'a>(
        &mut self,
        pool: &ThreadPool,
        count: usize,
        request: impl Fn(usize) -> SampleRequest<'a> + Sync,
        out: &mut Vec<Sampled>,
    ) {
        out.clear();
        if count == 0 {
            return;
        }
        let (isa, threads) = (self.isa, pool.threads());
        if self.places.len() < threads {
            self.places
                .resize_with(threads, || Mutex::new(Place::new(isa)));
        }
        if self.sampled.len() < count {
            self.sampled.resize_with(count, AtomicU64::default);
        }
        self.runs.clear();
        let (mut logits, mut longest) = (0, 0);
        let (mut filtered, mut changed) = (false, false);
        let mut before: Option<SampleRequest<'_>> = None;
        for i in 0..count {
            let next = request(i);
            if before.is_none_or(|before| !next.shares_with(&before)) {
                self.runs.push(i);
                logits += next.logits.len();
                longest = longest.max(next.logits.len());
                filtered |= next.params.top_k > 0 || next.params.top_p < 1.0;
                changed |= next.params.repetition_penalty != 1.0 || !next.edits.is_empty();
            }
            before = Some(next);
        }
        let runs = self.runs.len();
        self.runs.push(count);

        // The buffers of all threads are reserved now, so that a later batch allocates nothing,
        // whichever thread runs it.
        for place in &mut self.places {
            let place = place.get_mut().unwrap_or_else(PoisonError::into_inner);
            place.distribution.reserve(longest, filtered);
            if changed {
                room(&mut place.changed, longest);
            }
        }

        // A task has consecutive rows, so that the next row can be prefetched while one is read.
        let per_task = (TASK * runs / logits.max(1))
            .max(runs.div_ceil(4 * threads))
            .max(1);
        let (places, ends, sampled) = (&self.places, &self.runs, &self.sampled);
        let work = if logits <= ALONE {
            0
        } else {
            (WORK * logits) as u64
        };
        pool.run(work, |parallel| {
            parallel.for_each(runs.div_ceil(per_task), work, |task: usize| {
                let mut place = take_place(places);
                let end = runs.min((task + 1) * per_task);
                for run in task * per_task..end {
                    let (first, next) = (ends[run], ends[run + 1]);
                    let ahead = if run + 1 < end {
                        request(next).logits
                    } else {
                        &[]
                    };
                    place.read(&request(first), ahead);
                    for (i, slot) in (first..next).zip(&sampled[first..next]) {
                        let mut wanted = request(i);
                        let sampled = place.sample(wanted.logits, &mut wanted.draw);
                        // Relaxed order suffices: each slot belongs to one task, and the pool
                        // synchronises all tasks with the reads below.
                        slot.store(pack(sampled), Ordering::Relaxed);
                    }
                }
            });
        });
        let sampled = self.sampled[..count].iter_mut();
        out.extend(sampled.map(|sampled| unpack(*sampled.get_mut())));
    }
}

/// Locks buffers that no thread uses. Each thread holds at most one set, so one is always free.
fn take_place(places: &[Mutex<Place>]) -> MutexGuard<'_, Place> {
    loop {
        for place in places {
            match place.try_lock() {
                Ok(place) => return place,
                // A panic may leave the buffers half written, but the next row overwrites them.
                Err(TryLockError::Poisoned(place)) => return place.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }
}

/// Packs a token and its log-probability into one word, so that threads can write results without
/// locks.
fn pack(sampled: Sampled) -> u64 {
    u64::from(sampled.token) << 32 | u64::from(sampled.logprob.to_bits())
}

fn unpack(packed: u64) -> Sampled {
    Sampled {
        token: (packed >> 32) as u32,
        logprob: f32::from_bits(packed as u32),
    }
}

impl Place {
    fn new(isa: Isa) -> Self {
        Self {
            distribution: Distribution::new(isa),
            changed: Vec::new(),
        }
    }

    /// Reads the distribution of a request. `next` is the row of the next request, or empty.
    fn read(&mut self, request: &SampleRequest<'_>, next: &[f32]) {
        let (logits, history, params) = (request.logits, request.history, &request.params);
        assert!(!logits.is_empty(), "a row of logits");
        self.changed.clear();
        if !request.changes_row() {
            return self.distribution.read(logits, params, next);
        }
        self.changed.extend_from_slice(logits);
        let penalty = params.repetition_penalty;
        // A request may have a history although its penalty is 1.
        let history = if penalty == 1.0 { &[] } else { history };
        for &token in history {
            // The unchanged row is read, so that a repeated token is penalised once.
            let logit = logits[token as usize];
            self.changed[token as usize] = if logit < 0.0 {
                logit * penalty
            } else {
                logit / penalty
            };
        }
        request.edits.apply(&mut self.changed);
        self.distribution.read(&self.changed, params, next);
        // Log-probabilities are the model's own, so they use the total of the unchanged row.
        self.distribution.total = log_sum_exp(self.distribution.isa(), logits);
    }

    /// Samples a token from the distribution that was read last. `logits` must be the unchanged
    /// row.
    fn sample(&self, logits: &[f32], draw: &mut Draw) -> Sampled {
        let row = if self.changed.is_empty() {
            logits
        } else {
            &self.changed
        };
        let token = self.distribution.token(row, || draw.uniform());
        // If no token may be sampled, the result is token 0, which must not look possible.
        let logprob = if row[token] == f32::NEG_INFINITY {
            f32::NEG_INFINITY
        } else {
            relative_to(self.distribution.total, logits[token])
        };
        Sampled {
            token: token as u32,
            logprob,
        }
    }
}
