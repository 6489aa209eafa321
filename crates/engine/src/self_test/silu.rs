//! Tests the kernel `silu_mul`, which computes `silu(gate) * up` in a `SwiGLU` block.

use beamgen_kernels::cuda::{self, Device, Number};
use beamgen_kernels::silu_mul_reference;

use super::values::{compare, name, noise, upload};
use crate::Error;

/// Tests two rows of 70 gates, written as `number`.
pub(super) fn run(device: &Device, number: Number) -> Result<(), Error> {
    const WIDTH: usize = 70;
    let gate_up: Vec<f32> = noise(4 * WIDTH, 3).iter().map(|x| 4.0 * x).collect();
    let expected: Vec<f64> = gate_up
        .chunks(2 * WIDTH)
        .flat_map(|row| {
            let (gate, up) = row.split_at(WIDTH);
            gate.iter()
                .zip(up)
                .map(|(gate, up)| silu_mul_reference(*gate, *up))
        })
        .collect();
    let source = upload(device, Number::F32, &gate_up)?;
    let mut out = device.alloc(number.bytes() * expected.len())?;
    cuda::silu_mul(&mut out, number, &source, 2, WIDTH)?;
    let what = format!("silu_mul to {}", name(number));
    compare(what, WIDTH, &out, number, &expected)
}
