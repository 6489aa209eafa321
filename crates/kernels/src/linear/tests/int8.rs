use super::*;

/// Every tier of this machine, with VNNI and without.
pub(super) fn all_cpus() -> Vec<Cpu<'static>> {
    let plain = cpus().into_iter().map(|cpu| Cpu {
        isa: cpu.isa.without_vnni(),
        ..cpu
    });
    cpus().into_iter().chain(plain).collect()
}

/// Whether the tier rounds a multiply-add once.
pub(super) fn fused(cpu: &Cpu) -> bool {
    cpu.isa.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64")
}

fn int8(weight: &[f32], inputs: usize, outputs: usize) -> PackedLinear {
    PackedLinear::from_rows(weight, inputs, outputs, WeightFormat::Int8)
}

pub(super) fn forward(layer: &PackedLinear, cpu: Cpu, x: &[f32], rows: usize) -> Vec<f32> {
    let mut y = vec![f32::NAN; rows * layer.outputs()];
    let scratch = &mut LinearScratch::default();
    layer.forward(cpu, scratch, x, &mut y, Epilogue::Store);
    y
}

/// Returns a row of inputs as the layer quantises it: for each 32 values a scale and whole numbers.
pub(super) fn quantized(x: &[f32]) -> Vec<(f64, Vec<i64>)> {
    x.chunks(32)
        .map(|group| {
            let largest = group.iter().fold(0.0f32, |max, x| max.max(x.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            let ints = group.iter().map(|x| (x * inverse).round_ties_even() as i64);
            (f64::from(largest / 127.0), ints.collect())
        })
        .collect()
}

/// Quantised weights times quantised inputs in float64.
fn reference(x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    let groups = quantized(x);
    let rows = weight.chunks(x.len()).enumerate();
    rows.map(|(n, row)| {
        let sum: f64 = row
            .chunks(32)
            .zip(&groups)
            .map(|(weights, (scale, ints))| {
                let block = Q8Block::quantize(weights);
                let dot: i64 = block
                    .values
                    .iter()
                    .zip(ints)
                    .map(|(w, x)| i64::from(*w) * x)
                    .sum();
                half::f16::from_bits(block.scale).to_f64() * scale * dot as f64
            })
            .sum();
        sum + bias.map_or(0.0, |b| f64::from(b[n]))
    })
    .collect()
}

#[test]
fn equals_the_reference() {
    for cpu in all_cpus() {
        for inputs in [32, 64, 96, 896] {
            for outputs in [1, 15, 16, 17, 32, 33, 129] {
                let weight = noise(inputs * outputs, 9);
                let bias = noise(outputs, 10);
                let layer = int8(&weight, inputs, outputs).with_bias(&bias);
                for rows in [1, 2, 3, 4, 5, 6, 7, 8, 13, 37] {
                    let x = noise(rows * inputs, 11);
                    let y = forward(&layer, cpu, &x, rows);
                    for (y, x) in y.chunks(outputs).zip(x.chunks(inputs)) {
                        let want = reference(x, &weight, Some(&bias));
                        // The layer sums the groups in float32, and the reference in float64.
                        assert_close(y, &want, 1e-6 * (inputs as f64 / 32.0).sqrt());
                    }
                }
            }
        }
    }
}

#[test]
fn stays_near_the_product_in_float32() {
    let (inputs, outputs) = (896, 200);
    let (weight, x) = (noise(inputs * outputs, 1), noise(inputs, 2));
    let y = forward(&int8(&weight, inputs, outputs), Cpu::serial(), &x, 1);
    let want = linear_reference(&x, &weight, None);
    let square = |all: &mut dyn Iterator<Item = f64>| all.map(|e| e * e).sum::<f64>();
    let error = square(&mut y.iter().zip(&want).map(|(y, w)| f64::from(*y) - w));
    let relative = (error / square(&mut want.iter().copied())).sqrt();
    println!("relative error of int8 on uniform noise: {relative:.2e}");
    // Two roundings by at most half of 1/127 of a group's largest: 2^0.5 * 12^-0.5 / 127 * 3^0.5.
    assert!((1e-3..8e-3).contains(&relative), "{relative}");
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    let (inputs, outputs) = (160, 203);
    let layer = int8(&noise(inputs * outputs, 12), inputs, outputs);
    let x = noise(230 * inputs, 13);
    let mut first: Option<Vec<f32>> = None;
    for cpu in all_cpus() {
        let alone: Vec<f32> = x
            .chunks(inputs)
            .flat_map(|x| forward(&layer, cpu, x, 1))
            .collect();
        for rows in (1..40).chain([96, 97, 108, 230]) {
            let y = forward(&layer, cpu, &x[..rows * inputs], rows);
            assert_same_bits(&y, &alone[..rows * outputs]);
        }
        // All tiers give the same bits, with VNNI or without.
        if fused(&cpu) {
            assert_same_bits(&alone, first.get_or_insert_with(|| alone.clone()));
        }
    }
}

#[test]
fn threads_change_nothing() {
    let (inputs, outputs, rows) = (192, 515, 200);
    let layer = int8(&noise(inputs * outputs, 14), inputs, outputs);
    let x = noise(rows * inputs, 15);
    let serial = forward(&layer, Cpu::serial(), &x, rows);
    for threads in [2, 3, 8] {
        let isa = Isa::detect();
        let y = ThreadPool::new(threads).run(u64::MAX, |parallel| {
            forward(&layer, Cpu { isa, parallel }, &x, rows)
        });
        assert_same_bits(&y, &serial);
    }
}

/// The largest bytes of both signs, and a weight of -128 as a file may have it: 16 bits would
/// overflow.
#[test]
fn sums_of_the_largest_bytes_are_exact() {
    for cpu in all_cpus() {
        for (weight, input) in [(-128, 1.0), (-128, -1.0), (127, 1.0), (127, -1.0)] {
            let layer = PackedLinear::pack_blocks(
                Parallel::serial(),
                64,
                33,
                WeightFormat::Int8,
                |_, bytes| {
                    let block = Q8Block {
                        scale: half::f16::ONE.to_bits(),
                        values: [weight; 32],
                    };
                    bytes.as_chunks_mut().0.fill(block.to_bytes());
                },
            );
            let y = forward(&layer, cpu, &[input * 127.0; 5 * 64], 5);
            let want = f32::from(weight) * input * 127.0 * 64.0;
            assert!(y.iter().all(|y| *y == want), "{cpu:?}: {} {want}", y[0]);
        }
    }
}

#[test]
fn adds_to_the_residual() {
    let (inputs, outputs, rows) = (64, 40, 7);
    for cpu in all_cpus() {
        let layer = int8(&noise(inputs * outputs, 18), inputs, outputs);
        let layer = layer.with_bias(&noise(outputs, 20));
        let x = noise(rows * inputs, 19);
        let plain = forward(&layer, cpu, &x, rows);
        let residual = noise(rows * outputs, 21);
        let mut y = residual.clone();
        let scratch = &mut LinearScratch::default();
        layer.forward(cpu, scratch, &x, &mut y, Epilogue::Add);
        let want: Vec<f32> = residual.iter().zip(&plain).map(|(a, b)| a + b).collect();
        assert_same_bits(&y, &want);
    }
}

#[test]
fn blocks_round_to_the_nearest_multiple_of_a_half_precision_scale() {
    let mut weights = [0.0f32; 32];
    (weights[0], weights[1], weights[2], weights[3]) = (-127.0, 0.5, 1.5, -2.5);
    let block = Q8Block::quantize(&weights);
    assert_eq!(block.scale, half::f16::ONE.to_bits());
    assert_eq!(block.values[..4], [-127, 0, 2, -2]);
    // Quantising twice changes nothing: a block's own values are multiples of its scale.
    for seed in 0..50 {
        let mut weights = noise(32, seed);
        for w in weights.iter_mut() {
            *w *= 0.03;
        }
        let mut rounded = weights.clone();
        WeightFormat::Int8.round(&mut rounded);
        let largest = weights.iter().fold(0.0f32, |max, w| max.max(w.abs()));
        for (w, r) in weights.iter().zip(&rounded) {
            assert!((w - r).abs() <= 0.5 / 127.0 * 1.001 * largest);
        }
        let mut again = rounded.clone();
        WeightFormat::Int8.round(&mut again);
        assert_same_bits(&again, &rounded);
    }
    // A scale out of float16's range becomes infinite.
    assert_eq!(
        Q8Block::quantize(&[1e7; 32]).scale,
        half::f16::INFINITY.to_bits()
    );
    assert_eq!(Q8Block::quantize(&[0.0; 32]).values, [0; 32]);
}

#[test]
fn gives_its_weights_back() {
    for (inputs, outputs) in [(32, 1), (64, 33), (1120, 1000)] {
        let weight = noise(inputs * outputs, 22);
        let layer = int8(&weight, inputs, outputs);
        let weight = rounded(&weight, WeightFormat::Int8);
        let mut row = vec![0.0; inputs];
        for n in 0..outputs {
            layer.weight_row(n, &mut row);
            assert_same_bits(&row, &weight[n * inputs..][..inputs]);
        }
        let [plain, biased] = [false, true]
            .map(|bias| PackedLinear::bytes_for(inputs, outputs, WeightFormat::Int8, bias));
        assert_eq!(layer.bytes(), plain);
        assert_eq!(plain, outputs.next_multiple_of(32) * inputs / 32 * 34);
        assert_eq!(layer.format(), WeightFormat::Int8);
        assert_eq!(layer.with_bias(&vec![0.0; outputs]).bytes(), biased);
    }
}

#[test]
fn inputs_that_are_no_numbers_are_not_lost_and_stay_in_their_row() {
    let (inputs, outputs) = (64, 20);
    let layer = int8(&noise(inputs * outputs, 3), inputs, outputs);
    for cpu in all_cpus() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = noise(4 * inputs, 4);
            let whole = forward(&layer, cpu, &x, 4);
            x[inputs + 40] = bad;
            let y = forward(&layer, cpu, &x, 4);
            assert!(y[outputs..2 * outputs].iter().all(|y| y.is_nan()));
            assert_same_bits(&y[..outputs], &whole[..outputs]);
            assert_same_bits(&y[2 * outputs..], &whole[2 * outputs..]);
        }
        let tiny = forward(&layer, cpu, &[1e-37; 64], 1);
        assert!(tiny.iter().all(|y| y.is_finite()));
        let none = forward(&layer, cpu, &[0.0; 64], 1);
        assert!(none.iter().all(|y| *y == 0.0));
    }
}

#[test]
fn a_large_enough_scratch_does_not_grow() {
    let layer = int8(&noise(64 * 40, 5), 64, 40);
    let widest = WidestInputs::of(&layer);
    let mut scratch = LinearScratch::new(9, widest);
    assert_eq!(scratch.bytes(), LinearScratch::bytes_for(9, widest));
    for rows in [9, 1, 6] {
        let mut y = vec![0.0; rows * 40];
        let x = noise(rows * 64, 6);
        layer.forward(Cpu::serial(), &mut scratch, &x, &mut y, Epilogue::Store);
        assert_eq!(scratch.bytes(), LinearScratch::bytes_for(9, widest));
    }
}
