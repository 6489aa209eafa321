//! Compares the speed of `PackedLinear` with candle's, at the same number of threads. candle runs float32 with
//! `Tensor::matmul` (gemm's AVX-512 code) and int8 with `QMatMul` of `Q8_0` blocks.
//!
//!     RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo run --release -p beamgen-train \
//!         --example candle -- threads=1 1536x8960 896x4864
//!
//! Prints a table for each shape `inputs x outputs` in GFLOP/s: 2 * rows * inputs * outputs divided by the wall-clock
//! time. The argument `avx512` keeps our kernels from AMX. The kernels take turns, and a figure is the median of nine
//! turns. The ceilings are loops of multiply-adds on one thread that touch no memory.

use std::time::{Duration, Instant};

use beamgen_kernels::{
    Ceilings, Cpu, Epilogue, Isa, IsaLevel, LinearScratch, PackedLinear, ThreadPool, WeightFormat,
    WidestInputs,
};
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Result, Tensor};

const ROWS: [usize; 5] = [1, 8, 16, 32, 64];
const TURNS: usize = 9;
const WINDOW: Duration = Duration::from_millis(30);
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

fn main() -> Result<()> {
    let mut shapes = Vec::new();
    let (mut threads, mut isa) = (1, Isa::detect());
    for arg in std::env::args().skip(1) {
        let number = |text: &str| text.parse::<usize>().expect("a number");
        if arg == "avx512" {
            isa = Isa::new(IsaLevel::Avx512).expect("a processor with AVX-512");
            continue;
        }
        match (arg.strip_prefix("threads="), arg.split_once('x')) {
            (Some(n), _) => threads = number(n),
            (None, Some((inputs, outputs))) => shapes.push((number(inputs), number(outputs))),
            (None, None) => panic!("{arg}: neither threads=N nor avx512 nor INPUTSxOUTPUTS"),
        }
    }
    let pool = ThreadPool::new(threads);
    for (inputs, outputs) in shapes {
        table(&pool, isa, inputs, outputs)?;
    }
    Ok(())
}

/// Returns 10^9 operations per second for a `body` of `operations` operations, which runs repeatedly for at least
/// `WINDOW` and twice.
fn rate(operations: f64, mut body: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut calls = 0;
    while calls < 2 || start.elapsed() < WINDOW {
        body()?;
        calls += 1;
    }
    Ok(operations * f64::from(calls) / start.elapsed().as_secs_f64() / 1e9)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn table(pool: &ThreadPool, isa: Isa, inputs: usize, outputs: usize) -> Result<()> {
    let weights = noise(inputs * outputs);
    let ours = [WeightFormat::F32, WeightFormat::Int8]
        .map(|format| PackedLinear::from_rows(&weights, inputs, outputs, format));
    let tensor = Tensor::from_vec(weights, (outputs, inputs), &Device::Cpu)?;
    let blocks = QMatMul::from_qtensor(QTensor::quantize(&tensor, GgmlDType::Q8_0)?)?;
    let transposed = tensor.t()?;
    println!(
        "\nGFLOP/s, K={inputs} N={outputs}, {:?}, {} threads",
        isa.level(),
        pool.threads()
    );
    println!(
        "rows | f32 | candle f32 | ratio | int8 | candle Q8_0 | ratio | FMA ceiling | byte-dot ceiling"
    );
    println!("---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---:");
    for rows in ROWS {
        let values = noise(rows * inputs);
        let x = Tensor::from_vec(values.clone(), (rows, inputs), &Device::Cpu)?;
        let mut y = vec![0.0; rows * outputs];
        let mut scratch = LinearScratch::new(rows, WidestInputs::of(&ours[1]));
        let flops = (2 * rows * inputs * outputs) as f64;
        let mut rates = [const { Vec::new() }; 6];
        for _ in 0..TURNS {
            for (layer, rates) in ours.iter().zip(&mut rates) {
                rates.push(rate(flops, || {
                    pool.run(u64::MAX, |parallel| {
                        let cpu = Cpu { isa, parallel };
                        layer.forward(cpu, &mut scratch, &values, &mut y, Epilogue::Store);
                    });
                    Ok(())
                })?);
            }
            rates[2].push(rate(flops, || x.matmul(&transposed).map(drop))?);
            rates[3].push(rate(flops, || blocks.forward(&x).map(drop))?);
            rates[4].push(rate(CEILINGS.floats(), || {
                CEILINGS.run_floats(isa);
                Ok(())
            })?);
            rates[5].push(rate(CEILINGS.bytes(), || {
                CEILINGS.run_bytes(isa);
                Ok(())
            })?);
        }
        let [f32, int8, theirs, their_blocks, fma, bytes] = rates.map(median);
        println!(
            "{rows} | {f32:.0} | {theirs:.0} | {:.2} | {int8:.0} | {their_blocks:.0} | {:.2} | {fma:.0} | {bytes:.0}",
            f32 / theirs,
            int8 / their_blocks,
        );
    }
    Ok(())
}
