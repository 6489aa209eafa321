//! Times every operation on one thread, next to the machine's peak rates.
//!
//!     cargo bench -p beamgen-kernels                 # all
//!     cargo bench -p beamgen-kernels -- linear       # those with this in their name
//!
//! Shapes are those of Qwen2.5-0.5B. `Gelem/s` are GFLOP/s (a multiply-add is two operations; int8
//! products are counted alike), `GB/s` the bytes that an operation reads and writes. The group
//! `ceilings` has the peak rates to compare with: multiply-adds and dot products in registers,
//! a copy and a read of 256 MiB.

// the macro of criterion makes a public function
#![allow(missing_docs)]

use std::time::Duration;

use beamgen_kernels::{
    AttentionRow, AttentionShape, CeilingMemory, Ceilings, Cpu, Epilogue, KvFormat, KvPages,
    KvShape, KvSlot, LinearScratch, PackedLinear, Parallel, RopeTable, WeightFormat, WidestInputs,
    attention, exp_weights, kv_store, log_sum_exp, maxima, maxima_len, rmsnorm, rope, silu_mul,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const HIDDEN: usize = 896;
const INTERMEDIATE: usize = 4864;
const HEADS: usize = 14;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const PAGE: usize = 16;
const VOCAB: usize = 151_936;
const QKV: usize = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
const ROWS: usize = 64;

fn noise(n: usize) -> Vec<f32> {
    beamgen_test_support::numbers::noise(n, 1)
}

fn bytes_of(floats: usize) -> Throughput {
    Throughput::BytesDecimal(4 * floats as u64)
}

/// Runs one benchmark. Each call of `call` does the work `amount`.
fn bench(c: &mut Criterion, group: &str, name: &str, amount: Throughput, mut call: impl FnMut()) {
    let mut group = c.benchmark_group(group);
    group.throughput(amount);
    group.bench_function(name, |b| b.iter(&mut call));
    group.finish();
}

fn ceilings(c: &mut Criterion) {
    let isa = Cpu::serial().isa;
    let loops = Ceilings { turns: 20_480 };
    let floats = Throughput::Elements(loops.floats() as u64);
    bench(c, "ceilings", "fma", floats, || loops.run_floats(isa));
    let dots = Throughput::Elements(loops.bytes() as u64);
    bench(c, "ceilings", "byte-dot", dots, || loops.run_bytes(isa));
    let pairs = Throughput::Elements(loops.pairs() as u64);
    bench(c, "ceilings", "pair-dot", pairs, || loops.run_pairs(isa));
    let blocks = Throughput::Elements(loops.blocks() as u64);
    bench(c, "ceilings", "block-dot", blocks, || loops.run_blocks(isa));
    let mut memory = CeilingMemory::new(256 << 20).expect("half a gigabyte");
    let (read, copied) = (memory.bytes(), 2 * memory.bytes());
    let serial = Parallel::serial();
    bench(c, "ceilings", "copy", bytes_of(copied / 4), || {
        memory.run_copy(serial);
    });
    bench(c, "ceilings", "read", bytes_of(read / 4), || {
        memory.run_read(isa, serial);
    });
}

fn linear(c: &mut Criterion) {
    let weights = noise(HIDDEN * INTERMEDIATE);
    for format in [
        WeightFormat::F32,
        WeightFormat::Bf16,
        WeightFormat::Bf16Pairs,
        WeightFormat::Int8,
    ] {
        let layer = PackedLinear::from_rows(&weights, HIDDEN, INTERMEDIATE, format);
        forward(c, &layer);
    }
    // Q8_0 is Int8. Blocks of 256 fit the down projection only.
    for (format, inputs, outputs) in [
        (WeightFormat::Q4_0, HIDDEN, INTERMEDIATE),
        (WeightFormat::Q4_1, HIDDEN, INTERMEDIATE),
        (WeightFormat::Int8, INTERMEDIATE, HIDDEN),
        (WeightFormat::Q4K, INTERMEDIATE, HIDDEN),
        (WeightFormat::Q6K, INTERMEDIATE, HIDDEN),
    ] {
        let serial = Parallel::serial();
        let layer = PackedLinear::pack_blocks(serial, inputs, outputs, format, |_, blocks| {
            // The bytes make scales of 0.066, so that no number is zero or huge.
            blocks.fill(0x2C);
        });
        forward(c, &layer);
    }
}

fn forward(c: &mut Criterion, layer: &PackedLinear) {
    let (inputs, outputs) = (layer.inputs(), layer.outputs());
    for rows in [1, 4, 16, ROWS] {
        let x = noise(rows * inputs);
        let mut y = vec![0.0; rows * outputs];
        let mut scratch = LinearScratch::new(rows, WidestInputs::of(layer));
        let flops = Throughput::Elements((2 * rows * inputs * outputs) as u64);
        let name = format!("{inputs}x{outputs} {:?} rows={rows}", layer.format());
        bench(c, "linear", &name, flops, || {
            layer.forward(Cpu::serial(), &mut scratch, &x, &mut y, Epilogue::Store);
        });
    }
}

/// Keys and values of `tokens` positions of one layer.
fn cache(tokens: usize, format: KvFormat) -> KvPages {
    let shape = KvShape {
        layers: 1,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        page_size: PAGE,
    };
    let mut pages = KvPages::stored_as(shape, format);
    pages.grow_to(tokens.div_ceil(PAGE));
    let slots: Vec<KvSlot> = (0..tokens)
        .map(|position| KvSlot {
            page: (position / PAGE) as u32,
            offset: (position % PAGE) as u32,
        })
        .collect();
    store(&mut pages, &noise(tokens * QKV), &slots);
    pages
}

fn store(pages: &mut KvPages, qkv: &[f32], slots: &[KvSlot]) {
    let k = HEADS * HEAD_DIM;
    let v = k + KV_HEADS * HEAD_DIM;
    kv_store(Cpu::serial(), pages, 0, qkv, QKV, k, v, slots);
}

/// All rows share one prefix, so whole blocks are read once for all rows.
fn attend(c: &mut Criterion) {
    let shape = AttentionShape {
        heads: HEADS,
        stride: QKV,
        scale: 0.125,
        window: None,
    };
    let sizes = [(1, 128), (1, 1024), (32, 1024)];
    let formats = [KvFormat::F32, KvFormat::Bf16].into_iter();
    for (format, (rows, context)) in formats.flat_map(|format| sizes.map(|size| (format, size))) {
        let pages = cache(context, format);
        let tables: Vec<u32> = (0..context.div_ceil(PAGE) as u32).collect();
        let row = AttentionRow {
            table: 0,
            len: context as u32,
        };
        let q = noise(rows * QKV);
        let mut out = vec![0.0; rows * HEADS * HEAD_DIM];
        let flops = Throughput::Elements((4 * rows * context * HEADS * HEAD_DIM) as u64);
        let name = format!("{format:?} rows={rows} context={context}");
        let rows = vec![row; rows];
        bench(c, "attention", &name, flops, || {
            attention(
                Cpu::serial(),
                &pages,
                0,
                shape,
                &q,
                &tables,
                &rows,
                &mut out,
            );
        });
    }
}

/// Operations that move numbers more than they compute.
fn streams(c: &mut Criterion) {
    let cpu = Cpu::serial();
    let (x, weight) = (noise(ROWS * HIDDEN), noise(HIDDEN));
    let mut y = vec![0.0; ROWS * HIDDEN];
    bench(c, "streams", "rmsnorm", bytes_of(2 * x.len()), || {
        rmsnorm(cpu, &x, &weight, 1e-6, &mut y);
    });

    let half = HEAD_DIM / 2;
    let frequencies: Vec<f64> = (0..half)
        .map(|i| 1e6f64.powf(-(i as f64) / half as f64))
        .collect();
    let mut table = RopeTable::new(HEAD_DIM, &frequencies, 1.0);
    table.cover(1024);
    let mut qkv = noise(ROWS * QKV);
    let positions = vec![1000; ROWS];
    bench(
        c,
        "streams",
        "rope",
        bytes_of(2 * ROWS * HEADS * HEAD_DIM),
        || {
            rope(cpu, &table, &mut qkv, QKV, HEADS, &positions);
        },
    );

    let gate_up = noise(2 * ROWS * INTERMEDIATE);
    let mut y = vec![0.0; ROWS * INTERMEDIATE];
    bench(c, "streams", "silu_mul", bytes_of(3 * y.len()), || {
        silu_mul(cpu, &gate_up, INTERMEDIATE, &mut y);
    });

    let slots: Vec<KvSlot> = (0..ROWS as u32)
        .map(|page| KvSlot { page, offset: 5 })
        .collect();
    let moved = 2 * 2 * ROWS * KV_HEADS * HEAD_DIM;
    for (name, format) in [
        ("kv_store", KvFormat::F32),
        ("kv_store bf16", KvFormat::Bf16),
    ] {
        let mut pages = cache(ROWS * PAGE, format);
        bench(c, "streams", name, bytes_of(moved), || {
            store(&mut pages, &qkv, &slots);
        });
    }

    let logits = noise(VOCAB);
    let mut weights = vec![0.0; VOCAB];
    bench(c, "streams", "exp_weights", bytes_of(2 * VOCAB), || {
        exp_weights(cpu.isa, &logits, 1.0, 1.25, &mut weights);
    });
    bench(c, "streams", "log_sum_exp", bytes_of(2 * VOCAB), || {
        std::hint::black_box(log_sum_exp(cpu.isa, &logits));
    });
    let mut largest = vec![0.0; maxima_len(VOCAB)];
    bench(c, "streams", "maxima", bytes_of(VOCAB), || {
        std::hint::black_box(maxima(cpu.isa, &logits, &mut largest));
    });
}

criterion_group! {
    name = operations;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = ceilings, linear, attend, streams
}
criterion_main!(operations);
