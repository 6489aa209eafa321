//! Tests root-mean-square norms of rows and of heads.

use beamgen_kernels::cuda::{self, Device, HeadColumns, Number};
use beamgen_kernels::rmsnorm_reference;

use super::values::{compare, name, noise, upload, widened};
use crate::Error;

const EPS: f32 = 1e-5;

/// Tests three rows of 301 values, which is not a multiple of any vector width.
pub(super) fn rows(device: &Device, number: Number) -> Result<(), Error> {
    const WIDTH: usize = 301;
    let (x, weight) = (noise(3 * WIDTH, 1), noise(WIDTH, 2));
    let rows = x.chunks(WIDTH);
    let expected: Vec<f64> = rows
        .flat_map(|x| rmsnorm_reference(x, &weight, EPS))
        .collect();
    let source = upload(device, Number::F32, &x)?;
    let weight = upload(device, Number::F32, &weight)?;
    let mut out = device.alloc(number.bytes() * x.len())?;
    cuda::rmsnorm(&mut out, number, &source, &weight, 3, WIDTH, EPS)?;
    let what = format!("rmsnorm to {}", name(number));
    compare(what, WIDTH, &out, number, &expected)
}

/// Tests three heads of 40 values in the middle of two rows. All other columns must stay unchanged.
pub(super) fn heads(device: &Device) -> Result<(), Error> {
    let columns = HeadColumns {
        stride: 210,
        offset: 50,
        heads: 3,
        head_dim: 40,
    };
    let (x, weight) = (noise(2 * columns.stride, 13), noise(columns.head_dim, 14));
    let mut expected = widened(&x);
    for (row, x) in expected
        .chunks_mut(columns.stride)
        .zip(x.chunks(columns.stride))
    {
        for head in 0..columns.heads {
            let first = columns.offset + head * columns.head_dim;
            let head = first..first + columns.head_dim;
            row[head.clone()].copy_from_slice(&rmsnorm_reference(&x[head], &weight, EPS));
        }
    }
    let mut out = upload(device, Number::F32, &x)?;
    let weight = upload(device, Number::F32, &weight)?;
    cuda::rmsnorm_heads(&mut out, 2, columns, &weight, EPS)?;
    let stride = columns.stride;
    compare("rmsnorm_heads", stride, &out, Number::F32, &expected)
}
