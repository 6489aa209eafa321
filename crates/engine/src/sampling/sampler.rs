//! Tokens from many rows of logits, over the threads of a pool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use beamgen_kernels::{Isa, ThreadPool, log_sum_exp};

use super::distribution::{Distribution, room};
use super::{Sampled, SamplingParams, relative_to};
use crate::rng::Draw;

/// Floating-point operations for each logit, roughly.
const WORK: usize = 40;
/// Logits that are worth a task.
const TASK: usize = 1 << 15;
/// Logits that one thread has read, in 80 microseconds, before waking others up pays.
const ALONE: usize = 1 << 16;

/// A token to sample from a row of logits.
#[derive(Clone, Debug)]
pub struct SampleRequest<'a> {
    /// The row of logits, at least one.
    pub logits: &'a [f32],
    /// Tokens that the repetition penalty is for; some may be there twice.
    pub history: &'a [u32],
    /// How it is sampled.
    pub params: SamplingParams,
    /// The random numbers.
    pub draw: Draw,
}

impl SampleRequest<'_> {
    /// Whether both draw from the same distribution.
    fn shares_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.logits, other.logits)
            && self.params == other.params
            && (self.params.repetition_penalty == 1.0 || self.history == other.history)
    }
}

/// Samples tokens; keeps its working memory.
#[derive(Debug)]
pub struct Sampler {
    isa: Isa,
    /// One for each thread at work.
    places: Vec<Mutex<Place>>,
    /// Where runs of requests begin that share a distribution, and their end.
    runs: Vec<usize>,
    /// Tokens and the bits of their log-probabilities.
    drawn: Vec<AtomicU64>,
}

/// Where a thread works.
#[derive(Debug)]
struct Place {
    distribution: Distribution,
    penalised: Vec<f32>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

impl Sampler {
    /// A sampler without working memory yet.
    #[must_use]
    pub fn new() -> Self {
        let isa = Isa::detect();
        Self {
            isa,
            places: vec![Mutex::new(Place::new(isa))],
            runs: Vec::new(),
            drawn: Vec::new(),
        }
    }

    /// Samples a token by inversion, with one uniform number.
    ///
    /// NaN counts as minus infinity; if no logit is above it, token 0 comes with log-probability
    /// minus infinity. Settings outside their ranges act as the nearest that makes sense
    /// ([`SamplingParams::validate`] finds them).
    ///
    /// # Panics
    /// If there are no logits.
    pub fn sample(&mut self, logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
        self.sample_after(&[], logits, params, draw)
    }

    /// As [`sample`](Self::sample), with the repetition penalty on the tokens in `history`, which
    /// may have some twice.
    ///
    /// # Panics
    /// If there are no logits, or a token is outside.
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
            draw: draw.clone(),
        };
        let mut place = take_place(&self.places);
        place.read(&request, &[]);
        place.draw(logits, draw)
    }

    /// Samples `count` tokens as [`sample_after`](Self::sample_after) does each, on the threads of
    /// `pool`. Neighbours with the same slice of logits and the same settings share what is
    /// computed of it. `request(i)` may be called more than once.
    ///
    /// # Panics
    /// If a request has no logits, or a token outside.
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
        if self.drawn.len() < count {
            self.drawn.resize_with(count, AtomicU64::default);
        }
        self.runs.clear();
        let (mut logits, mut longest) = (0, 0);
        let (mut filtered, mut penalised) = (false, false);
        let mut before: Option<SampleRequest<'_>> = None;
        for i in 0..count {
            let next = request(i);
            if before.is_none_or(|before| !next.shares_with(&before)) {
                self.runs.push(i);
                logits += next.logits.len();
                longest = longest.max(next.logits.len());
                filtered |= next.params.top_k > 0 || next.params.top_p < 1.0;
                penalised |= next.params.repetition_penalty != 1.0;
            }
            before = Some(next);
        }
        let runs = self.runs.len();
        self.runs.push(count);

        // All at once, so that no later batch of such rows takes memory, whoever works at it.
        for place in &mut self.places {
            let place = place.get_mut().unwrap_or_else(PoisonError::into_inner);
            place.distribution.reserve(longest, filtered);
            if penalised {
                room(&mut place.penalised, longest);
            }
        }

        // Rows in one task come one after the other, so that each can be fetched ahead.
        let per_task = (TASK * runs / logits.max(1))
            .max(runs.div_ceil(4 * threads))
            .max(1);
        let (places, ends, drawn) = (&self.places, &self.runs, &self.drawn);
        let task = |task: usize| {
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
                for (i, drawn) in (first..next).zip(&drawn[first..next]) {
                    let mut wanted = request(i);
                    let sampled = place.draw(wanted.logits, &mut wanted.draw);
                    drawn.store(pack(sampled), Ordering::Relaxed);
                }
            }
        };
        let work = if logits <= ALONE {
            0
        } else {
            (WORK * logits) as u64
        };
        pool.run(work, |parallel| {
            parallel.for_each(runs.div_ceil(per_task), work, task);
        });
        let drawn = self.drawn[..count].iter_mut();
        out.extend(drawn.map(|drawn| unpack(*drawn.get_mut())));
    }
}

/// A place that nobody works at. There are as many as threads, so one is always free.
fn take_place(places: &[Mutex<Place>]) -> MutexGuard<'_, Place> {
    loop {
        for place in places {
            match place.try_lock() {
                Ok(place) => return place,
                // Whatever a panic left there is written anew.
                Err(TryLockError::Poisoned(place)) => return place.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }
}

fn pack(sampled: Sampled) -> u64 {
    u64::from(sampled.token) << 32 | u64::from(sampled.logprob.to_bits())
}

fn unpack(drawn: u64) -> Sampled {
    Sampled {
        token: (drawn >> 32) as u32,
        logprob: f32::from_bits(drawn as u32),
    }
}

impl Place {
    fn new(isa: Isa) -> Self {
        Self {
            distribution: Distribution::new(isa),
            penalised: Vec::new(),
        }
    }

    /// Reads the distribution of a request; `next` is the row to come, if any.
    fn read(&mut self, request: &SampleRequest<'_>, next: &[f32]) {
        let (logits, history, params) = (request.logits, request.history, &request.params);
        assert!(!logits.is_empty(), "a row of logits");
        self.penalised.clear();
        let penalty = params.repetition_penalty;
        if penalty == 1.0 || history.is_empty() {
            return self.distribution.read(logits, params, next);
        }
        self.penalised.extend_from_slice(logits);
        for &token in history {
            let logit = logits[token as usize];
            self.penalised[token as usize] = if logit < 0.0 {
                logit * penalty
            } else {
                logit / penalty
            };
        }
        self.distribution.read(&self.penalised, params, next);
        self.distribution.total = log_sum_exp(self.distribution.isa(), logits);
    }

    /// Draws from the distribution that was read last, which was that of `logits`.
    fn draw(&self, logits: &[f32], draw: &mut Draw) -> Sampled {
        let row = if self.penalised.is_empty() {
            logits
        } else {
            &self.penalised
        };
        let token = self.distribution.token(row, || draw.uniform());
        Sampled {
            token: token as u32,
            logprob: relative_to(self.distribution.total, logits[token]),
        }
    }
}
