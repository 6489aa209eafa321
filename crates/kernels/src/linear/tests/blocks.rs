//! Tests formats that keep a GGUF file's blocks. The tests of `beamgen-engine`, which have
//! fixtures, compare the values with those of Python's `gguf`.

use super::int8::{all_cpus, forward, fused, quantized};
use super::*;

/// Each format with the values and bytes of a block, and the offsets of its float16 numbers.
const FORMATS: [(WeightFormat, usize, usize, &[usize]); 5] = [
    (WeightFormat::Int8, 32, 34, &[0]),
    (WeightFormat::Q4_0, 32, 18, &[0]),
    (WeightFormat::Q4_1, 32, 20, &[0, 2]),
    (WeightFormat::Q4K, 256, 144, &[0, 2]),
    (WeightFormat::Q6K, 256, 210, &[208]),
];

/// Random blocks with scales of a sensible size, and every extreme of the other bytes.
fn layer(format: usize, inputs: usize, outputs: usize) -> PackedLinear {
    let (format, values, bytes, halves) = FORMATS[format];
    PackedLinear::pack_blocks(Parallel::serial(), inputs, outputs, format, |n, row| {
        assert_eq!(row.len(), inputs / values * bytes);
        for (b, block) in row.chunks_mut(bytes).enumerate() {
            let seed = (n * 1000 + b) as u64;
            for (byte, x) in block.iter_mut().zip(noise(bytes, seed)) {
                *byte = match (seed % 5, x > 0.0) {
                    (0, true) => 0xff,
                    (0, false) => 0x80,
                    _ => (x * 1e6) as i32 as u8,
                };
            }
            for (at, x) in halves.iter().zip(noise(2, seed + 7)) {
                let half = half::f16::from_f32(x / 50.0);
                block[*at..][..2].copy_from_slice(&half.to_le_bytes());
            }
        }
    })
}

#[test]
fn equals_the_reference() {
    for (format, (_, values, ..)) in FORMATS.into_iter().enumerate() {
        for inputs in [values, 768] {
            for outputs in [1, 33, 70] {
                let bias = noise(outputs, 10);
                let layer = layer(format, inputs, outputs).with_bias(&bias);
                let mut weights = vec![0.0; inputs];
                for rows in [1, 3, 6, 7, 17, 37] {
                    let x = noise(rows * inputs, 11);
                    let want: Vec<f64> = (0..rows * outputs)
                        .map(|i| {
                            let (r, n) = (i / outputs, i % outputs);
                            layer.weight_row(n, &mut weights);
                            let groups = quantized(&x[r * inputs..][..inputs]);
                            let products = groups.iter().zip(weights.chunks(32));
                            let dots = products.map(|((scale, ints), weights)| {
                                let pairs = ints.iter().zip(weights);
                                let dot: f64 = pairs.map(|(x, w)| *x as f64 * f64::from(*w)).sum();
                                scale * dot
                            });
                            dots.sum::<f64>() + f64::from(bias[n])
                        })
                        .collect();
                    for cpu in all_cpus() {
                        // The tolerance is larger than without minima, because a scale and its
                        // minimum nearly cancel.
                        assert_close(&forward(&layer, cpu, &x, rows), &want, 2e-5);
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch_and_on_every_tier() {
    for format in 0..FORMATS.len() {
        let (inputs, outputs) = (1024, 70);
        let layer = layer(format, inputs, outputs);
        let x = noise(100 * inputs, 13);
        let mut first: Option<Vec<f32>> = None;
        for cpu in all_cpus() {
            let alone: Vec<f32> = x
                .chunks(inputs)
                .flat_map(|x| forward(&layer, cpu, x, 1))
                .collect();
            for rows in [2, 4, 5, 6, 8, 9, 12, 13, 16, 17, 37, 64, 97, 100] {
                let y = forward(&layer, cpu, &x[..rows * inputs], rows);
                assert_same_bits(&y, &alone[..rows * outputs]);
            }
            let isa = cpu.isa;
            let y = ThreadPool::new(2).run(u64::MAX, |parallel| {
                forward(&layer, Cpu { isa, parallel }, &x, 100)
            });
            assert_same_bits(&y, &alone);
            if fused(&cpu) {
                assert_same_bits(&alone, first.get_or_insert_with(|| alone.clone()));
            }
        }
    }
}

#[test]
fn bytes_are_known_before_packing() {
    for (i, (format, ..)) in FORMATS.into_iter().enumerate() {
        let layer = layer(i, 512, 33);
        assert_eq!(layer.format(), format);
        assert_eq!(
            layer.bytes(),
            PackedLinear::bytes_for(512, 33, format, false)
        );
    }
    // Bits for each weight.
    for (format, bits) in [
        (WeightFormat::Q4_0, 4.5),
        (WeightFormat::Q4_1, 5.0),
        (WeightFormat::Q4K, 4.625),
        (WeightFormat::Q6K, 6.5625),
    ] {
        let bytes = PackedLinear::bytes_for(1024, 64, format, false);
        assert_eq!(8.0 * bytes as f64 / (1024.0 * 64.0), bits);
    }
}
