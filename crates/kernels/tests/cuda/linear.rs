use beamgen_kernels::cuda::{
    Buffer, Device, LinearShape, LinearWorkspace, Number, linear, linear_silu, silu_mul,
};
use beamgen_kernels::{Epilogue, linear_reference};

use crate::helpers::{
    NUMBERS, assert_close, assert_same_bits, device, download, noise, rounded, upload,
};

/// Shapes (inputs, outputs) that run on tensor cores with one or several groups of inputs, and
/// shapes that do not.
const SHAPES: [(usize, usize); 14] = [
    (32, 1),
    (32, 64),
    (64, 65),
    (96, 7),
    (256, 130),
    (544, 67),
    (1056, 70),
    (2080, 33),
    (1, 1),
    (7, 33),
    (33, 5),
    (130, 17),
    (300, 9),
    (48, 8),
];

/// Rows around the sizes of tiles.
const ROWS: [usize; 12] = [1, 2, 7, 8, 9, 16, 17, 33, 37, 64, 65, 130];

/// A layer on the device, with its values.
struct Layer {
    shape: LinearShape,
    values: Vec<f32>,
    weight: Buffer,
    bias: Vec<f32>,
    bias_buffer: Buffer,
    workspace: LinearWorkspace,
}

impl Layer {
    fn new(device: &Device, number: Number, inputs: usize, outputs: usize, rows: usize) -> Self {
        let shape = LinearShape {
            inputs,
            outputs,
            number,
        };
        let values = rounded(number, &noise(inputs * outputs, inputs as u64));
        let weight = upload(device, number, &values);
        let bias = noise(outputs, 2);
        let bias_buffer = upload(device, Number::F32, &bias);
        let workspace = LinearWorkspace::new(device, &[shape], rows).expect("memory");
        Self {
            shape,
            values,
            weight,
            bias,
            bias_buffer,
            workspace,
        }
    }

    fn run(&mut self, x: &[f32], bias: bool, before: Option<&[f32]>) -> Vec<f32> {
        let LinearShape {
            inputs,
            outputs,
            number,
        } = self.shape;
        let device = self.weight.device().clone();
        let rows = x.len() / inputs;
        let on_device = upload(&device, number, x);
        let mut out = match before {
            Some(before) => upload(&device, Number::F32, before),
            None => device.alloc(4 * rows * outputs).expect("memory"),
        };
        let epilogue = if before.is_some() {
            Epilogue::Add
        } else {
            Epilogue::Store
        };
        let bias = bias.then_some(&self.bias_buffer);
        linear(
            &mut out,
            &on_device,
            &self.shape,
            &self.weight,
            bias,
            rows,
            epilogue,
            &mut self.workspace,
        )
        .expect("a launch");
        download(&out, Number::F32, rows * outputs)
    }
}

#[test]
fn equals_the_reference() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for (inputs, outputs) in SHAPES {
            let mut layer = Layer::new(device, number, inputs, outputs, 130);
            for (i, rows) in ROWS.into_iter().enumerate() {
                if rows > 37 && inputs > 1056 {
                    continue;
                }
                let x = rounded(number, &noise(rows * inputs, 3));
                let before = noise(rows * outputs, 4);
                let (bias, add) = (i % 2 == 0, i % 3 == 0);
                let y = layer.run(&x, bias, add.then_some(&before));
                for (r, y) in y.chunks(outputs).enumerate() {
                    let bias = bias.then_some(&layer.bias[..]);
                    let mut want =
                        linear_reference(&x[r * inputs..][..inputs], &layer.values, bias);
                    if add {
                        for (want, before) in want.iter_mut().zip(&before[r * outputs..]) {
                            *want += f64::from(*before);
                        }
                    }
                    assert_close(y, &want, 1e-6 * (inputs as f64).sqrt());
                }
            }
        }
    }
}

#[test]
fn rows_are_batch_invariant() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for (inputs, outputs) in [(1056, 70), (96, 129), (33, 5), (32, 16_900)] {
            // So many rows need another kernel than the parts below.
            let rows = if outputs > 1000 { 70 } else { 270 };
            let mut layer = Layer::new(device, number, inputs, outputs, rows);
            let x = rounded(number, &noise(rows * inputs, 5));
            let before = noise(rows * outputs, 6);
            let together = layer.run(&x, true, Some(&before));
            let parts = [
                (0, 1),
                (17, 1),
                (69, 1),
                (269, 1),
                (3, 16),
                (5, 37),
                (10, 60),
                (100, 32),
                (200, 70),
            ];
            for (first, count) in parts
                .into_iter()
                .filter(|(first, count)| first + count <= rows)
            {
                let (x, before) = (
                    &x[first * inputs..][..count * inputs],
                    &before[first * outputs..][..count * outputs],
                );
                assert_same_bits(
                    &layer.run(x, true, Some(before)),
                    &together[first * outputs..][..count * outputs],
                );
            }
        }
    }
}

#[test]
fn the_gate_is_that_of_silu_mul() {
    let Some(device) = device() else { return };
    for number in [Number::Bf16, Number::F16] {
        for (inputs, width) in [(32, 1), (64, 33), (1056, 35), (96, 130)] {
            let mut layer = Layer::new(device, number, inputs, 2 * width, 270);
            for rows in [1, 8, 13, 32, 40, 70, 270] {
                let x = rounded(number, &noise(rows * inputs, 8));
                let gate_up = upload(device, Number::F32, &layer.run(&x, false, None));
                let on_device = upload(device, number, &x);
                let [mut want, mut out] =
                    [(); 2].map(|()| device.alloc(rows * width * number.bytes()).expect("memory"));
                silu_mul(&mut want, number, &gate_up, rows, width).expect("a launch");
                let Layer {
                    shape,
                    weight,
                    workspace,
                    ..
                } = &mut layer;
                linear_silu(&mut out, &on_device, shape, weight, rows, workspace)
                    .expect("a launch");
                let [want, out] = [want, out].map(|buffer| download(&buffer, number, rows * width));
                assert_same_bits(&out, &want);
            }
        }
    }
}

#[test]
fn what_is_not_there_is_not_multiplied() {
    let Some(device) = device() else { return };
    // A row of infinities must not change its neighbours.
    let (inputs, outputs, rows) = (64, 20, 9);
    let mut layer = Layer::new(device, Number::Bf16, inputs, outputs, rows);
    let mut x = rounded(Number::Bf16, &noise(rows * inputs, 7));
    let clean = layer.run(&x, false, None);
    x[8 * inputs..].fill(f32::INFINITY);
    assert_same_bits(
        &layer.run(&x, false, None)[..8 * outputs],
        &clean[..8 * outputs],
    );
}

#[test]
#[should_panic(expected = "numbers of 4 bytes in a buffer of 0")]
fn a_missing_workspace_is_refused() {
    let Some(device) = device() else {
        panic!("numbers of 4 bytes in a buffer of 0: no device");
    };
    let mut layer = Layer::new(device, Number::Bf16, 1056, 70, 1);
    layer.workspace = LinearWorkspace::new(device, &[], 1).expect("memory");
    layer.run(&[0.0; 1056], false, None);
}

#[test]
fn gated_products_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let (inputs, width) = (64, 9);
    for rows in [1, 70] {
        // All gates are 64 * 8, and they multiply 64 * 8 or -64 * 8.
        let mut layer = Layer::new(device, Number::F16, inputs, 2 * width, rows);
        let signs = (0..2 * width).map(|n| if n > width && n % 2 == 0 { -1.0 } else { 1.0 });
        let values: Vec<f32> = signs.flat_map(|sign| [sign * 2.0; 64]).collect();
        layer.weight = upload(device, Number::F16, &values);
        let x = upload(device, Number::F16, &vec![4.0; rows * inputs]);
        let mut out = device.alloc(rows * width * 2).expect("memory");
        let Layer {
            shape,
            weight,
            workspace,
            ..
        } = &mut layer;
        linear_silu(&mut out, &x, shape, weight, rows, workspace).expect("a launch");
        for (i, y) in download(&out, Number::F16, rows * width).iter().enumerate() {
            let up = width + i % width;
            let sign = if up > width && up % 2 == 0 { -1.0 } else { 1.0 };
            assert_eq!(*y, sign * 65504.0, "at {i} of {rows} rows");
        }
    }
}
