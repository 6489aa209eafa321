//! A benchmark of an engine's decoding and prefill, without a search.

use std::sync::Arc;
use std::time::Instant;

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Compute, DeviceChoice, Engine, EngineConfig, KvType, Logits, Model, ModelConfig,
    RowEdits, SampleRow, Sampler, SamplingParams, SeqId, ThreadPool, Want, Weights,
};
use beamgen_search::ConfigError;

use crate::memory::MemoryPlan;
use crate::prepare::plan::{Returned, device_choice, memory, on_device};
use crate::{Error, SolverBuilder, bundled};

/// The temperature of a bench that samples ([`DecodeBench::sample`]).
const TEMPERATURE: f32 = 0.8;
/// The number of passes of the warm-up run, which is not counted.
const WARM_UP: usize = 2;

/// A generator's engine, to be timed.
#[derive(Debug)]
pub struct EngineBench {
    engine: Engine,
    /// The model's folder, file or name.
    pub name: String,
    notes: Vec<String>,
    /// The type of number in which keys and values are kept.
    pub kv_dtype: KvType,
}

/// The work to time: `batch` sequences continue the same prompt, by a token each in every pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeBench {
    /// The number of tokens of the prompt, which is computed once and shared.
    pub prefix: usize,
    /// The number of sequences.
    pub batch: usize,
    /// The number of tokens of each sequence after the prompt.
    pub new: usize,
    /// The number of counted runs.
    pub repeat: usize,
    /// Whether each row's next token is sampled from its logits, at temperature 0.8, as a search
    /// does. Otherwise the tokens are fixed and the logits are not used.
    pub sample: bool,
}

/// The result of a [`DecodeBench`]. Each list has a value per run, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds to compute the prompt.
    pub prefill: Vec<f64>,
    /// Seconds of all passes after the prompt.
    pub decode: Vec<f64>,
    /// Bytes of weights that a pass reads.
    pub streamed_bytes: usize,
    /// Floating-point operations of all passes after the prompt.
    pub decode_flops: f64,
    /// Floating-point operations of the prompt.
    pub prefill_flops: f64,
    /// Bytes of the cache pages in use at the end.
    pub kv_bytes: usize,
}

/// The most positions that can be timed: the engine allocates tables for all of them.
const MOST_POSITIONS: usize = 1 << 22;

impl EngineBench {
    /// Loads the builder's generator, without its tokenizer, to time passes of the engine over at
    /// most `positions` tokens. With `random` weights, only its `config.json` is read.
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
        let source = finder.find(name, bundled::GENERATOR)?;
        let mut notes = finder.notes;
        let checkpoint = source.checkpoint();
        let name = checkpoint.path().display().to_string();
        let dtype = config.models.dtype;
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
            // Beyond the model's context the values are meaningless, but the time of a pass does not
            // depend on the values.
            let context = shape.max_position_embeddings;
            let beyond = (positions > context).then_some(context);
            shape.max_position_embeddings = context.max(positions);
            let plan = |compute: &Compute| -> Result<MemoryPlan, Error> {
                let returned = Returned::Logits;
                let model = memory("generator", &shape, &weights, config, compute, returned)?;
                let mut plan = MemoryPlan::new(compute, &config.engine)?;
                plan.models.push(model);
                plan.fit(positions, 2 * config.engine.page_size)?;
                Ok(plan)
            };
            let (compute, plan) = on_device(choice, &mut notes, plan)?;
            let engine = EngineConfig {
                kv_bytes: usize::try_from(plan.kv).unwrap_or(usize::MAX),
                ..config.engine.clone()
            };
            let pool = ThreadPool::new(config.engine.threads);
            let model = Arc::new(Model::on(&compute, shape, &weights, dtype, &pool)?);
            Ok((Engine::with_pool(model, engine, pool)?, beyond))
        };
        let loaded = match load(device_choice(config, source.is_bundled())) {
            // The load may fail although the plan fits: another process may have taken memory
            // since.
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
        Ok(Self {
            engine,
            name,
            notes,
            kv_dtype: config.engine.kv_dtype,
        })
    }

    /// Returns the notes for the user so far, a line each.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.engine.model().compute().note()).collect()
    }

    /// Returns the name of the device that computes.
    pub fn device(&self) -> String {
        self.engine.model().compute().to_string()
    }

    /// Measures the bytes per second that a copy within a CUDA device's memory moves; `None` on the
    /// CPU.
    ///
    /// # Errors
    /// Returns an error if the device fails or has too little free memory.
    pub fn copy_rate(&self) -> Result<Option<f64>, Error> {
        const BYTES: usize = 256 << 20;
        let compute = self.engine.model().compute();
        let most = compute.free_bytes()?.map_or(BYTES, |free| free / 4);
        Ok(compute.copy_rate(BYTES.min(most))?)
    }

    /// Returns the bytes of the packed weights.
    pub fn weight_bytes(&self) -> usize {
        self.engine.model().bytes()
    }

    /// Returns the number of threads that compute.
    pub fn threads(&self) -> usize {
        self.engine.pool().threads()
    }

    /// Returns the bytes of KV cache that a measurement needs, if they exceed the cache's limit.
    pub fn too_much(&self, bench: &DecodeBench) -> Option<usize> {
        let kv = self.engine.kv();
        let page = self.engine.page_size();
        let shared = bench.prefix / page;
        let own = bench.prefix.saturating_add(bench.new).div_ceil(page) - shared;
        // A last page of the prompt that is not full is copied by each sequence, and stays allocated
        // for the prompt: one page more.
        let pages = own.saturating_mul(bench.batch).saturating_add(shared + 1);
        (pages > kv.pages_total).then_some(pages.saturating_mul(kv.page_bytes))
    }

    /// Times a bench.
    ///
    /// # Errors
    /// Returns an error if the KV cache is too small, or if the sequences are longer than the
    /// positions that the engine was opened with.
    pub fn measure(&mut self, bench: &DecodeBench) -> Result<Measured, Error> {
        let warm_up = DecodeBench {
            new: bench.new.min(WARM_UP),
            ..*bench
        };
        self.once(&warm_up)?;
        let (mut prefill, mut decode, mut kv_bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..bench.repeat {
            let (read, written, kept) = self.once(bench)?;
            prefill.push(read);
            decode.push(written);
            kv_bytes = kept;
        }
        prefill.sort_by(f64::total_cmp);
        decode.sort_by(f64::total_cmp);
        let model = self.engine.model();
        let tokens = (bench.batch * bench.new) as f64;
        // The mean over the passes, since attention's work grows with the position.
        let context = bench.prefix + bench.new.div_ceil(2);
        // Only the last row of a prompt goes through the head, so its operations count once.
        let head = (2 * model.config().hidden_size * model.config().vocab_size) as f64;
        let row = model.row_flops(bench.prefix.div_ceil(2)) as f64 - head;
        Ok(Measured {
            prefill,
            decode,
            streamed_bytes: model.streamed_bytes(),
            decode_flops: tokens * model.row_flops(context) as f64,
            prefill_flops: bench.prefix as f64 * row + head,
            kv_bytes,
        })
    }

    /// Runs the bench once. Returns the seconds of the prompt, the seconds of all passes after it, and
    /// the bytes of KV cache at the end.
    fn once(&mut self, bench: &DecodeBench) -> Result<(f64, f64, usize), Error> {
        let engine = &mut self.engine;
        let vocab = engine.model().config().vocab_size as u32;
        // Different tokens, because equal ones would read a single row of the embedding.
        let given = |step: usize, i: usize| (7919 * step + 31 * i) as u32 % vocab;
        let prompt: Vec<u32> = (0..bench.prefix).map(|at| given(at, 0)).collect();
        let root = engine.create();
        let read = Append {
            seq: root,
            tokens: &prompt,
            want: Want::Last,
        };
        let start = Instant::now();
        let logits = engine.logits(&[read])?;
        // A CUDA device may still compute when the call returns.
        engine.wait()?;
        let prefill = start.elapsed().as_secs_f64();

        let params = SamplingParams {
            temperature: TEMPERATURE,
            ..SamplingParams::default()
        };
        let (mut sampler, mut drawn) = (Sampler::new(), Vec::new());
        // All rows of a pass are sampled in a call, as in a search.
        let mut choose = |engine: &mut Engine, step: usize, logits: &Logits, next: &mut [u32]| {
            if !bench.sample {
                let tokens = next.iter_mut().enumerate();
                tokens.for_each(|(i, token)| *token = given(step, i));
                return Ok(());
            }
            let choice = |i: usize| SampleRow {
                // The prompt has one row of logits, from which all sequences take their first
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
        // The forks keep the prompt's pages.
        engine.free(root);

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
        let decode = start.elapsed().as_secs_f64();
        let kv = engine.kv();
        for seq in seqs {
            engine.free(seq);
        }
        Ok((prefill, decode, kv.pages_used * kv.page_bytes))
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
