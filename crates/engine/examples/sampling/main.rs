//! Times the sampler over a batch of rows of logits.
//!
//!     cargo run --release -p beamgen-engine --example sampling -- 512 49152 151936
//!
//! Prints one table per vocabulary size, in milliseconds per row. `plain` is the baseline of
//! `plain.rs`, which samples row by row in plain loops; the next columns are the engine's sampler
//! on one thread and on all threads. GB/s of the sampler counts each logit once. A copy of the same
//! rows by as many threads is the reference; it counts each logit twice (read and write).
//!
//! The 64 rows have normal logits: `peaked` has a few likely tokens, `flat` has none. `stem`
//! samples 64 times from one row. All variants take turns; a number is the median of nine turns,
//! with the minimum and the maximum. The last column counts the samples whose token differs from
//! the baseline's.

mod plain;

use std::hint::black_box;
use std::time::{Duration, Instant};

use beamgen_engine::rng::{Draw, Key};
use beamgen_engine::{RowEdits, SampleRequest, Sampled, Sampler, SamplingParams, ThreadPool};

const ROWS: usize = 64;
const TURNS: usize = 9;
const WINDOW: Duration = Duration::from_millis(40);

/// The number of samples that are compared with the baseline at a vocabulary of 512. Larger
/// vocabularies compare fewer.
const COMPARED: usize = 100_000;

fn main() {
    let sizes: Vec<usize> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("a size of vocabulary"))
        .collect();
    let sizes = if sizes.is_empty() {
        vec![512, 49_152, 151_936]
    } else {
        sizes
    };
    let pools = [ThreadPool::new(1), ThreadPool::new(0)];
    for size in sizes {
        println!(
            "\nvocabulary {size}, {ROWS} rows, ms a row: median (least to most); threads 1 and {}",
            pools[1].threads()
        );
        println!(
            "logits | settings | plain | 1 thread | all threads | plain/1 | plain/all | GB/s 1 | GB/s all | other tokens"
        );
        println!("--- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---:");
        for (shape, spread, peak) in [("peaked", 2.5, 9.0), ("flat", 1.0, 0.0)] {
            let rows = logits(size, spread, peak);
            for (name, params) in settings() {
                line(&pools, shape, name, &rows, size, params);
            }
        }
        copies(&pools, &logits(size, 1.0, 0.0));
    }
}

fn settings() -> [(&'static str, SamplingParams); 7] {
    let one = SamplingParams::default();
    let with = |change: fn(&mut SamplingParams)| {
        let mut params = one;
        change(&mut params);
        params
    };
    [
        ("temperature 1", one),
        ("temperature 0.8", with(|p| p.temperature = 0.8)),
        ("top-k 50", with(|p| p.top_k = 50)),
        ("top-p 0.95", with(|p| p.top_p = 0.95)),
        ("min-p 0.05", with(|p| p.min_p = 0.05)),
        ("greedy", with(|p| p.temperature = 0.0)),
        ("stem, temperature 0.8", with(|p| p.temperature = 0.8)),
    ]
}

/// Creates `ROWS` rows of normal numbers (sums of 12 uniform ones). Every 5000th token is raised by
/// up to `peak`.
fn logits(size: usize, spread: f32, peak: f32) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..size * ROWS)
        .map(|i| {
            let normal = (0..12).map(|_| uniform()).sum::<f32>() - 6.0;
            let raised = if i % size % 5000 == 77 {
                peak * uniform()
            } else {
                0.0
            };
            spread * normal + raised
        })
        .collect()
}

fn draw(row: usize, position: u32) -> Draw {
    let key = Key {
        seed: 1,
        problem: 2,
        chain: row as u64,
    };
    key.at(position)
}

fn line(
    pools: &[ThreadPool; 2],
    shape: &str,
    name: &str,
    rows: &[f32],
    size: usize,
    params: SamplingParams,
) {
    let stem = name.starts_with("stem");
    let row = |i: usize| {
        if stem {
            &rows[..size]
        } else {
            &rows[i * size..(i + 1) * size]
        }
    };
    let mut plain = plain::Plain::default();
    let mut sampler = Sampler::new();
    let mut out: Vec<Sampled> = Vec::new();
    let mut batch = |pool: &ThreadPool, position: u32, out: &mut Vec<Sampled>| {
        let request = |i| SampleRequest {
            logits: row(i),
            history: &[],
            params,
            edits: RowEdits::default(),
            draw: draw(i, position),
        };
        sampler.sample_batch(pool, ROWS, request, out);
    };

    let mut times = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        times[0].push(per_row(|| {
            for i in 0..ROWS {
                black_box(plain.sample(row(i), &params, &mut draw(i, 0)));
            }
        }));
        for (pool, times) in pools.iter().zip(&mut times[1..]) {
            times.push(per_row(|| batch(pool, 0, &mut out)));
        }
    }
    let calls = (COMPARED / ROWS / (size / 512)).max(4) as u32;
    let mut others = 0;
    for position in 0..calls {
        batch(&pools[1], position, &mut out);
        for (i, ours) in out.iter().enumerate() {
            let theirs = plain.sample(row(i), &params, &mut draw(i, position));
            others += usize::from(theirs.token != ours.token);
            assert!(
                (theirs.logprob - ours.logprob).abs() < 1e-4,
                "{theirs:?} {ours:?}"
            );
        }
    }

    let [plain, one, all] = times.map(Spread::of);
    let rate = |time: &Spread| 4.0 * size as f64 / time.median / 1e6;
    println!(
        "{shape} | {name} | {plain} | {one} | {all} | {:.1} | {:.1} | {:.1} | {:.1} | {others} of {}",
        plain.median / one.median,
        plain.median / all.median,
        rate(&one),
        rate(&all),
        calls as usize * ROWS
    );
}

/// Prints GB/s of a copy of the rows, as the limit that memory sets.
fn copies(pools: &[ThreadPool; 2], rows: &[f32]) {
    let size = rows.len() / ROWS;
    let mut out = vec![0f32; rows.len()];
    for pool in pools {
        let time = Spread::of(
            (0..TURNS)
                .map(|_| {
                    per_row(|| {
                        std::thread::scope(|scope| {
                            let share = rows.len().div_ceil(pool.threads());
                            for (to, from) in out.chunks_mut(share).zip(rows.chunks(share)) {
                                let copy = move || black_box(to).copy_from_slice(from);
                                match pool.threads() {
                                    1 => copy(),
                                    _ => drop(scope.spawn(copy)),
                                }
                            }
                        });
                    })
                })
                .collect(),
        );
        println!(
            "copy, threads {}: {time} ms a row, {:.1} GB/s read and written",
            pool.threads(),
            8.0 * size as f64 / time.median / 1e6
        );
    }
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Self {
            median: all[all.len() / 2],
            least: all[0],
            most: all[all.len() - 1],
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.4} ({:.4} to {:.4})",
            self.median, self.least, self.most
        )
    }
}

/// Returns milliseconds per row of `body`, which processes all rows once per call.
fn per_row(mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0;
    while calls == 0 || start.elapsed() < WINDOW {
        body();
        calls += 1;
    }
    start.elapsed().as_secs_f64() * 1e3 / f64::from(calls) / ROWS as f64
}
