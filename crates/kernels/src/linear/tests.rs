use super::*;
use crate::testing::{SIZES, assert_close, assert_same_bits, cpus, noise};
use crate::{Isa, IsaLevel, ThreadPool};

const FORMATS: [WeightFormat; 5] = [
    WeightFormat::F32,
    WeightFormat::Bf16,
    WeightFormat::F16,
    WeightFormat::Bf16Pairs,
    WeightFormat::Bf16Tiles,
];

fn packed(weight: &[f32], inputs: usize, outputs: usize) -> PackedLinear {
    PackedLinear::from_rows(weight, inputs, outputs, WeightFormat::F32)
}

#[test]
fn equals_the_reference() {
    for (cpu, inputs) in cpus()
        .into_iter()
        .flat_map(|cpu| [1, 2, 7, 33, 129].map(|inputs| (cpu, inputs)))
    {
        for (outputs, format) in SIZES.into_iter().flat_map(|n| FORMATS.map(|f| (n, f))) {
            let weight = noise(inputs * outputs, 9);
            let bias = noise(outputs, 10);
            let layer = PackedLinear::from_rows(&weight, inputs, outputs, format).with_bias(&bias);
            let weight = rounded(&weight, format);
            for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 37, 97] {
                let mut x = noise(rows * inputs, 11);
                let y = int8::forward(&layer, cpu, &x, rows);
                if format.is_pairs() {
                    x = rounded(&x, format);
                }
                for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact(outputs)) {
                    let want = linear_reference(x, &weight, Some(&bias));
                    assert_close(y, &want, 1e-6 * (inputs as f64).sqrt());
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    // Fewer inputs than a chunk of the register blocks, and more than two.
    for (inputs, outputs) in [(137, 203), (401, 70)] {
        let layer = packed(&noise(inputs * outputs, 12), inputs, outputs);
        let x = noise(230 * inputs, 13);
        for cpu in cpus() {
            let mut alone = vec![0.0; 230 * outputs];
            for r in 0..230 {
                let y = &mut alone[r * outputs..][..outputs];
                layer.forward(
                    cpu,
                    &mut LinearScratch::default(),
                    &x[r * inputs..][..inputs],
                    y,
                    Epilogue::Store,
                );
            }
            for rows in (1..40).chain([96, 97, 108, 230]) {
                let mut y = vec![0.0; rows * outputs];
                layer.forward(
                    cpu,
                    &mut LinearScratch::default(),
                    &x[..rows * inputs],
                    &mut y,
                    Epilogue::Store,
                );
                assert_same_bits(&y, &alone[..rows * outputs]);
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    let (inputs, outputs, rows) = (192, 515, 200);
    let layer = packed(&noise(inputs * outputs, 14), inputs, outputs);
    let x = noise(rows * inputs, 15);
    let isa = Isa::detect();
    let mut serial = vec![0.0; rows * outputs];
    layer.forward(
        Cpu::serial(),
        &mut LinearScratch::default(),
        &x,
        &mut serial,
        Epilogue::Store,
    );
    for threads in [2, 3, 8] {
        let mut y = vec![0.0; rows * outputs];
        ThreadPool::new(threads).run(u64::MAX, |parallel| {
            layer.forward(
                Cpu { isa, parallel },
                &mut LinearScratch::default(),
                &x,
                &mut y,
                Epilogue::Store,
            );
        });
        assert_same_bits(&y, &serial);
    }
}

#[test]
fn tiers_with_fma_agree_bitwise() {
    let layer = packed(&noise(71 * 45, 16), 71, 45);
    let x = noise(7 * 71, 17);
    let results: Vec<Vec<f32>> = cpus()
        .into_iter()
        .filter(int8::fused)
        .map(|cpu| int8::forward(&layer, cpu, &x, 7))
        .collect();
    for pair in results.windows(2) {
        assert_same_bits(&pair[0], &pair[1]);
    }
}

#[test]
fn adds_to_the_residual() {
    for (cpu, format) in cpus()
        .into_iter()
        .flat_map(|cpu| FORMATS.map(|format| (cpu, format)))
    {
        for outputs in [5, 32, 40] {
            let layer = PackedLinear::from_rows(&noise(9 * outputs, 18), 9, outputs, format);
            let layer = layer.with_bias(&noise(outputs, 20));
            let x = noise(4 * 9, 19);
            let plain = int8::forward(&layer, cpu, &x, 4);
            let residual = noise(4 * outputs, 21);
            let mut y = residual.clone();
            layer.forward(
                cpu,
                &mut LinearScratch::default(),
                &x,
                &mut y,
                Epilogue::Add,
            );
            let want: Vec<f32> = residual.iter().zip(&plain).map(|(a, b)| a + b).collect();
            assert_same_bits(&y, &want);
        }
    }
}

#[test]
fn gives_its_weights_back() {
    for format in FORMATS {
        for (inputs, outputs) in [(1, 1), (7, 33), (1100, 1000)] {
            let weight = noise(inputs * outputs, 22);
            let layer = PackedLinear::from_rows(&weight, inputs, outputs, format);
            let weight = rounded(&weight, format);
            let mut row = vec![0.0; inputs];
            for n in 0..outputs {
                layer.weight_row(n, &mut row);
                assert_same_bits(&row, &weight[n * inputs..][..inputs]);
            }
        }
    }
}

#[test]
fn no_rows_and_no_outputs_are_fine() {
    let layer = packed(&[1.0, 2.0], 1, 2);
    layer.forward(
        Cpu::serial(),
        &mut LinearScratch::default(),
        &[],
        &mut [],
        Epilogue::Store,
    );
    let none = packed(&[], 3, 0);
    none.forward(
        Cpu::serial(),
        &mut LinearScratch::default(),
        &[1.0; 3],
        &mut [],
        Epilogue::Store,
    );
}

/// `weight` as a format holds it.
fn rounded(weight: &[f32], format: WeightFormat) -> Vec<f32> {
    let mut weight = weight.to_vec();
    format.round(&mut weight);
    weight
}

#[test]
fn narrow_weights_give_the_bits_of_the_same_values_in_float32() {
    for cpu in cpus() {
        for (inputs, outputs) in [(1, 1), (7, 33), (129, 64), (65, 300), (401, 40)] {
            for format in [WeightFormat::Bf16, WeightFormat::F16] {
                let weight = rounded(&noise(inputs * outputs, 9), format);
                let bias = noise(outputs, 10);
                let wide = packed(&weight, inputs, outputs).with_bias(&bias);
                let narrow =
                    PackedLinear::from_rows(&weight, inputs, outputs, format).with_bias(&bias);
                for rows in [1, 2, 3, 4, 5, 6, 7, 12, 13, 97] {
                    let x = noise(rows * inputs, 11);
                    let mut y = [vec![f32::NAN; rows * outputs], vec![0.5; rows * outputs]];
                    wide.forward(
                        cpu,
                        &mut LinearScratch::default(),
                        &x,
                        &mut y[0],
                        Epilogue::Store,
                    );
                    narrow.forward(
                        cpu,
                        &mut LinearScratch::default(),
                        &x,
                        &mut y[1],
                        Epilogue::Store,
                    );
                    assert_same_bits(&y[0], &y[1]);
                }
            }
        }
    }
}

#[test]
fn rounds_to_nearest_even() {
    fn bf16(x: f32) -> f32 {
        rounded(&[x], WeightFormat::Bf16)[0]
    }
    fn f16(x: f32) -> f32 {
        rounded(&[x], WeightFormat::F16)[0]
    }
    // Both numbers are halfway between two bfloat16. The even neighbour of 1 + 2^-8 is below, and
    // that of 1 + 3 * 2^-8 is above.
    assert_eq!(bf16(1.0 + 1.0 / 256.0), 1.0);
    assert_eq!(bf16(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
    assert_eq!(f16(1.0 + 1.0 / 2048.0), 1.0);
    assert_eq!(f16(1.0 + 3.0 / 2048.0), 1.0 + 4.0 / 2048.0);
    assert_eq!(f16(65_519.0), 65_504.0);
    assert_eq!(f16(65_520.0), f32::INFINITY);
    assert_eq!(bf16(f32::MAX), f32::INFINITY);
    assert_eq!(f16(3e-8), 2f32.powi(-24));
    let layer = PackedLinear::from_rows(&[0.1, -70.3], 2, 1, WeightFormat::F16);
    let mut row = [0.0; 2];
    layer.weight_row(0, &mut row);
    assert_eq!(row, [f16(0.1), f16(-70.3)]);
}

#[test]
fn bytes_are_known_before_packing() {
    for format in FORMATS {
        for (inputs, outputs) in [(1, 1), (7, 33), (20, 64), (3, 0)] {
            let weight = noise(inputs * outputs, 1);
            let layer = PackedLinear::from_rows(&weight, inputs, outputs, format);
            let [plain, biased] =
                [false, true].map(|bias| PackedLinear::bytes_for(inputs, outputs, format, bias));
            assert_eq!((layer.format(), layer.bytes()), (format, plain));
            let layer = layer.with_bias(&vec![0.0; outputs]);
            assert_eq!(layer.bytes(), biased);
        }
    }
}

mod blocks;
mod int8;
mod pairs;
