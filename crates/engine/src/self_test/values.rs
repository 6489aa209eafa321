//! Makes random values in every number type, and compares results.

use std::fmt::Display;

use beamgen_kernels::cuda::{Buffer, Device, Number};
use half::{bf16, f16};

use crate::Error;

pub(super) const NUMBERS: [Number; 3] = [Number::F32, Number::Bf16, Number::F16];

pub(super) fn name(number: Number) -> &'static str {
    match number {
        Number::F32 => "f32",
        Number::Bf16 => "bf16",
        Number::F16 => "f16",
    }
}

/// The largest allowed error, relative to the expected value or to 1, whichever is larger. It
/// allows float32 sums of a few hundred terms of about 1 in any order, and one rounding of the
/// factors or the result to `number`.
pub(super) fn tolerance(number: Number) -> f64 {
    match number {
        Number::F32 => 1e-4,
        Number::Bf16 => 2e-2,
        Number::F16 => 3e-3,
    }
}

/// Compares results of an operation, as rows of `width` values, with the expected values.
///
/// # Errors
/// [`Error::Device`], which names the operation and the first wrong result.
pub(super) fn check<T: Copy + Into<f64> + Display>(
    operation: impl Display,
    width: usize,
    got: &[T],
    expected: &[f64],
    tolerance: f64,
) -> Result<(), Error> {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = ((*got).into() - expected).abs();
        // The comparison is false for NaN, so a NaN is never near.
        let near = error <= tolerance * expected.abs().max(1.0);
        if !near {
            let place = format!("row {}, column {}", i / width, i % width);
            return Err(wrong(format!("{operation} at {place}"), got, expected));
        }
    }
    Ok(())
}

/// Compares the values of type `number` in a buffer with the expected values, like [`check`].
pub(super) fn compare(
    operation: impl Display,
    width: usize,
    got: &Buffer,
    number: Number,
    expected: &[f64],
) -> Result<(), Error> {
    let got = download(got, number, expected.len())?;
    check(operation, width, &got, expected, tolerance(number))
}

pub(super) fn wrong(operation: impl Display, got: impl Display, expected: impl Display) -> Error {
    Error::Device(format!(
        "wrong numbers: {operation} gives {got}, the CPU {expected}"
    ))
}

/// Returns pseudo-random numbers, uniform in -1..1. Equal seeds give equal numbers.
pub(super) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let numbers = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    });
    numbers.take(count).collect()
}

/// Rounds each value to the nearest one that `number` can represent.
pub(super) fn rounded(number: Number, mut values: Vec<f32>) -> Vec<f32> {
    for value in &mut values {
        *value = match number {
            Number::F32 => *value,
            Number::Bf16 => bf16::from_f32(*value).to_f32(),
            Number::F16 => f16::from_f32(*value).to_f32(),
        };
    }
    values
}

pub(super) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

pub(super) fn upload(device: &Device, number: Number, values: &[f32]) -> Result<Buffer, Error> {
    let values = values.iter().copied();
    Ok(match number {
        Number::F32 => device.upload(&values.collect::<Vec<_>>())?,
        Number::Bf16 => device.upload(&values.map(bf16::from_f32).collect::<Vec<_>>())?,
        Number::F16 => device.upload(&values.map(f16::from_f32).collect::<Vec<_>>())?,
    })
}

pub(super) fn download(buffer: &Buffer, number: Number, count: usize) -> Result<Vec<f32>, Error> {
    let mut values = vec![0.0; count];
    buffer.read_f32(0, number, &mut values)?;
    Ok(values)
}
