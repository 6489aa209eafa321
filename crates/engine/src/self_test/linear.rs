//! Tests linear layers, on tensor cores and without.

use beamgen_kernels::cuda::{self, Buffer, Device, LinearShape, LinearWorkspace, Number};
use beamgen_kernels::{Epilogue, linear_reference, silu_mul_reference};

use super::values::{compare, name, noise, rounded, upload};
use crate::Error;

/// Numbers of inputs, and numbers of rows. The row counts select the kernels on tensor cores for up
/// to 8, 16, 32, 64 and more rows. 544 inputs are split between blocks; 77 inputs cannot run on
/// tensor cores. No number of rows fills a tile.
const LAYERS: [(usize, &[usize]); 3] = [(544, &[5, 12, 29, 61]), (64, &[260]), (77, &[5, 12])];
/// The number of outputs. It fills no tile, and it is even, as the kernels require.
const OUTPUTS: usize = 70;

/// Tests all kernels for weights of the type `number`.
pub(super) fn run(device: &Device, number: Number) -> Result<(), Error> {
    for (inputs, rows) in LAYERS {
        let shape = LinearShape {
            inputs,
            outputs: OUTPUTS,
            number,
        };
        // The kernel without tensor cores is the same for all inputs.
        if !shape.on_tensor_cores() && inputs != 77 {
            continue;
        }
        let layer = Layer::new(device, shape, rows[rows.len() - 1])?;
        for rows in rows {
            layer.check(device, *rows)?;
        }
    }
    Ok(())
}

struct Layer {
    shape: LinearShape,
    workspace: LinearWorkspace,
    weight: Buffer,
    /// The inputs of all rows, one row after the other.
    x: Buffer,
    bias: Vec<f32>,
    bias_there: Buffer,
    /// The expected results without the bias, in float64.
    expected: Vec<f64>,
}

impl Layer {
    fn new(device: &Device, shape: LinearShape, rows: usize) -> Result<Self, Error> {
        let LinearShape { inputs, number, .. } = shape;
        // A mean other than 0 keeps most sums and gated values so large that the tolerance cannot
        // hide an error.
        let around = |values: Vec<f32>, by: f32, mean: f32| {
            let values = values.iter().map(|x| by * x + mean);
            rounded(number, values.collect())
        };
        let weight = around(noise(inputs * OUTPUTS, 4), 0.15, 0.01);
        let x = around(noise(inputs * rows, 5), 1.0, 0.5);
        let bias = noise(OUTPUTS, 6);
        let each = x.chunks(inputs);
        Ok(Self {
            shape,
            workspace: LinearWorkspace::new(device, &[shape], rows)?,
            weight: upload(device, number, &weight)?,
            x: upload(device, number, &x)?,
            bias_there: upload(device, Number::F32, &bias)?,
            bias,
            expected: each
                .flat_map(|x| linear_reference(x, &weight, None))
                .collect(),
        })
    }

    /// Tests the first `rows` rows in three ways: added to other values with a bias, stored without
    /// a bias and, on tensor cores, gated.
    fn check(&self, device: &Device, rows: usize) -> Result<(), Error> {
        let Self { shape, x, .. } = self;
        let number = shape.number;
        let expected = &self.expected[..rows * OUTPUTS];
        let what = |operation: &str| {
            let (inputs, number) = (shape.inputs, name(number));
            format!("{operation} of {rows} rows with {inputs} inputs in {number}")
        };
        let added_to = noise(expected.len(), 7);
        let mut out = upload(device, Number::F32, &added_to)?;
        let (weight, workspace) = (&self.weight, &mut self.workspace.share());
        for epilogue in [Epilogue::Add, Epilogue::Store] {
            let adds = epilogue == Epilogue::Add;
            let bias = adds.then_some(&self.bias_there);
            cuda::linear(&mut out, x, shape, weight, bias, rows, epilogue, workspace)?;
            let mut expected = expected.to_vec();
            if adds {
                for (i, sum) in expected.iter_mut().enumerate() {
                    *sum += f64::from(self.bias[i % OUTPUTS]) + f64::from(added_to[i]);
                }
            }
            compare(what("linear"), OUTPUTS, &out, Number::F32, &expected)?;
        }
        if !shape.on_tensor_cores() {
            return Ok(());
        }
        let gated = expected.chunks(OUTPUTS).flat_map(|row| {
            let (gate, up) = row.split_at(OUTPUTS / 2);
            let pairs = gate.iter().zip(up);
            pairs.map(|(gate, up)| silu_mul_reference(*gate as f32, *up as f32))
        });
        let expected: Vec<f64> = gated.collect();
        cuda::linear_silu(&mut out, x, shape, weight, rows, workspace)?;
        compare(what("linear_silu"), OUTPUTS / 2, &out, number, &expected)
    }
}
