//! Layers of bfloat16 that round their inputs, too.

use super::*;
use crate::linear::pair_amx::ByTiles;
use crate::simd::tiles::Model;

const PAIRS: [WeightFormat; 2] = [WeightFormat::Bf16Pairs, WeightFormat::Bf16Tiles];

/// The tiers of this machine, with and without the dot products of bfloat16.
fn pair_cpus() -> Vec<Cpu<'static>> {
    let with = |cpu: Cpu<'static>, on| Cpu {
        isa: cpu.isa.with_bf16(on),
        ..cpu
    };
    let both = |cpu: Cpu<'static>| [with(cpu, true), with(cpu, false)];
    cpus()
        .into_iter()
        .filter(int8::fused)
        .flat_map(both)
        .collect()
}

/// Computes one output one number after the other.
fn reference(format: WeightFormat, x: &[f32], weight: &[f32]) -> f32 {
    let rounded = |values: &[f32]| {
        let mut row = values.to_vec();
        format.round(&mut row);
        row.resize(values.len().next_multiple_of(32), 0.0);
        row
    };
    let (x, weight) = (rounded(x), rounded(weight));
    let mut total = 0.0_f32;
    for (x, w) in x.chunks_exact(32).zip(weight.chunks_exact(32)) {
        let pairs = x.as_chunks::<2>().0.iter().zip(w.as_chunks::<2>().0);
        if format == WeightFormat::Bf16Pairs {
            total = pairs.fold(total, |sum, (x, w)| {
                x[0].mul_add(w[0], x[1].mul_add(w[1], sum))
            });
        } else {
            let [first, second] = pairs.fold([0.0_f32; 2], |sums, (x, w)| {
                [0, 1].map(|half| x[half].mul_add(w[half], sums[half]))
            });
            total += first + second;
        }
    }
    total
}

#[test]
fn the_order_of_sums_is_the_same_on_every_tier() {
    let shapes = [(1, 1), (2, 33), (7, 40), (64, 97), (401, 70)];
    for (format, (inputs, outputs)) in PAIRS.into_iter().flat_map(|f| shapes.map(|s| (f, s))) {
        let (weight, bias) = (noise(inputs * outputs, 21), noise(outputs, 22));
        let layer = PackedLinear::from_rows(&weight, inputs, outputs, format);
        let layer = layer.with_bias(&bias);
        for rows in [1, 2, 5, 9, 10, 12, 13, 40, 97] {
            let x = noise(rows * inputs, 23);
            let mut want = vec![0.0; rows * outputs];
            for (x, want) in x.chunks_exact(inputs).zip(want.chunks_exact_mut(outputs)) {
                for ((want, weight), bias) in
                    want.iter_mut().zip(weight.chunks_exact(inputs)).zip(&bias)
                {
                    *want = reference(format, x, weight) + bias;
                }
            }
            for cpu in pair_cpus() {
                assert_same_bits(&int8::forward(&layer, cpu, &x, rows), &want);
            }
        }
    }
}

#[test]
fn several_threads_round_the_inputs() {
    // Enough values to be split.
    let (inputs, outputs, rows) = (401, 40, 97);
    let x = noise(rows * inputs, 28);
    for (format, cpu) in PAIRS
        .into_iter()
        .flat_map(|f| pair_cpus().into_iter().map(move |c| (f, c)))
    {
        let layer = PackedLinear::from_rows(&noise(inputs * outputs, 29), inputs, outputs, format);
        let mut y = vec![0.0; rows * outputs];
        ThreadPool::new(3).run(u64::MAX, |parallel| {
            let (cpu, scratch) = (Cpu { parallel, ..cpu }, &mut LinearScratch::default());
            layer.forward(cpu, scratch, &x, &mut y, Epilogue::Store);
        });
        assert_same_bits(&y, &int8::forward(&layer, cpu, &x, rows));
    }
}

#[test]
fn rounding_is_that_of_bfloat16_but_for_tiny_numbers() {
    let mut row = noise(38, 30);
    let (nan, next_to_infinity) = (f32::from_bits(0x7fff_ffff), f32::MAX);
    // A NaN with only low bits, numbers half way between two bfloat16, and an odd number of them.
    row.extend([nan, -nan, f32::from_bits(0x7f80_0001), f32::INFINITY]);
    row.extend([-next_to_infinity, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0]);
    row.extend([-0.0, 1e-40, -1e-16, 8.9e-16]);
    let mut want = Vec::new();
    for x in &row {
        let x = if x.abs() < crate::kv::TINY { 0.0 } else { *x };
        want.push(half::bf16::from_f32(x).to_bits());
    }
    want.push(0);
    let mut narrow = vec![0u32; want.len() / 2];
    round_pairs(&row, &mut narrow);
    for (pair, want) in narrow.iter().zip(want.as_chunks::<2>().0) {
        assert_eq!([*pair as u16, (*pair >> 16) as u16], *want);
    }
    let mut wide = vec![[0.0f32; 2]; want.len() / 2];
    round_pairs(&row, &mut wide);
    let halves = wide.as_flattened().iter().map(|x| x.to_bits());
    let want = want.iter().map(|half| u32::from(*half) << 16);
    assert!(halves.eq(want), "{wide:?}");
}

/// Padding is written for every call: the working memory still holds the inputs of a wider layer,
/// and an infinite one times the padding of the weights would not be 0.
#[test]
fn a_wider_layer_before_changes_nothing() {
    for (format, cpu) in PAIRS
        .into_iter()
        .flat_map(|f| pair_cpus().into_iter().map(move |c| (f, c)))
    {
        let layer = |inputs| PackedLinear::from_rows(&noise(inputs * 40, 26), inputs, 40, format);
        let (wide, narrow) = (layer(128), layer(33));
        let x = noise(2 * 33, 27);
        let scratch = &mut LinearScratch::default();
        let mut y = [0.0; 80];
        wide.forward(cpu, scratch, &[f32::INFINITY; 256], &mut y, Epilogue::Store);
        narrow.forward(cpu, scratch, &x, &mut y, Epilogue::Store);
        assert_same_bits(&y, &int8::forward(&narrow, cpu, &x, 2));
    }
}

#[test]
fn inputs_that_are_no_numbers_stay_in_their_row() {
    let (inputs, outputs) = (64, 20);
    for (format, cpu) in PAIRS
        .into_iter()
        .flat_map(|f| pair_cpus().into_iter().map(move |c| (f, c)))
    {
        let layer = PackedLinear::from_rows(&noise(inputs * outputs, 3), inputs, outputs, format);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = noise(4 * inputs, 4);
            let whole = int8::forward(&layer, cpu, &x, 4);
            x[inputs + 40] = bad;
            let y = int8::forward(&layer, cpu, &x, 4);
            assert!(y[outputs..2 * outputs].iter().all(|y| !y.is_finite()));
            assert_same_bits(&y[..outputs], &whole[..outputs]);
            assert_same_bits(&y[2 * outputs..], &whole[2 * outputs..]);
        }
    }
}

#[test]
fn tiny_numbers_are_the_same_on_every_tier() {
    let (inputs, outputs, rows) = (66, 34, 3);
    let scales = [1e-38_f32, 1e-30, 1e-16, 1e-15, 1e-8, 1.0];
    let scaled = |count, seed| -> Vec<f32> {
        let values = noise(count, seed).into_iter().enumerate();
        values.map(|(i, x)| x * scales[i % scales.len()]).collect()
    };
    for format in PAIRS {
        let weight = scaled(inputs * outputs, 24);
        let layer = PackedLinear::from_rows(&weight, inputs, outputs, format);
        let x = scaled(rows * inputs, 25);
        let results: Vec<Vec<f32>> = pair_cpus()
            .into_iter()
            .map(|cpu| int8::forward(&layer, cpu, &x, rows))
            .collect();
        for pair in results.windows(2) {
            assert_same_bits(&pair[0], &pair[1]);
        }
        let mut row = vec![0.0; inputs];
        layer.weight_row(33, &mut row);
        assert!(row.iter().all(|x| *x == 0.0 || x.abs() > 8e-16), "{row:?}");
    }
}

#[test]
fn tiles_multiply_the_right_rows_and_panels() {
    for (inputs, outputs) in [(1, 1), (33, 40), (64, 97), (130, 32)] {
        let (weight, bias) = (noise(inputs * outputs, 31), noise(outputs, 32));
        let layer = PackedLinear::from_rows(&weight, inputs, outputs, WeightFormat::Bf16Tiles);
        let layer = layer.with_bias(&bias);
        let Panels::Pairs(format, words) = &layer.panels else {
            panic!("{:?}", layer.format());
        };
        let width = format.pairs(inputs);
        for rows in [1, 15, 16, 17, 31, 32, 33, 50] {
            let x = noise(rows * inputs, 33);
            let mut pairs = vec![0u32; rows * width];
            layer.round(Cpu::serial(), &x, width, &mut pairs);
            let mut y = vec![f32::NAN; rows * outputs];
            let out = Out {
                y: SharedOut::new(&mut y),
                rows,
                outputs,
                bias: layer.bias.as_deref(),
                epilogue: Epilogue::Store,
            };
            let whole = outputs.div_ceil(PANEL);
            // Four tasks: two runs of rows by two of panels.
            for (rows, panels) in [0..rows / 3, rows / 3..rows].into_iter().flat_map(|rows| {
                [0..whole / 2, whole / 2..whole].map(|panels| (rows.clone(), panels))
            }) {
                let tile = Tile {
                    width,
                    weights: words,
                    x: &pairs,
                    out,
                    rows,
                    panels,
                };
                let registers = Model::default();
                Cpu::serial().isa.run(ByTiles { tile, registers });
            }
            for cpu in pair_cpus() {
                assert_same_bits(&int8::forward(&layer, cpu, &x, rows), &y);
            }
        }
    }
}
