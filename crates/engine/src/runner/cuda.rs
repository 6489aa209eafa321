//! Passes on a CUDA device.
//!
//! Memory for keys, values and activations is allocated when the engine is created. A pass copies
//! its lists (tokens, positions, what each row attends to) to the device and queues its kernels; it
//! does not wait for results. A pass in which every row is wanted, such as a decoding pass, is
//! padded to one of a few sizes. It is recorded as a graph for that size, and later replayed. The
//! padding rows write their keys and values to a scratch page. Graphs do not change results: if
//! recording fails or is switched off, every kernel is launched by itself.

mod lists;
mod memory;
mod sample;
mod steps;

use std::collections::HashMap;

use beamgen_kernels::cuda::{Buffer, Device, Graph, KvLayout};

use crate::chunk::Chunk;
use crate::model::CudaDecoder;
use crate::{EngineConfig, Error, ModelConfig, Output};
pub(crate) use lists::most_partials;
use lists::{Key, Lists};
use memory::Activations;
use sample::Sampling;
use steps::Steps;

/// The most rows of a recorded pass. In larger passes, launches take little of the time.
const GRAPH_ROWS: usize = 256;
/// The most graphs that are kept. Before one more is added, all are dropped.
const GRAPHS: usize = 64;

/// The graph of each size of pass. A `None` means that the size has run once, which loaded the
/// kernels, and may be recorded next.
type Graphs = HashMap<Key, Option<Graph>>;

/// The keys, values and activations of an engine on a CUDA device.
#[derive(Debug)]
pub(crate) struct CudaRunner {
    device: Device,
    shape: Kv,
    kv: Buffer,
    activations: Activations,
    lists: Lists,
    /// Whether passes may be recorded.
    records: bool,
    graphs: Graphs,
    /// The wanted rows of the last call, in float32. They are valid until the next call.
    out: Buffer,
    sampling: Sampling,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Kv {
    pub(super) layout: KvLayout,
    /// The page that padding rows write to.
    pub(super) scratch: u32,
}

impl CudaRunner {
    /// The bytes of the activations and lists, without the rows that a call returns.
    pub(crate) fn bytes_for(c: &ModelConfig, config: &EngineConfig) -> usize {
        Activations::bytes_for(c, config.max_rows) + Lists::bytes_for(c, config)
    }

    /// Refuses settings that a CUDA device does not support. Pages must be multiples of 16
    /// positions.
    pub(crate) fn check(config: &EngineConfig) -> Result<(), Error> {
        if config.page_size.is_multiple_of(16) {
            return Ok(());
        }
        let reason = format!(
            "{}: use a multiple of 16 on a CUDA device",
            config.page_size
        );
        Err(Error::setting("page_size", reason))
    }

    /// Creates a runner with the pages of the budget and a scratch page. Returns the number of
    /// pages without the scratch page.
    pub(crate) fn new(
        c: &ModelConfig,
        decoder: &CudaDecoder,
        config: &EngineConfig,
    ) -> Result<(Self, usize), Error> {
        Self::check(config)?;
        let device = decoder.norm.device().clone();
        let layout = KvLayout {
            number: config.kv_dtype.number(decoder.number()),
            page_size: config.page_size,
            layers: c.num_hidden_layers,
            kv_heads: c.num_key_value_heads,
            head_dim: c.head_dim,
        };
        let page_bytes = layout.page_bytes();
        // The scratch page comes after the pages of the budget and needs a 32-bit number of its
        // own.
        let pages = (config.kv_budget() / page_bytes).min(u32::MAX as usize - 1);
        let shape = Kv {
            layout,
            scratch: pages as u32,
        };
        let mut kv = device.alloc((pages + 1).saturating_mul(page_bytes))?;
        // Nothing reads the scratch page, but its contents should not depend on earlier uses of the
        // memory.
        kv.clear()?;
        let runner = Self {
            activations: Activations::new(&device, c, config.max_rows)?,
            lists: Lists::new(&device, c, config)?,
            sampling: Sampling::new(&device, config.max_rows, 0)?,
            out: device.alloc(0)?,
            records: config.cuda_graphs,
            graphs: Graphs::new(),
            device,
            shape,
            kv,
        };
        Ok((runner, pages))
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.shape.layout.page_bytes()
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.activations.bytes + self.lists.staging.memory().bytes() + self.out.bytes()
    }

    pub(crate) fn copy_page(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let bytes = self.page_bytes();
        let (from, to) = (from as usize * bytes, to as usize * bytes);
        Ok(self.kv.copy_within(from, to, bytes)?)
    }

    /// Begins a call that returns `wanted` rows, and makes room for these rows.
    pub(crate) fn begin<'a>(
        &'a mut self,
        config: &'a ModelConfig,
        decoder: &'a CudaDecoder,
        tables: &'a [u32],
        output: Output,
        wanted: usize,
    ) -> Result<CudaCall<'a>, Error> {
        let width = output.width(config);
        let bytes = 4 * width * wanted;
        if self.out.bytes() < bytes {
            // No graph uses this buffer, so its address may change. The old buffer is freed first,
            // because both together would exceed the planned memory.
            self.out = self.device.alloc(0)?;
            self.out = self.device.alloc(bytes)?;
        }
        Ok(CudaCall {
            runner: self,
            config,
            decoder,
            tables,
            output,
            done: 0,
        })
    }

    pub(crate) fn rows(&self) -> &Buffer {
        &self.out
    }

    /// Copies rows of the last call to the host, starting with row `from`, until `out` is full.
    pub(crate) fn read_rows(
        &self,
        from: usize,
        width: usize,
        out: &mut [f32],
    ) -> Result<(), Error> {
        Ok(self.out.read(4 * width * from, out)?)
    }
}

/// A call in progress, which may have several chunks.
pub(crate) struct CudaCall<'a> {
    runner: &'a mut CudaRunner,
    config: &'a ModelConfig,
    decoder: &'a CudaDecoder,
    tables: &'a [u32],
    output: Output,
    /// The number of wanted rows that earlier chunks of the call have written to the output.
    done: usize,
}

impl CudaCall<'_> {
    /// Queues the kernels of one chunk, or a graph of them.
    pub(crate) fn run(&mut self, chunk: &mut Chunk) -> Result<(), Error> {
        let (config, runner) = (self.config, &mut *self.runner);
        let records = runner.records && runner.device.graphs_lost().is_none();
        // Prefill rarely has the same size twice, so its graphs would hardly ever be replayed.
        let decoding = records && chunk.wanted.len() == chunk.len() && chunk.len() <= GRAPH_ROWS;
        let written = runner
            .lists
            .write(chunk, self.tables, runner.shape, decoding);
        if !matches!(written, Ok((_, false))) {
            // Recorded graphs have the old addresses of the lists. After an error, the lists may
            // have moved, too.
            runner.graphs.clear();
        }
        let (key, _) = written?;
        let steps = Steps {
            config,
            decoder: self.decoder,
            kv: &runner.kv,
            layout: runner.shape.layout,
            activations: &runner.activations,
            lists: &runner.lists,
        };
        match key {
            None => steps.layers()?,
            Some(key) => recorded(&runner.device, &mut runner.graphs, key, || steps.layers())?,
        }
        // The output is not part of the graph, because its place changes from call to call.
        let wanted = chunk.wanted.len();
        if wanted > 0 {
            let at = 4 * self.output.width(config) * self.done;
            steps.output(self.output, wanted, &mut runner.out.from(at))?;
        }
        self.done += wanted;
        Ok(())
    }

    /// Waits for the device, and copies all wanted rows to the host.
    pub(crate) fn read(self, out: &mut [f32]) -> Result<(), Error> {
        let width = self.output.width(self.config);
        self.runner.read_rows(0, width, out)
    }
}

/// Queues the layers of a pass. The first pass of a size launches every kernel by itself, and later
/// passes replay a graph. If the graph fails, the kernels are launched one by one, and the device
/// records no more graphs.
fn recorded(
    device: &Device,
    graphs: &mut Graphs,
    key: Key,
    layers: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    // Dropping all graphs is cheap: it costs one recording per size, while tracking their use would
    // cost time in every pass.
    if graphs.len() >= GRAPHS && !graphs.contains_key(&key) {
        graphs.clear();
    }
    let Some(graph) = graphs.get_mut(&key) else {
        // The first launch of a kernel loads its code, which is not allowed during recording.
        layers()?;
        graphs.insert(key, None);
        return Ok(());
    };
    let queued = match graph {
        Some(graph) => graph.launch().map_err(Error::from),
        None => Graph::record(device, &layers).and_then(|new| Ok(graph.insert(new).launch()?)),
    };
    if let Err(error) = queued {
        // The layers may run twice with the same result: they only overwrite activations, and the
        // keys and values of this pass.
        layers()?;
        device.lose_graphs(error.to_string());
        graphs.clear();
    }
    Ok(())
}
