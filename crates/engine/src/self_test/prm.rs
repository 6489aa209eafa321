//! Tests the layers of a reward model's head.

use beamgen_kernels::cuda::{self, Device, Number, PrmLayer};
use beamgen_kernels::linear_reference;

use super::values::{check, noise, upload};
use crate::Error;

/// The tolerance for a float64 sum of a hundred terms, which may be added in any order.
const TOLERANCE: f64 = 1e-9;
/// The rows that the first layer reads, more than one block of threads handles.
const CHOSEN: [u32; 11] = [11, 0, 5, 1, 10, 2, 9, 3, 8, 4, 7];

/// Tests a first layer with a bias on the chosen rows, and a second layer without a bias on the
/// first layer's outputs.
pub(super) fn run(device: &Device) -> Result<(), Error> {
    let (inputs, between, outputs) = (101, 9, 3);
    let (hidden, weight) = (noise(12 * inputs, 8), noise(inputs * between, 9));
    let (bias, second) = (noise(between, 15), noise(between * outputs, 16));
    let first = CHOSEN.iter().flat_map(|row| {
        let hidden = &hidden[*row as usize * inputs..][..inputs];
        linear_reference(hidden, &weight, Some(&bias))
    });
    let first: Vec<f64> = first.collect();

    let count = CHOSEN.len();
    let mut middle = device.alloc(8 * first.len())?;
    let layer = PrmLayer {
        weight: &upload(device, Number::F32, &weight)?,
        bias: Some(&upload(device, Number::F32, &bias)?),
        inputs,
        outputs: between,
    };
    let hidden = upload(device, Number::F32, &hidden)?;
    cuda::prm_head(&mut middle, &hidden, &device.upload(&CHOSEN)?, layer, count)?;
    let mut got = vec![0.0f64; first.len()];
    middle.read(0, &mut got)?;
    check("prm_head", between, &got, &first, TOLERANCE)?;

    // The expected values come from the device's own first layer, so that errors do not add up.
    let last = got.chunks(between).flat_map(|x| {
        second.chunks(between).map(move |weight| {
            let terms = x.iter().zip(weight);
            terms.map(|(x, w)| f64::max(*x, 0.0) * f64::from(*w)).sum()
        })
    });
    let last: Vec<f64> = last.collect();
    let mut out = device.alloc(8 * last.len())?;
    let layer = PrmLayer {
        weight: &upload(device, Number::F32, &second)?,
        bias: None,
        inputs: between,
        outputs,
    };
    cuda::prm_layer(&mut out, &middle, layer, count)?;
    let mut got = vec![0.0f64; last.len()];
    out.read(0, &mut got)?;
    check("prm_layer", outputs, &got, &last, TOLERANCE)
}
