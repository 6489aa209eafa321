//! Times the operations on a CUDA device, at the sizes of Qwen2.5-1.5B and 7B in bfloat16. The
//! device's rate of copies is the reference.
//!
//! `cargo run --release -p beamgen-kernels --example cuda [-- --json] [--dry]`. With `--json` it
//! prints one object per line: the device, then the resources of each kernel. For each operation
//! follow kernel, shape, rows, microseconds, bytes read and written, and floating-point operations.
//! With `--dry` sizes are divided by 64, for an emulated device, whose times mean nothing.
//!
//! Each operation is recorded twice: as a graph of one launch and as a graph of 21. The difference
//! of their times is the time of 20 launches without the time of a replay. Before each replay a
//! buffer larger than any second-level cache is written. Each launch reads other weights or another
//! layer's keys and values, as in a pass over all layers. Activations stay in the cache.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    CudaError, Device, Gather, Graph, HeadColumns, KvLayout, LinearShape, LinearWorkspace, Number,
    PrmLayer, QkvRows, SampleRequest, Samples, Staging, attention, attention_merge, embed,
    gather_rows, linear, linear_silu, log_probs, prm_head, prm_layer, rmsnorm, rmsnorm_heads,
    rope_angles, rope_kv, silu_mul,
};
use beamgen_kernels::{AttentionRow, AttentionShape, Epilogue};
use half::bf16;

const HEADS: usize = 12;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 128;
const PAGE: usize = 16;
/// Outputs of the first layer of a reward model's head, and of its last one.
const SCORES: [usize; 2] = [3584, 2];
/// The bytes that are written to empty the second-level cache. No card has a larger one.
const COLD: usize = 256 << 20;
/// The number of launches that are timed for each operation.
const CALLS: usize = 20;
const REPEATS: usize = 9;

/// The linear layers: model and name, inputs, outputs.
const LAYERS: [(&str, usize, usize); 9] = [
    ("1.5B qkv", 1536, 2048),
    ("1.5B o", 1536, 1536),
    ("1.5B gate_up", 1536, 17_920),
    ("1.5B down", 8960, 1536),
    ("1.5B head", 1536, 151_936),
    ("7B qkv", 3584, 4608),
    ("7B o", 3584, 3584),
    ("7B gate_up", 3584, 37_888),
    ("7B down", 18_944, 3584),
];

struct Bench {
    device: Device,
    /// A buffer that is larger than the cache, and written before each replay to empty the cache.
    scratch: RefCell<Buffer>,
    divisor: usize,
    calls: usize,
    repeats: usize,
    rows: &'static [usize],
    json: bool,
}

fn main() -> Result<(), CudaError> {
    let (mut dry, mut json) = (false, false);
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--dry" => dry = true,
            "--json" => json = true,
            other => {
                eprintln!("{other}: expected --dry or --json");
                std::process::exit(2);
            }
        }
    }
    let device = Device::open(0)?;
    let divisor = if dry { 64 } else { 1 };
    let bench = Bench {
        scratch: RefCell::new(device.alloc(COLD / divisor)?),
        device,
        divisor,
        calls: if dry { 1 } else { CALLS },
        repeats: if dry { 1 } else { REPEATS },
        rows: if dry {
            &[16, 130]
        } else {
            &[16, 32, 64, 128, 256, 512, 1024, 2048]
        },
        json,
    };
    bench.warm_up(Duration::from_millis(if dry { 1 } else { 300 }))?;
    let copies = bench.copies()?;
    bench.facts(copies)?;
    for layer in LAYERS {
        bench.layer(layer)?;
    }
    let decoding = [(1, 512), (1, 4096), (64, 512), (64, 4096), (256, 4096)];
    for (rows, prefix) in decoding.iter().take(if dry { 3 } else { 5 }) {
        bench.attention(*rows, *prefix)?;
    }
    for rows in bench.rows {
        bench.rowwise(*rows)?;
    }
    // The emulated device takes longer for a sampled token than for all other operations.
    let most = if dry { 16 } else { 256 };
    for rows in bench.rows.iter().filter(|rows| **rows <= most) {
        bench.sampling(*rows)?;
        bench.head(*rows)?;
    }
    Ok(())
}

fn noise(n: usize) -> Vec<bf16> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bf16::from_bits((state >> 48) as u16 & 0x807F | 0x3C80)
        })
        .collect()
}

impl Bench {
    /// Returns `n`, divided in a dry run, and rounded up to a multiple of 64.
    fn size(&self, n: usize) -> usize {
        (n / self.divisor).next_multiple_of(64).max(64)
    }

    fn floats(&self, n: usize) -> Result<Buffer, CudaError> {
        let values: Vec<f32> = noise(n).into_iter().map(bf16::to_f32).collect();
        self.device.upload(&values)
    }

    /// Keeps the device busy for `time`, so that its clocks rise.
    fn warm_up(&self, time: Duration) -> Result<(), CudaError> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.scratch.borrow_mut().clear()?;
            self.device.synchronize()?;
        }
        Ok(())
    }

    /// Returns the median seconds of a call. The argument of `call` counts the calls within a
    /// replay, so that each can use other memory.
    fn time(&self, mut call: impl FnMut(usize) -> Result<(), CudaError>) -> Result<f64, CudaError> {
        // This launch loads the kernels, which is not allowed during a recording.
        call(0)?;
        let mut one = Graph::record(&self.device, || call(0))?;
        let all = || (0..=self.calls).try_for_each(&mut call);
        let mut all = Graph::record(&self.device, all)?;
        // The first replay may also copy the graph to the device, so it is not timed.
        self.replay(&mut one)?;
        self.replay(&mut all)?;
        let mut seconds = Vec::new();
        for _ in 0..self.repeats {
            let difference = self.replay(&mut all)? - self.replay(&mut one)?;
            seconds.push(difference.max(1e-9) / self.calls as f64);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }

    fn replay(&self, graph: &mut Graph) -> Result<f64, CudaError> {
        self.scratch.borrow_mut().clear()?;
        self.device.synchronize()?;
        let start = Instant::now();
        graph.launch()?;
        self.device.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Times an operation and prints its row.
    fn row(
        &self,
        kernel: &str,
        shape: &str,
        rows: usize,
        [bytes, flops]: [usize; 2],
        call: impl FnMut(usize) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let seconds = self.time(call)?;
        let us = 1e6 * seconds;
        if self.json {
            println!(
                r#"{{"kernel": "{kernel}", "shape": "{shape}", "rows": {rows}, "us": {us:.3}, "bytes": {bytes}, "flops": {flops}}}"#
            );
        } else {
            let (gb, tera) = (bytes as f64 / seconds / 1e9, flops as f64 / seconds / 1e12);
            println!("{kernel:<16} {shape:<26} {rows:>5} {us:>10.1} {gb:>10.1} {tera:>10.2}");
        }
        Ok(())
    }

    /// Bytes read and written in a second by a copy within the device's memory.
    fn copies(&self) -> Result<f64, CudaError> {
        let bytes = (1 << 30) / self.divisor;
        let mut memory = self.device.alloc(2 * bytes)?;
        memory.clear()?;
        let seconds = self.time(|_| memory.copy_within(0, bytes, bytes))?;
        Ok(2.0 * bytes as f64 / seconds)
    }

    /// Prints the device, and then the heads of the columns or, with `--json`, the resources of
    /// each kernel.
    fn facts(&self, copies: f64) -> Result<(), CudaError> {
        let info = self.device.info();
        if !self.json {
            println!("{info:?}");
            println!("copies {:.1} GB/s, read and written counted", 1e-9 * copies);
            println!(
                "{:<16} {:<26} {:>5} {:>10} {:>10} {:>10}",
                "kernel", "shape", "rows", "us", "GB/s", "TFLOP/s"
            );
            return Ok(());
        }
        let kernels = Device::kernel_names().map(|name| Ok((name, self.device.kernel_info(name)?)));
        let kernels = kernels.collect::<Result<Vec<_>, CudaError>>()?;
        let loaded = self.device.loaded();
        println!(
            r#"{{"device": {:?}, "pci": {:?}, "uuid": {:?}, "capability": "{}.{}", "memory": {}, "multiprocessors": {}, "modules_of_machine_code": {}, "modules_of_ptx": {}, "copy_gb_per_s": {:.1}}}"#,
            info.name,
            info.bus_id,
            info.uuid,
            info.capability.0,
            info.capability.1,
            info.memory,
            info.multiprocessors,
            loaded.machine_code,
            loaded.ptx,
            1e-9 * copies
        );
        for (name, takes) in kernels {
            println!(
                r#"{{"kernel": "{name}", "registers": {}, "local": {}, "shared": {}, "carveout": {}}}"#,
                takes.registers, takes.local, takes.shared, takes.carveout
            );
        }
        Ok(())
    }

    fn layer(&self, (name, inputs, outputs): (&str, usize, usize)) -> Result<(), CudaError> {
        let (inputs, outputs) = (self.size(inputs), self.size(outputs));
        let shape = LinearShape {
            inputs,
            outputs,
            number: Number::Bf16,
        };
        let bytes = 2 * inputs * outputs;
        let copies = (COLD / self.divisor / bytes + 1).min(self.calls + 1);
        let mut weights = self.device.alloc(copies * bytes)?;
        weights.write(0, &noise(inputs * outputs))?;
        for i in 1..copies {
            weights.copy_within(0, i * bytes, bytes)?;
        }
        let weights: Vec<Buffer> = (0..copies).map(|i| weights.from(i * bytes)).collect();
        let most = *self.rows.last().expect("some rows");
        let x = self.device.upload(&noise(most * inputs))?;
        let mut out = self.device.alloc(4 * most * outputs)?;
        let mut workspace = LinearWorkspace::new(&self.device, &[shape], most)?;
        let gated = name.ends_with("gate_up");
        let kernel = if gated { "linear_silu" } else { "linear" };
        let shown = format!("{name} {inputs}x{outputs}");
        for &rows in self.rows {
            // A gated layer writes half as many values, each of half the size.
            let written = if gated { outputs } else { 4 * outputs };
            let costs = [
                bytes + rows * (2 * inputs + written),
                2 * rows * inputs * outputs,
            ];
            self.row(kernel, &shown, rows, costs, |i| {
                let weights = &weights[i % copies];
                if gated {
                    return linear_silu(&mut out, &x, &shape, weights, rows, &mut workspace);
                }
                let store = Epilogue::Store;
                linear(
                    &mut out,
                    &x,
                    &shape,
                    weights,
                    None,
                    rows,
                    store,
                    &mut workspace,
                )
            })?;
        }
        Ok(())
    }

    /// Rows that share a prefix, with 32 positions of their own.
    fn attention(&self, rows: usize, prefix: usize) -> Result<(), CudaError> {
        let prefix = self.size(prefix);
        let (shared, own) = (prefix / PAGE, 2);
        let pages = shared + own * rows;
        let layout = KvLayout {
            number: Number::Bf16,
            page_size: PAGE,
            layers: if self.divisor == 1 { 28 } else { 2 },
            kv_heads: KV_HEADS,
            head_dim: HEAD_DIM,
        };
        let kv = self
            .device
            .upload(&noise(pages * layout.page_bytes() / 2))?;
        let mut tables = Vec::new();
        let mut attends = Vec::new();
        for row in 0..rows {
            attends.push(AttentionRow {
                table: tables.len() as u32,
                len: (prefix + own * PAGE) as u32,
            });
            tables.extend(0..shared as u32);
            tables.extend((0..own).map(|i| (shared + own * row + i) as u32));
        }
        let reach = AttentionReach {
            page_size: PAGE,
            window: None,
            group: HEADS / KV_HEADS,
        };
        let mut plan = AttentionPlan::default();
        plan.build(&tables, &attends, reach);
        let capacity = AttentionCapacity {
            rows,
            partials: plan.partials(),
        };
        let mut staging = Staging::new(&self.device, 0)?;
        let mut lists = AttentionLists::new(capacity);
        lists.stage(&mut staging, &plan, AttentionRoom::of(&plan));
        staging.copy()?;
        let shape = AttentionShape {
            heads: HEADS,
            stride: HEADS * HEAD_DIM,
            scale: 0.088,
            window: None,
        };
        let q = self.floats(rows * shape.stride)?;
        let mut parts = self.device.alloc(capacity.partial_bytes(HEADS, HEAD_DIM))?;
        let shown = format!("{prefix} shared");
        let costs = [
            kv.bytes() / layout.layers + q.bytes() + parts.bytes(),
            4 * rows * (prefix + own * PAGE) * shape.stride,
        ];
        self.row("attention", &shown, rows, costs, |i| {
            attention(
                &mut parts,
                &q,
                &shape,
                &kv,
                &layout,
                i % layout.layers,
                &staging,
                &lists,
                plan.items(),
            )
        })?;
        let mut out = self.device.alloc(2 * rows * shape.stride)?;
        let costs = [parts.bytes() + out.bytes(), 0];
        self.row("attention_merge", &shown, rows, costs, |_| {
            let width = (HEADS, HEAD_DIM);
            attention_merge(
                &mut out,
                Number::Bf16,
                &parts,
                &staging,
                &lists,
                rows,
                width,
            )
        })
    }

    /// The operations that read each row by itself.
    fn rowwise(&self, rows: usize) -> Result<(), CudaError> {
        let (hidden, width) = (self.size(1536), self.size(8960));
        let bf16 = Number::Bf16;
        let x = self.floats(rows * 2 * width)?;
        let mut out = self.device.alloc(4 * rows * 2 * width)?;
        let weight = self.floats(hidden)?;
        let size = format!("{hidden}");
        let costs = [6 * rows * hidden, 0];
        self.row("rmsnorm", &size, rows, costs, |_| {
            rmsnorm(&mut out, bf16, &x, &weight, rows, hidden, 1e-6)
        })?;
        let costs = [10 * rows * width, 0];
        self.row("silu_mul", &format!("{width}"), rows, costs, |_| {
            silu_mul(&mut out, bf16, &x, rows, width)
        })?;
        let table = self.device.upload(&noise(1024 * hidden))?;
        let tokens: Vec<u32> = (0..rows as u32).map(|row| 37 * row % 1024).collect();
        let tokens = self.device.upload(&tokens)?;
        self.row("embed", &size, rows, [6 * rows * hidden, 0], |_| {
            embed(&mut out, bf16, &table, &tokens, rows, hidden)
        })?;
        let chosen: Vec<u32> = (0..rows as u32).rev().collect();
        let chosen = self.device.upload(&chosen)?;
        let columns = Gather {
            width: hidden,
            x_stride: hidden,
            out_stride: hidden,
        };
        self.row("gather_rows", &size, rows, [8 * rows * hidden, 0], |_| {
            gather_rows(&mut out, &x, &chosen, rows, columns)
        })?;

        let layout = KvLayout {
            number: bf16,
            page_size: PAGE,
            layers: 1,
            kv_heads: KV_HEADS,
            head_dim: HEAD_DIM,
        };
        let shape = QkvRows {
            rows,
            stride: (HEADS + 2 * KV_HEADS) * HEAD_DIM,
            heads: HEADS,
        };
        let size = format!("{HEADS}:{KV_HEADS} of {HEAD_DIM}");
        let half = HEAD_DIM / 2;
        let frequencies = self.floats(half)?;
        let mut angles = self.device.alloc(4 * rows * HEAD_DIM)?;
        let costs = [4 * rows * HEAD_DIM, 0];
        self.row("rope_angles", &size, rows, costs, |_| {
            rope_angles(&mut angles, &tokens, &frequencies, 1.0, rows, half)
        })?;
        let mut kv = self.device.alloc(rows * layout.page_bytes())?;
        let mut qkv = self.floats(rows * shape.stride)?;
        let slots: Vec<u32> = (0..rows as u32).flat_map(|row| [row, 3]).collect();
        let slots = self.device.upload(&slots)?;
        let costs = [8 * rows * shape.stride, 0];
        self.row("rope_kv", &size, rows, costs, |_| {
            rope_kv(&mut qkv, shape, &mut kv, &layout, 0, &angles, half, &slots)
        })?;
        let columns = HeadColumns {
            stride: shape.stride,
            offset: 0,
            heads: HEADS,
            head_dim: HEAD_DIM,
        };
        let weight = self.floats(HEAD_DIM)?;
        let costs = [8 * rows * HEADS * HEAD_DIM, 0];
        self.row("rmsnorm_heads", &size, rows, costs, |_| {
            rmsnorm_heads(&mut qkv, rows, columns, &weight, 1e-6)
        })
    }

    fn sampling(&self, rows: usize) -> Result<(), CudaError> {
        let vocab = self.size(151_936);
        let logits = self.floats(rows * vocab)?;
        let costs = [logits.bytes(), 0];
        for (name, top_k, top_p) in [
            ("temperature", 0, 1.0),
            ("top-p", 0, 0.95),
            ("top-k", 50, 1.0),
        ] {
            let requests: Vec<SampleRequest> = (0..rows as u32)
                .map(|row| SampleRequest {
                    row,
                    said_first: 0,
                    said_count: 0,
                    top_k,
                    penalty: 1.0,
                    temperature: 0.8,
                    top_p,
                    min_p: 0.0,
                    key: [1, 2],
                    counter: [0, row, 3, 4],
                })
                .collect();
            let mut samples = Samples::new(&self.device, rows, 0)?;
            samples.request(&requests, &[])?;
            self.row("sample", &format!("{vocab} {name}"), rows, costs, |_| {
                samples.draw(&logits, vocab, vocab)
            })?;
        }
        let tokens: Vec<u32> = (0..rows as u32).collect();
        let tokens = self.device.upload(&tokens)?;
        let mut out = self.device.alloc(4 * rows)?;
        self.row("log_prob", &format!("{vocab}"), rows, costs, |_| {
            log_probs(&mut out, &logits, &tokens, rows, vocab, vocab)
        })
    }

    /// The head of a reward model: two layers.
    fn head(&self, rows: usize) -> Result<(), CudaError> {
        let (inputs, outputs) = (self.size(3584), self.size(SCORES[0]));
        let hidden = self.floats(rows * inputs)?;
        let chosen: Vec<u32> = (0..rows as u32).collect();
        let chosen = self.device.upload(&chosen)?;
        let weight = self.floats(inputs * outputs)?;
        let first = PrmLayer {
            weight: &weight,
            bias: None,
            inputs,
            outputs,
        };
        let mut between = self.device.alloc(8 * rows * outputs)?;
        let costs = |layer: &PrmLayer<'_>, input: usize| {
            let (inputs, outputs) = (layer.inputs, layer.outputs);
            [
                4 * inputs * outputs + rows * (input * inputs + 8 * outputs),
                2 * rows * inputs * outputs,
            ]
        };
        let shown = format!("{inputs}x{outputs}");
        self.row("prm_head", &shown, rows, costs(&first, 4), |_| {
            prm_head(&mut between, &hidden, &chosen, first, rows)
        })?;
        let last = PrmLayer {
            weight: &weight,
            bias: None,
            inputs: outputs,
            outputs: SCORES[1],
        };
        let mut scores = self.device.alloc(8 * rows * SCORES[1])?;
        let shown = format!("{outputs}x{}", SCORES[1]);
        self.row("prm_layer", &shown, rows, costs(&last, 8), |_| {
            prm_layer(&mut scores, &between, last, rows)
        })
    }
}
