//! A benchmark of the engine's prefill and decoding, without a search.

use std::sync::Arc;
use std::time::Instant;

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Account, Append, Compute, ComputeType, DeviceChoice, Engine, EngineConfig, KvType, Logits,
    Model, ModelConfig, RowEdits, SampleRow, Sampler, SamplingParams, SeqId, ThreadPool, Want,
    Weights,
};
use beamgen_search::ConfigError;

use crate::memory::MemoryPlan;
use crate::prepare::plan::{Returned, device_choice, memory, on_device};
use crate::{Error, SolverBuilder, bundled};

/// The temperature of a measurement that samples ([`DecodeBench::sample`]).
const TEMPERATURE: f32 = 0.8;
/// The number of decoding passes in the warm-up run, whose times are dropped.
const WARM_UP: usize = 2;

/// A generator's engine, to be timed.
#[derive(Debug)]
pub struct EngineBench {
    engine: Engine,
    /// The folder, file or name of the model.
    pub name: String,
    notes: Vec<String>,
    /// The type of number in which keys and values are kept.
    pub kv_dtype: KvType,
    /// The arithmetic of float weights on the device.
    pub arithmetic: ComputeType,
}

/// The work to time: `batch` sequences continue one shared prompt, and each pass adds one token to
/// every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeBench {
    /// The length of the shared prompt, in tokens. The prompt is computed once.
    pub prefix: usize,
    /// The number of sequences that are decoded together.
    pub batch: usize,
    /// The number of tokens added to each sequence, and so the number of passes.
    pub new: usize,
    /// The number of timed runs, after a warm-up run.
    pub repeat: usize,
    /// Whether the next tokens are sampled from the logits at temperature 0.8, as in a search.
    /// Otherwise the tokens are fixed, and the logits are ignored.
    pub sample: bool,
}

/// The result of a [`DecodeBench`]. The lists have one value for each run, sorted in ascending
/// order.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The time to compute the prompt, in seconds.
    pub prefill: Vec<f64>,
    /// The time of all passes after the prompt, in seconds.
    pub decode: Vec<f64>,
    /// The bytes of weights that each pass reads.
    pub streamed_bytes: usize,
    /// Floating-point operations of all passes after the prompt.
    pub decode_flops: f64,
    /// Floating-point operations to compute the prompt.
    pub prefill_flops: f64,
    /// Bytes of the cache pages in use at the end.
    pub kv_bytes: usize,
}

/// The time of one phase of a [`DecodeBench`] in all its runs, and the account of its operations.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The time of the whole phase, in seconds: its passes, and sampling between them.
    pub seconds: f64,
    /// The operations of the passes.
    pub account: Account,
}

impl Phase {
    fn extend(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.account.extend(&other.account);
    }
}

/// One run of a [`DecodeBench`].
struct Run {
    prefill: Phase,
    decode: Phase,
    /// The bytes of cache pages in use at the end.
    kv_bytes: usize,
}

/// The maximum number of positions: the engine allocates tables for all of them.
const MOST_POSITIONS: usize = 1 << 22;

impl EngineBench {
    /// Loads the builder's generator without a tokenizer, for sequences of up to `positions`
    /// tokens. If `random`, the weights are random, and only `config.json` is read.
    ///
    /// # Errors
    /// Returns the errors of [`SolverBuilder::build`].
    pub fn open(builder: SolverBuilder, positions: usize, random: bool) -> Result<Self, Error> {
        let (config, mut finder) = (&builder.config, builder.finder);
        let (field, value, most) = ("positions", positions, MOST_POSITIONS);
        if value > most {
            return Err(ConfigError::TooLarge { field, value, most }.into());
        }
        let name = config.models.generator.as_deref();
        let source = finder.find(name, None, bundled::GENERATOR)?;
        let mut notes = finder.notes;
        let checkpoint = source.checkpoint();
        let name = checkpoint.path().display().to_string();
        let precision = config.models.precision();
        let mut load = |choice: DeviceChoice| -> Result<(Engine, Option<usize>), Error> {
            let (mut shape, weights) = if random {
                let shape = ModelConfig::load(checkpoint.clone())?;
                let weights = Weights::random(&shape);
                (shape, weights)
            } else {
                ModelConfig::load_with_weights(checkpoint.clone())?
            };
            if !shape.gives_logits(&weights) {
                return Err(beamgen_engine::Error::NoHead.into());
            }
            // Positions beyond the model's context give meaningless values, but the time of a pass
            // does not depend on the values.
            let context = shape.max_position_embeddings;
            let beyond = (positions > context).then_some(context);
            shape.max_position_embeddings = context.max(positions);
            let plan = |compute: &Compute| -> Result<MemoryPlan, Error> {
                let returned = Returned::Logits;
                let model = memory("generator", &shape, &weights, config, compute, returned)?;
                let mut plan = MemoryPlan::new(compute, config)?;
                plan.models.push(model);
                plan.fit(positions, 2 * config.engine.page_size)?;
                Ok(plan)
            };
            let (compute, plan) = on_device(choice, &mut notes, plan)?;
            let engine = EngineConfig {
                kv_bytes: usize::try_from(plan.kv).unwrap_or(usize::MAX),
                // The same prompt is read in every round.
                prefix_cache: false,
                ..config.engine.clone()
            };
            let pool = ThreadPool::new(config.engine.threads);
            let model = Arc::new(Model::on(&compute, shape, &weights, precision, &pool)?);
            Ok((Engine::with_pool(model, engine, pool)?, beyond))
        };
        let loaded = match load(device_choice(config, source.is_bundled())) {
            // The plan fitted, but another process may have taken memory since.
            Err(error) if config.engine.device == DeviceChoice::Auto => {
                let loaded = load(DeviceChoice::Cpu);
                notes.push(format!("the cpu computes: {error}"));
                loaded
            }
            loaded => loaded,
        };
        let (engine, beyond) = loaded.map_err(|error| error.at(name.clone()))?;
        notes.extend(beyond.map(|context| {
            format!(
                "positions beyond the model's context of {context} tokens are timed all the same"
            )
        }));
        let arithmetic = precision.compute.on(&engine.model().compute());
        Ok(Self {
            engine,
            name,
            notes,
            kv_dtype: config.engine.kv_dtype,
            arithmetic,
        })
    }

    /// Returns the notes for the user, one line each.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.engine.model().compute().note()).collect()
    }

    /// Returns the name of the device that runs the model.
    pub fn device(&self) -> String {
        self.engine.model().compute().to_string()
    }

    /// Measures the rate of a copy within the memory of a CUDA device, in bytes per second; `None`
    /// on the CPU.
    ///
    /// # Errors
    /// Returns an error if the device fails, or if too little of its memory is free.
    pub fn copy_rate(&self) -> Result<Option<f64>, Error> {
        const BYTES: usize = 256 << 20;
        let compute = self.engine.model().compute();
        let most = compute.free_bytes()?.map_or(BYTES, |free| free / 4);
        Ok(compute.copy_rate(BYTES.min(most))?)
    }

    /// Returns the size of the packed weights, in bytes.
    pub fn weight_bytes(&self) -> usize {
        self.engine.model().bytes()
    }

    /// Returns the number of threads that compute on the CPU.
    pub fn threads(&self) -> usize {
        self.engine.pool().threads()
    }

    /// Returns the bytes of KV cache that a measurement would need, if they exceed the cache's
    /// limit.
    pub fn too_much(&self, bench: &DecodeBench) -> Option<usize> {
        let kv = self.engine.kv();
        let page = self.engine.page_size();
        let shared = bench.prefix / page;
        let own = bench.prefix.saturating_add(bench.new).div_ceil(page) - shared;
        // If the prompt does not fill its last page, each sequence copies the page, and the
        // original stays allocated: one page more.
        let pages = own.saturating_mul(bench.batch).saturating_add(shared + 1);
        (pages > kv.pages_total).then_some(pages.saturating_mul(kv.page_bytes))
    }

    /// Runs the work once to warm up, then `repeat` times with timing.
    ///
    /// # Errors
    /// Returns an error if the KV cache is too small, or if a sequence exceeds the positions given
    /// to [`open`](Self::open).
    pub fn measure(&mut self, bench: &DecodeBench) -> Result<Measured, Error> {
        let warm_up = DecodeBench {
            new: bench.new.min(WARM_UP),
            ..*bench
        };
        self.once(&warm_up, false)?;
        let (mut prefill, mut decode, mut kv_bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..bench.repeat {
            let run = self.once(bench, false)?;
            prefill.push(run.prefill.seconds);
            decode.push(run.decode.seconds);
            kv_bytes = run.kv_bytes;
        }
        prefill.sort_by(f64::total_cmp);
        decode.sort_by(f64::total_cmp);
        let model = self.engine.model();
        let decode_flops = model.flops(bench.prefix, bench.new, bench.new);
        Ok(Measured {
            prefill,
            decode,
            streamed_bytes: model.streamed_bytes(),
            decode_flops: (bench.batch as u64 * decode_flops) as f64,
            // Only the prompt's last row passes the head.
            prefill_flops: model.flops(0, bench.prefix, 1) as f64,
            kv_bytes,
        })
    }

    /// Runs the work `repeat` times, and measures each operation of the passes. Returns the phases
    /// of the prompt and of all later passes, each summed over the runs. On a CUDA device the
    /// accounts stay empty.
    ///
    /// # Errors
    /// Returns the errors of [`measure`](Self::measure).
    pub fn profile(&mut self, bench: &DecodeBench) -> Result<[Phase; 2], Error> {
        let mut phases = <[Phase; 2]>::default();
        for _ in 0..bench.repeat {
            let run = self.once(bench, true)?;
            phases[0].extend(&run.prefill);
            phases[1].extend(&run.decode);
        }
        Ok(phases)
    }

    /// Runs the work once, with an account of the operations if `profile`.
    fn once(&mut self, bench: &DecodeBench, profile: bool) -> Result<Run, Error> {
        let engine = &mut self.engine;
        let vocab = engine.model().config().vocab_size as u32;
        // The tokens differ, because equal tokens would read the same row of the embedding.
        let given = |step: usize, i: usize| (7919 * step + 31 * i) as u32 % vocab;
        let prompt: Vec<u32> = (0..bench.prefix).map(|at| given(at, 0)).collect();
        let root = engine.create();
        let read = Append {
            seq: root,
            tokens: &prompt,
            want: Want::Last,
        };
        if profile {
            engine.open_account();
        }
        let start = Instant::now();
        let logits = engine.logits(&[read])?;
        // A CUDA device may still be computing when `logits` returns.
        engine.wait()?;
        let prefill = Phase {
            seconds: start.elapsed().as_secs_f64(),
            account: engine.close_account(),
        };

        let params = SamplingParams {
            temperature: TEMPERATURE,
            ..SamplingParams::default()
        };
        let (mut sampler, mut drawn) = (Sampler::new(), Vec::new());
        // One call samples all rows of a pass, as in a search.
        let mut choose = |engine: &mut Engine, step: usize, logits: &Logits, next: &mut [u32]| {
            if !bench.sample {
                let tokens = next.iter_mut().enumerate();
                tokens.for_each(|(i, token)| *token = given(step, i));
                return Ok(());
            }
            let choice = |i: usize| SampleRow {
                // The prompt gives one row of logits, from which every sequence samples its first
                // token.
                row: i.min(logits.len() - 1),
                history: &[],
                params,
                edits: RowEdits::default(),
                draw: Key {
                    seed: 0,
                    problem: 0,
                    chain: i as u64,
                }
                .at(step as u32),
            };
            let count = next.len();
            engine.sample(
                logits,
                vocab as usize,
                &mut sampler,
                count,
                choice,
                &mut drawn,
            )?;
            for (token, drawn) in next.iter_mut().zip(&drawn) {
                *token = drawn.token;
            }
            Ok::<_, Error>(())
        };
        let mut next = vec![0; bench.batch];
        choose(engine, 0, &logits, &mut next)?;
        engine.recycle_logits(logits);
        let seqs: Vec<SeqId> = (0..bench.batch).map(|_| engine.fork(root)).collect();
        // The forks still hold the pages of the prompt.
        engine.free(root);

        if profile {
            engine.open_account();
        }
        let start = Instant::now();
        for step in 1..=bench.new {
            let logits = {
                let items = seqs.iter().zip(&next).map(|(seq, token)| Append {
                    seq: *seq,
                    tokens: std::slice::from_ref(token),
                    want: Want::Last,
                });
                engine.logits(&items.collect::<Vec<_>>())?
            };
            choose(engine, step, &logits, &mut next)?;
            engine.recycle_logits(logits);
        }
        engine.wait()?;
        let decode = Phase {
            seconds: start.elapsed().as_secs_f64(),
            account: engine.close_account(),
        };
        let kv = engine.kv();
        for seq in seqs {
            engine.free(seq);
        }
        Ok(Run {
            prefill,
            decode,
            kv_bytes: kv.pages_used * kv.page_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Solver};

    #[test]
    fn times_what_was_asked_for_and_gives_everything_back() {
        let mut config = Config::default();
        config.engine.device = DeviceChoice::Cpu;
        let mut bench = EngineBench::open(Solver::builder().config(config), 700, false)
            .expect("the bundled model");
        assert_eq!(
            bench.notes().len(),
            1,
            "700 positions are beyond its context"
        );
        for (prefix, batch, sample) in [(32, 1, true), (690, 3, false)] {
            let point = DecodeBench {
                prefix,
                batch,
                new: 5,
                repeat: 3,
                sample,
            };
            assert_eq!(bench.too_much(&point), None);
            let measured = bench.measure(&point).expect("it fits");
            assert_eq!((measured.prefill.len(), measured.decode.len()), (3, 3));
            assert!(measured.decode.is_sorted() && measured.decode[0] > 0.0);
            assert!(measured.streamed_bytes <= bench.weight_bytes());
            // Each token passes through the weights once.
            let least = 2.0 * (batch * 5) as f64 * measured.streamed_bytes as f64 / 4.0;
            assert!(measured.decode_flops > least, "{measured:?}");
            assert!(measured.kv_bytes > 0 && bench.engine.is_empty());
        }
        let point = DecodeBench {
            prefix: 600,
            batch: 1 << 20,
            new: 50,
            repeat: 1,
            sample: true,
        };
        assert!(bench.too_much(&point).is_some());
    }
}
