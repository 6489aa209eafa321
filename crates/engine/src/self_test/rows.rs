//! Tests the kernels that look up rows.

use beamgen_kernels::cuda::{self, Device, Gather, Number};

use super::values::{check, download, name, noise, rounded, upload, widened};
use crate::Error;

/// Tests tokens in a table of seven rows. A token outside the table must give zeros.
pub(super) fn embed(device: &Device, number: Number) -> Result<(), Error> {
    const WIDTH: usize = 301;
    let tokens = [6u32, 0, 7, 3];
    let table = rounded(number, noise(7 * WIDTH, 11));
    let rows = tokens.iter().flat_map(|token| {
        let found = table.chunks(WIDTH).nth(*token as usize);
        widened(found.unwrap_or(&[0.0; WIDTH]))
    });
    let expected: Vec<f64> = rows.collect();
    let source = upload(device, number, &table)?;
    let mut out = device.alloc(4 * expected.len())?;
    let places = device.upload(&tokens)?;
    cuda::embed(&mut out, number, &source, &places, tokens.len(), WIDTH)?;
    let got = download(&out, Number::F32, expected.len())?;
    let what = format!("embed in {}", name(number));
    check(what, WIDTH, &got, &expected, 0.0)
}

/// Tests copying the first columns of chosen rows. A row outside the matrix must give zeros.
pub(super) fn gather(device: &Device) -> Result<(), Error> {
    let (width, stride, room) = (301, 310, 305);
    let rows = [4u32, 0, 5, 2];
    let matrix = noise(5 * stride, 12);
    // The gaps between the rows of the output must keep their value, 0.5.
    let mut expected = vec![0.5; rows.len() * room];
    for (expected, row) in expected.chunks_mut(room).zip(rows) {
        let found = matrix.chunks(stride).nth(row as usize);
        let found = found.map_or(vec![0.0; width], |row| row[..width].to_vec());
        expected[..width].copy_from_slice(&found);
    }
    let x = upload(device, Number::F32, &matrix)?;
    let mut out = upload(device, Number::F32, &vec![0.5; expected.len()])?;
    let shape = Gather {
        width,
        x_stride: stride,
        out_stride: room,
    };
    cuda::gather_rows(&mut out, &x, &device.upload(&rows)?, rows.len(), shape)?;
    let got = download(&out, Number::F32, expected.len())?;
    check("gather_rows", room, &got, &widened(&expected), 0.0)
}
