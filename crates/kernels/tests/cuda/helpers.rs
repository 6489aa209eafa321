//! Helpers of the CUDA tests: devices, buffers and rounding.

use std::sync::OnceLock;

use beamgen_kernels::cuda::{Buffer, Device, Number};
pub(crate) use beamgen_test_support::numbers::{assert_close, assert_same_bits, noise};
use half::{bf16, f16};

/// All number types that kernels have variants for.
pub(crate) const NUMBERS: [Number; 3] = [Number::F32, Number::Bf16, Number::F16];

/// Sizes around the widths of warps, loads and blocks.
pub(crate) const SIZES: [usize; 12] = [1, 2, 3, 7, 8, 31, 32, 33, 129, 255, 1027, 5000];

/// The device that all tests share; `None` if the calling test is skipped.
#[track_caller]
pub(crate) fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    beamgen_emulated_cuda::load().then(|| DEVICE.get_or_init(|| Device::open(0).expect("a device")))
}

/// Opens a device with its own stream, for tests that record a graph. On the shared stream, other
/// tests' calls would be refused during the recording.
pub(crate) fn own_device() -> Option<Device> {
    device().map(|_| Device::open(0).expect("a device"))
}

pub(crate) fn rounded(number: Number, values: &[f32]) -> Vec<f32> {
    values
        .iter()
        .map(|v| match number {
            Number::F32 => *v,
            Number::Bf16 => bf16::from_f32(*v).to_f32(),
            Number::F16 => f16::from_f32(*v).to_f32(),
        })
        .collect()
}

/// A buffer with the values in the type.
pub(crate) fn upload(device: &Device, number: Number, values: &[f32]) -> Buffer {
    match number {
        Number::F32 => device.upload(values),
        Number::Bf16 => device.upload(
            &values
                .iter()
                .map(|v| bf16::from_f32(*v))
                .collect::<Vec<_>>(),
        ),
        Number::F16 => device.upload(&values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>()),
    }
    .expect("memory")
}

/// The first `n` values of a buffer.
pub(crate) fn download(buffer: &Buffer, number: Number, n: usize) -> Vec<f32> {
    fn read<T: beamgen_kernels::cuda::Element>(buffer: &Buffer, mut values: Vec<T>) -> Vec<T> {
        buffer.read(0, &mut values).expect("a copy");
        values
    }
    match number {
        Number::F32 => read(buffer, vec![0.0; n]),
        Number::Bf16 => read(buffer, vec![bf16::ZERO; n])
            .iter()
            .map(|v| v.to_f32())
            .collect(),
        Number::F16 => read(buffer, vec![f16::ZERO; n])
            .iter()
            .map(|v| v.to_f32())
            .collect(),
    }
}

/// The largest relative error of rounding to the type.
pub(crate) fn rounding(number: Number) -> f64 {
    match number {
        Number::F32 => 0.0,
        Number::Bf16 => 1.0 / 256.0,
        Number::F16 => 1.0 / 2048.0,
    }
}
