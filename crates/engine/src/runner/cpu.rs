use beamgen_kernels::{Cpu, Isa, KvFormat, KvPages, KvShape, RopeTable, ThreadPool};

use crate::account::Clock;
use crate::buffers::Buffers;
use crate::chunk::Chunk;
use crate::decoder::Pass;
use crate::model::CpuDecoder;
use crate::{EngineConfig, Error, KvType, ModelConfig, Output};

#[derive(Debug)]
pub(crate) struct CpuRunner {
    pool: ThreadPool,
    isa: Isa,
    pub(crate) kv: KvPages,
    rope: RopeTable,
    buffers: Buffers,
    pub(crate) clock: Clock,
}

pub(crate) struct CpuPass<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) decoder: &'a CpuDecoder,
    /// Page tables that [`Chunk::attends`] points into.
    pub(crate) tables: &'a [u32],
    /// The estimated floating-point operations, by which the pool decides how many threads to wake.
    pub(crate) work: u64,
    pub(crate) output: Output,
}

impl CpuRunner {
    pub(crate) fn new(
        c: &ModelConfig,
        decoder: &CpuDecoder,
        config: &EngineConfig,
        pool: &ThreadPool,
    ) -> Result<(Self, usize), Error> {
        let shape = KvShape {
            layers: c.num_hidden_layers,
            kv_heads: c.num_key_value_heads,
            head_dim: c.head_dim,
            page_size: config.page_size,
        };
        let format = config.kv_dtype.format();
        if config.kv_dtype == KvType::Bf16 && shape.head_dim > KvFormat::WIDEST_BF16 {
            let (most, found) = (KvFormat::WIDEST_BF16, shape.head_dim);
            let reason =
                format!("bf16 holds heads of at most {most} values, this model has {found}");
            return Err(Error::setting("kv_dtype", reason));
        }
        let pages = config.kv_budget() / format.page_bytes(shape);
        let runner = Self {
            pool: pool.clone(),
            isa: config.isa.resolve()?,
            kv: KvPages::stored_as(shape, format),
            rope: c.rope.table(c.head_dim),
            buffers: Buffers::new(c, decoder.widest_inputs(), config.max_rows),
            clock: Clock::default(),
        };
        Ok((runner, pages))
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.kv.page_bytes()
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffers.bytes() + self.rope.bytes()
    }

    pub(crate) fn prepare(&mut self, pages: usize, longest: usize) {
        self.kv.grow_to(pages);
        self.rope.cover(longest);
    }

    /// Runs all chunks of a call. `fill` passes each chunk to its argument in turn; `out` gets the
    /// wanted rows.
    pub(crate) fn run(
        &mut self,
        pass: &CpuPass<'_>,
        out: &mut [f32],
        fill: impl FnOnce(&mut dyn FnMut(&mut Chunk) -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let width = pass.output.width(pass.config);
        let isa = self.isa;
        let mut running = Pass {
            config: pass.config,
            decoder: pass.decoder,
            rope: &self.rope,
            kv: &mut self.kv,
            buffers: &mut self.buffers,
            tables: pass.tables,
            clock: &mut self.clock,
        };
        // All chunks are one region of the pool, so its threads are woken only once per call.
        self.pool.run(pass.work, |parallel| {
            let cpu = Cpu { isa, parallel };
            let mut out = out;
            fill(&mut |chunk: &mut Chunk| {
                let (rows, rest) =
                    std::mem::take(&mut out).split_at_mut(chunk.wanted.len() * width);
                running.run(cpu, chunk, pass.output, rows);
                out = rest;
                Ok(())
            })
        })
    }
}
