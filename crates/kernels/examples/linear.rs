//! Times `PackedLinear` on one thread, beside what the machine can do.
//!
//!     cargo run --release -p beamgen-kernels --example linear -- 1536x8960 896x4864
//!
//! A table for each shape `inputs x outputs`: GFLOP/s (2 * rows * inputs * outputs / time; int8
//! products counted alike) in each format for each number of rows. The formats take turns; a number
//! is the median of nine turns. The ceilings are loops of multiply-adds that touch no memory, timed
//! in turn with them. Time is that of the thread: others who share the core do not count. `isa=amx|avx512|avx2|portable` picks a tier.

use std::time::{Duration, Instant};

use beamgen_kernels::{
    Ceilings, Cpu, Epilogue, Isa, IsaLevel, LinearScratch, PackedLinear, WeightFormat,
};

const ROWS: [usize; 7] = [1, 4, 8, 16, 32, 64, 128];
const FORMATS: [WeightFormat; 3] = [WeightFormat::F32, WeightFormat::Bf16, WeightFormat::Int8];
const TURNS: usize = 9;
const WINDOW: Duration = Duration::from_millis(40);
const CEILINGS: Ceilings = Ceilings { turns: 50_000 };

fn noise(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Seconds that this thread has run: others who share the core do not count. Where the system does
/// not say, seconds on the clock.
fn seconds(start: Instant) -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = ran.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |n| n / 1e9)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let mut shapes = Vec::new();
    let mut cpu = Cpu::serial();
    for arg in std::env::args().skip(1) {
        if let Some(name) = arg.strip_prefix("isa=") {
            let level = match name {
                "amx" => IsaLevel::Amx,
                "avx512" => IsaLevel::Avx512,
                "avx2" => IsaLevel::Avx2,
                "portable" => IsaLevel::Portable,
                _ => panic!("{arg}: no such tier"),
            };
            cpu.isa = Isa::new(level).expect("this machine has the tier");
            continue;
        }
        let shape = arg.split_once('x').expect("inputs x outputs");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        shapes.push((number(shape.0), number(shape.1)));
    }
    if shapes.is_empty() {
        shapes = vec![(1536, 8960), (896, 4864)];
    }
    for (inputs, outputs) in shapes {
        table(cpu, inputs, outputs);
    }
}

/// 10^9 operations a second of a body of so many operations.
fn rate(operations: f64, mut body: impl FnMut()) -> f64 {
    let origin = Instant::now();
    let start = seconds(origin);
    let mut calls = 0;
    while calls < 2 || origin.elapsed() < WINDOW {
        body();
        calls += 1;
    }
    operations * f64::from(calls) / (seconds(origin) - start) / 1e9
}

fn table(cpu: Cpu, inputs: usize, outputs: usize) {
    let weights = noise(inputs * outputs);
    let layers = FORMATS.map(|f| PackedLinear::from_rows(&weights, inputs, outputs, f));
    println!(
        "\nGFLOP/s, K={inputs} N={outputs}, {:?}, one thread",
        cpu.isa.level()
    );
    println!(
        "rows | f32 | bf16 | int8 | int8/f32 | FMA ceiling | byte-dot ceiling | f32/FMA | int8/byte-dot"
    );
    println!("---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---:");
    for rows in ROWS {
        let x = noise(rows * inputs);
        let mut y = vec![0.0; rows * outputs];
        let mut scratch = LinearScratch::new(rows, inputs);
        let flops = (2 * rows * inputs * outputs) as f64;
        let mut rates = [const { Vec::new() }; 5];
        for _ in 0..TURNS {
            for (layer, rates) in layers.iter().zip(&mut rates) {
                rates.push(rate(flops, || {
                    layer.forward(cpu, &mut scratch, &x, &mut y, Epilogue::Store);
                }));
            }
            rates[3].push(rate(CEILINGS.floats(), || CEILINGS.run_floats(cpu.isa)));
            rates[4].push(rate(CEILINGS.bytes(), || CEILINGS.run_bytes(cpu.isa)));
        }
        let [f32, bf16, int8, fma, bytes] = rates.map(median);
        println!(
            "{rows} | {f32:.0} | {bf16:.0} | {int8:.0} | {:.1} | {fma:.0} | {bytes:.0} | {:.0} % | {:.0} %",
            int8 / f32,
            100.0 * f32 / fma,
            100.0 * int8 / bytes
        );
    }
}
