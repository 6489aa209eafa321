//! Times attention over shared pages: each row by itself (flat), and rows that share blocks
//! together (tree).
//!
//!     cargo run --release -p beamgen-kernels --example attention -- \
//!         [shape=0] [prefix=1024] [rows=32] [own=64] [threads=1] [format=0] [layers=1] [prefill=0]
//!
//! A table of all shapes, prefixes, formats (0 f32, 1 bf16, 2 f16) and threads that are not given.
//! Each row has a shared prefix and `own` positions of its own; `prefill=1` takes `rows` tokens of
//! one sequence after the prefix instead. `layers` above 1 gives every call another layer, as a
//! model does, so that pages come from beyond the second-level cache. Flat and tree run in turn,
//! and the times are medians of at least 9 pairs. The last column is the time of flat over float32,
//! divided by the time of the tree.

use std::time::Instant;

use beamgen_kernels::{
    AttentionRow, AttentionShape, Ceilings, Cpu, Isa, KvFormat, KvPages, KvShape, KvSlot, Parallel,
    ThreadPool, attention, attention_flat, kv_store,
};

const PAGE: usize = 16;
const FORMATS: [(&str, KvFormat); 3] = [
    ("f32", KvFormat::F32),
    ("bf16", KvFormat::Bf16),
    ("f16", KvFormat::F16),
];
const SHAPES: [(&str, usize, usize, usize); 4] = [
    ("Qwen2.5-0.5B 14/2/64", 14, 2, 64),
    ("Qwen2.5-1.5B 12/2/128", 12, 2, 128),
    ("SmolLM2-135M 9/3/64", 9, 3, 64),
    ("bundled 4/2/32", 4, 2, 32),
];

struct Setup {
    pages: KvPages,
    shape: AttentionShape,
    q: Vec<f32>,
    tables: Vec<u32>,
    rows: Vec<AttentionRow>,
    out: Vec<f32>,
    layer: usize,
}

/// Rows and what they share.
#[derive(Clone, Copy)]
struct Load {
    count: usize,
    prefix: usize,
    own: usize,
    layers: usize,
    prefill: bool,
}

fn noise(n: usize) -> Vec<f32> {
    beamgen_test_support::numbers::noise(n, 1)
}

impl Setup {
    fn new(
        (_, heads, kv_heads, head_dim): (&str, usize, usize, usize),
        format: KvFormat,
        load: Load,
    ) -> Self {
        let kv = KvShape {
            layers: load.layers,
            kv_heads,
            head_dim,
            page_size: PAGE,
        };
        let own = if load.prefill { load.count } else { load.own };
        let sequences = if load.prefill { 1 } else { load.count };
        let (shared, rest) = (
            load.prefix / PAGE,
            (load.prefix % PAGE + own).div_ceil(PAGE),
        );
        let mut pages = KvPages::stored_as(kv, format);
        pages.grow_to(shared + sequences * rest);
        let (mut tables, mut rows) = (Vec::new(), Vec::new());
        for i in 0..sequences {
            let table = tables.len() as u32;
            tables.extend(0..shared as u32);
            tables.extend((0..rest).map(|p| (shared + i * rest + p) as u32));
            let last = (load.prefix + own) as u32;
            let first = if load.prefill {
                load.prefix as u32 + 1
            } else {
                last
            };
            rows.extend((first..=last).map(|len| AttentionRow { table, len }));
        }
        let width = kv_heads * head_dim;
        let slots: Vec<KvSlot> = (0..(shared + sequences * rest) * PAGE)
            .map(|p| KvSlot {
                page: (p / PAGE) as u32,
                offset: (p % PAGE) as u32,
            })
            .collect();
        let data = noise(slots.len() * 2 * width);
        for layer in 0..load.layers {
            let (cpu, stride) = (Cpu::serial(), 2 * width);
            kv_store(cpu, &mut pages, layer, &data, stride, 0, width, &slots);
        }
        let stride = (heads + 2 * kv_heads) * head_dim;
        Self {
            pages,
            shape: AttentionShape {
                heads,
                stride,
                scale: 1.0 / (head_dim as f32).sqrt(),
                window: None,
            },
            q: noise(load.count * stride),
            tables,
            rows,
            out: vec![0.0; load.count * heads * head_dim],
            layer: 0,
        }
    }

    /// Seconds of one call.
    fn time(&mut self, parallel: Parallel, flat: bool) -> f64 {
        let call = if flat { attention_flat } else { attention };
        let isa = Isa::detect();
        self.layer = (self.layer + 1) % self.pages.shape().layers;
        let start = Instant::now();
        call(
            Cpu { isa, parallel },
            &self.pages,
            self.layer,
            self.shape,
            &self.q,
            &self.tables,
            &self.rows,
            &mut self.out,
        );
        start.elapsed().as_secs_f64()
    }

    /// Returns the median seconds of a call, flat and as a tree.
    fn times(&mut self, pool: &ThreadPool) -> (f64, f64) {
        pool.run(u64::MAX, |parallel| {
            let (mut flat, mut tree) = (Vec::new(), Vec::new());
            self.time(parallel, true);
            self.time(parallel, false);
            let start = Instant::now();
            while flat.len() < 9 || (start.elapsed().as_millis() < 150 && flat.len() < 501) {
                flat.push(self.time(parallel, true));
                tree.push(self.time(parallel, false));
            }
            (median(flat), median(tree))
        })
    }

    fn operations(&self) -> f64 {
        let positions: usize = self.rows.iter().map(|row| row.len as usize).sum();
        4.0 * (positions * self.shape.heads * self.pages.shape().head_dim) as f64
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// GFLOP/s of multiply-adds in registers, on one thread.
fn ceiling() -> f64 {
    let ceilings = Ceilings { turns: 2_000_000 };
    let times = (0..5).map(|_| {
        let start = Instant::now();
        ceilings.run_floats(Isa::detect());
        start.elapsed().as_secs_f64()
    });
    ceilings.floats() / median(times.collect()) / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut prefixes, mut threads) = (vec![128, 512, 1024, 4096], vec![1, 2]);
    let (mut shapes, mut formats) = (&SHAPES[..], &FORMATS[..2]);
    let mut load = Load {
        count: 32,
        prefix: 0,
        own: 64,
        layers: 1,
        prefill: false,
    };
    for arg in std::env::args().skip(1) {
        let (name, value) = arg.split_once('=').ok_or("arguments are name=number")?;
        let value: usize = value.parse()?;
        match name {
            "prefix" => prefixes = vec![value],
            "threads" => threads = vec![value],
            "rows" => load.count = value,
            "own" => load.own = value,
            "layers" => load.layers = value.max(1),
            "prefill" => load.prefill = value != 0,
            "shape" => shapes = SHAPES.get(value..=value).ok_or("shape: no such one")?,
            "format" => formats = FORMATS.get(value..=value).ok_or("format: no such one")?,
            _ => return Err(format!("{name}: no such setting").into()),
        }
    }
    println!(
        "multiply-adds of float32: {:.0} GFLOP/s a thread",
        ceiling()
    );
    for &shape in shapes {
        println!("{}, {} rows", shape.0, load.count);
        println!(
            "  threads prefix  kv     flat us   tree us  flat/tree  flat GF/s  tree GF/s  f32 flat/tree"
        );
        for &threads in &threads {
            let pool = ThreadPool::new(threads);
            for &prefix in &prefixes {
                let mut first = None;
                for &(name, format) in formats {
                    let mut setup = Setup::new(shape, format, Load { prefix, ..load });
                    let (flat, tree) = setup.times(&pool);
                    let first = *first.get_or_insert(flat);
                    println!(
                        "  {threads:7} {prefix:6}  {name:4} {:9.1} {:9.1} {:10.2} {:10.1} {:10.1} {:14.2}",
                        flat * 1e6,
                        tree * 1e6,
                        flat / tree,
                        setup.operations() / flat / 1e9,
                        setup.operations() / tree / 1e9,
                        first / tree,
                    );
                }
            }
        }
    }
    Ok(())
}
