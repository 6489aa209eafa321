//! Compares the layers of a reward model's head with the same layers in float64.

use beamgen_kernels::cuda::{Buffer, Device, Number, PrmLayer, prm_head, prm_layer};

use crate::helpers::{device, noise, upload};

struct Layer {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, bias: bool, seed: u64) -> Self {
        let bias = bias.then(|| noise(outputs, seed + 1));
        Self {
            weight: noise(inputs * outputs, seed),
            bias,
            inputs,
            outputs,
        }
    }

    /// Returns each output with the sum of the magnitudes of its terms, by which the tolerance is
    /// scaled.
    fn forward(&self, x: &[f64]) -> Vec<(f64, f64)> {
        self.weight
            .chunks_exact(self.inputs)
            .enumerate()
            .map(|(o, row)| {
                let bias = self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[o]));
                let terms = row.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
                (
                    terms.clone().sum::<f64>() + bias,
                    terms.map(f64::abs).sum::<f64>() + bias.abs(),
                )
            })
            .collect()
    }

    /// Runs `launch` with the layer on the device; returns the outputs of `count` rows.
    fn on(
        &self,
        device: &Device,
        count: usize,
        launch: impl FnOnce(&mut Buffer, PrmLayer<'_>),
    ) -> Vec<f64> {
        let weight = upload(device, Number::F32, &self.weight);
        let bias = self
            .bias
            .as_ref()
            .map(|bias| upload(device, Number::F32, bias));
        let mut out = device.alloc(8 * count * self.outputs).expect("memory");
        let (inputs, outputs) = (self.inputs, self.outputs);
        launch(
            &mut out,
            PrmLayer {
                weight: &weight,
                bias: bias.as_ref(),
                inputs,
                outputs,
            },
        );
        let mut values = vec![0.0; count * outputs];
        out.read(0, &mut values).expect("a copy");
        values
    }
}

/// Sizes of layers; rows from 1 to more than two tiles.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (2, 3, 7),
    (31, 8, 8),
    (33, 9, 9),
    (896, 2, 17),
    (129, 40, 3),
];

#[test]
fn heads_equal_the_reference() {
    let Some(device) = device() else { return };
    for (inputs, outputs, count) in SHAPES {
        for bias in [false, true] {
            let layer = Layer::new(inputs, outputs, bias, 3);
            let hidden = noise(5 * inputs, 4);
            let rows: Vec<u32> = (0..count as u32).map(|i| i * 3 % 5).collect();
            let got = layer.on(device, count, |out, layer| {
                let list = device.upload(&rows).expect("memory");
                prm_head(
                    out,
                    &upload(device, Number::F32, &hidden),
                    &list,
                    layer,
                    count,
                )
                .expect("a launch");
            });
            for (row, got) in rows.iter().zip(got.chunks(outputs)) {
                let x = hidden.chunks(inputs).nth(*row as usize).expect("a row");
                let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                for ((want, size), got) in layer.forward(&x).into_iter().zip(got) {
                    assert!(
                        (got - want).abs() <= 1e-14 * size,
                        "{got} instead of {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn further_layers_take_what_is_above_zero() {
    let Some(device) = device() else { return };
    for (inputs, outputs, count) in SHAPES {
        let layer = Layer::new(inputs, outputs, true, 5);
        let mut x: Vec<f64> = noise(count * inputs, 6)
            .iter()
            .map(|x| f64::from(*x))
            .collect();
        // A NaN counts as 0, like in `f64::max` on the CPU.
        x[0] = f64::NAN;
        let got = layer.on(device, count, |out, layer| {
            prm_layer(out, &device.upload(&x).expect("memory"), layer, count).expect("a launch");
        });
        for (x, got) in x.chunks(inputs).zip(got.chunks(outputs)) {
            let x: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
            for ((want, size), got) in layer.forward(&x).into_iter().zip(got) {
                assert!(
                    (got - want).abs() <= 1e-14 * size,
                    "{got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn a_row_is_batch_invariant_and_a_missing_one_is_no_number() {
    let Some(device) = device() else { return };
    let layer = Layer::new(101, 11, true, 7);
    let hidden = upload(device, Number::F32, &noise(4 * 101, 8));
    let run = |rows: &[u32]| -> Vec<u64> {
        let values = layer.on(device, rows.len(), |out, layer| {
            let list = device.upload(rows).expect("memory");
            prm_head(out, &hidden, &list, layer, rows.len()).expect("a launch");
        });
        values.into_iter().map(f64::to_bits).collect()
    };
    let rows = [3, 0, 2, 2, 1, 0, 3, 1, 2, 0];
    let together = run(&rows);
    for (row, want) in rows.iter().zip(together.chunks(11)) {
        assert_eq!(run(&[*row]), want);
    }
    let missing = run(&[1, 4, u32::MAX]);
    assert_eq!(missing[..11], run(&[1]));
    assert!(
        missing[11..]
            .iter()
            .all(|bits| f64::from_bits(*bits).is_nan())
    );
}
