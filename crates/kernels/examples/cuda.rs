//! Times the operations on a CUDA device, at the sizes of Qwen2.5-1.5B in bfloat16, beside what the
//! device copies.
//!
//! `cargo run --release -p beamgen-kernels --example cuda [-- DIVISOR]`; sizes are divided by
//! DIVISOR (an emulated device takes 64).

use std::time::Instant;

use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    CudaError, Device, KvLayout, LinearShape, LinearWorkspace, Number, QkvRows, SampleRequest,
    Samples, Staging, attention, attention_merge, linear, rmsnorm, rope_kv, silu_mul,
};
use beamgen_kernels::{AttentionRow, AttentionShape, Epilogue};
use half::bf16;

const HEADS: usize = 12;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 128;
const PAGE: usize = 16;
/// More than any second-level cache has: what a call reads comes from memory, as in a pass over all
/// layers.
const COLD: usize = 256 << 20;

struct Bench {
    device: Device,
    divisor: usize,
}

fn main() -> Result<(), CudaError> {
    let divisor = std::env::args()
        .nth(1)
        .map_or(1, |n| n.parse().expect("a divisor"));
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let bench = Bench { device, divisor };
    bench.copies()?;
    println!(
        "{:<40} {:>10} {:>10} {:>10}",
        "operation", "us", "GB/s", "TFLOP/s"
    );
    for rows in [1, 16, 64, 256, 1024] {
        bench.layers(rows)?;
    }
    for (rows, prefix) in [(1, 512), (1, 4096), (64, 512), (64, 4096), (256, 4096)] {
        bench.attention(rows, prefix)?;
    }
    bench.others(64)
}

fn noise(n: usize) -> Vec<bf16> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bf16::from_bits((state >> 48) as u16 & 0x807F | 0x3C80)
    };
    (0..n).map(|_| next()).collect()
}

impl Bench {
    /// A size, divided; a multiple of 64.
    fn size(&self, n: usize) -> usize {
        (n / self.divisor).next_multiple_of(64).max(64)
    }

    fn floats(&self, n: usize) -> Result<Buffer, CudaError> {
        let values: Vec<f32> = noise(n).into_iter().map(bf16::to_f32).collect();
        self.device.upload(&values)
    }

    /// Median seconds of a call among many that are queued.
    fn time(&self, mut call: impl FnMut(usize) -> Result<(), CudaError>) -> Result<f64, CudaError> {
        let calls = if self.divisor == 1 { 50 } else { 1 };
        call(0)?;
        let mut seconds = Vec::new();
        for _ in 0..5 {
            self.device.synchronize()?;
            let start = Instant::now();
            for i in 0..calls {
                call(i)?;
            }
            self.device.synchronize()?;
            seconds.push(start.elapsed().as_secs_f64() / calls as f64);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[2])
    }

    fn row(&self, name: &str, seconds: f64, bytes: usize, flops: usize) {
        let (gb, tera) = (bytes as f64 / seconds / 1e9, flops as f64 / seconds / 1e12);
        println!("{name:<40} {:>10.1} {gb:>10.1} {tera:>10.2}", 1e6 * seconds);
    }

    fn copies(&self) -> Result<(), CudaError> {
        let bytes = (1 << 30) / self.divisor;
        let mut memory = self.device.alloc(2 * bytes)?;
        memory.clear()?;
        let seconds = self.time(|_| memory.copy_within(0, bytes, bytes))?;
        println!(
            "copies {:.1} GB/s, read and written counted",
            2e-9 * bytes as f64 / seconds
        );
        Ok(())
    }

    fn layers(&self, rows: usize) -> Result<(), CudaError> {
        for (name, inputs, outputs) in [
            ("qkv", 1536, 2048),
            ("attention out", 1536, 1536),
            ("gate and up", 1536, 17920),
            ("down", 8960, 1536),
            ("head", 1536, 151_936),
        ] {
            let (inputs, outputs) = (self.size(inputs), self.size(outputs));
            let shape = LinearShape {
                inputs,
                outputs,
                number: Number::Bf16,
            };
            let bytes = 2 * inputs * outputs;
            let copies = (COLD / self.divisor).div_ceil(bytes);
            let mut weights = self.device.alloc(copies * bytes)?;
            weights.write(0, &noise(inputs * outputs))?;
            for i in 1..copies {
                weights.copy_within(0, i * bytes, bytes)?;
            }
            let x = self.device.upload(&noise(rows * inputs))?;
            let mut out = self.device.alloc(4 * rows * outputs)?;
            let mut workspace = LinearWorkspace::new(&self.device, &[shape], rows)?;
            let seconds = self.time(|i| {
                linear(
                    &mut out,
                    &x,
                    &shape,
                    &weights.from(i % copies * bytes),
                    None,
                    rows,
                    Epilogue::Store,
                    &mut workspace,
                )
            })?;
            let flops = 2 * rows * inputs * outputs;
            self.row(&format!("{name}, {rows} rows"), seconds, bytes, flops);
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
        let mut out = self.device.alloc(2 * rows * shape.stride)?;
        let seconds = self.time(|i| {
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
            )?;
            attention_merge(
                &mut out,
                Number::Bf16,
                &parts,
                &staging,
                &lists,
                rows,
                (HEADS, HEAD_DIM),
            )
        })?;
        let flops = 4 * rows * (prefix + own * PAGE) * shape.stride;
        let name = format!("attention, {rows} rows over {prefix} shared");
        self.row(&name, seconds, kv.bytes() / layout.layers, flops);
        Ok(())
    }

    fn others(&self, rows: usize) -> Result<(), CudaError> {
        let (hidden, width, vocab) = (self.size(1536), self.size(8960), self.size(151_936));
        let x = self.floats(rows * 2 * width)?;
        let mut out = self.device.alloc(4 * rows * 2 * width)?;
        let weight = self.floats(hidden)?;
        let seconds =
            self.time(|_| rmsnorm(&mut out, Number::Bf16, &x, &weight, rows, hidden, 1e-6))?;
        self.row(
            &format!("rmsnorm, {rows} rows"),
            seconds,
            6 * rows * hidden,
            0,
        );
        let seconds = self.time(|_| silu_mul(&mut out, Number::Bf16, &x, rows, width))?;
        self.row(&format!("silu, {rows} rows"), seconds, 10 * rows * width, 0);

        let layout = KvLayout {
            number: Number::Bf16,
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
        let mut kv = self.device.alloc(rows * layout.page_bytes())?;
        let mut qkv = self.floats(rows * shape.stride)?;
        let angles = self.floats(rows * HEAD_DIM)?;
        let slots: Vec<u32> = (0..rows as u32).flat_map(|row| [row, 3]).collect();
        let slots = self.device.upload(&slots)?;
        let half = HEAD_DIM / 2;
        let seconds =
            self.time(|_| rope_kv(&mut qkv, shape, &mut kv, &layout, 0, &angles, half, &slots))?;
        self.row(
            &format!("rope and cache, {rows} rows"),
            seconds,
            8 * rows * shape.stride,
            0,
        );

        let logits = self.floats(rows * vocab)?;
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
            let seconds = self.time(|_| samples.draw(&logits, vocab, vocab))?;
            self.row(
                &format!("draw, {name}, {rows} rows"),
                seconds,
                logits.bytes(),
                0,
            );
        }
        Ok(())
    }
}
