use beamgen_kernels::cuda::{HeadColumns, Number, rmsnorm, rmsnorm_heads};
use beamgen_kernels::rmsnorm_reference;

use crate::helpers::{
    NUMBERS, SIZES, assert_close, assert_same_bits, device, download, noise, rounding, upload,
};

#[test]
fn equals_the_reference() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for n in SIZES {
            let rows = 3;
            let (x, weight) = (noise(rows * n, 1), noise(n, 2));
            let (on_device, weights) = (
                upload(device, Number::F32, &x),
                upload(device, Number::F32, &weight),
            );
            let mut out = device.alloc(rows * n * number.bytes()).expect("memory");
            rmsnorm(&mut out, number, &on_device, &weights, rows, n, 1e-5).expect("a launch");
            let y = download(&out, number, rows * n);
            for (x, y) in x.chunks(n).zip(y.chunks(n)) {
                assert_close(
                    y,
                    &rmsnorm_reference(x, &weight, 1e-5),
                    1e-6 + rounding(number),
                );
            }
        }
    }
}

#[test]
fn rows_are_batch_invariant() {
    let Some(device) = device() else { return };
    let (n, rows) = (901, 37);
    let (x, weight) = (
        noise(rows * n, 3),
        upload(device, Number::F32, &noise(n, 4)),
    );
    let run = |x: &[f32]| {
        let source = upload(device, Number::F32, x);
        let mut out = device.alloc(x.len() * 4).expect("memory");
        rmsnorm(
            &mut out,
            Number::F32,
            &source,
            &weight,
            x.len() / n,
            n,
            1e-6,
        )
        .expect("a launch");
        download(&out, Number::F32, x.len())
    };
    let together = run(&x);
    for row in [0, 17, 36] {
        assert_same_bits(&run(&x[row * n..][..n]), &together[row * n..][..n]);
    }
}

#[test]
fn heads_touch_only_their_columns() {
    let Some(device) = device() else { return };
    for (stride, offset, heads, head_dim) in [(37, 3, 3, 9), (4096, 128, 20, 128), (64, 0, 1, 64)] {
        let rows = 3;
        let (x, weight) = (noise(rows * stride, 5), noise(head_dim, 6));
        let mut on_device = upload(device, Number::F32, &x);
        let weights = upload(device, Number::F32, &weight);
        let columns = HeadColumns {
            stride,
            offset,
            heads,
            head_dim,
        };
        rmsnorm_heads(&mut on_device, rows, columns, &weights, 1e-6).expect("a launch");
        let y = download(&on_device, Number::F32, x.len());
        for (x, y) in x.chunks(stride).zip(y.chunks(stride)) {
            let end = offset + heads * head_dim;
            assert_same_bits(&x[..offset], &y[..offset]);
            assert_same_bits(&x[end..], &y[end..]);
            for (x, y) in x[offset..end]
                .chunks(head_dim)
                .zip(y[offset..end].chunks(head_dim))
            {
                assert_close(y, &rmsnorm_reference(x, &weight, 1e-6), 1e-6);
            }
        }
    }
}

#[test]
fn rows_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let (x, weight) = ([1.0f32, -1.0, 1.0, 1.0], [1e5f32, 1e6, 6e4, -7e4]);
    let [x, weight] = [x, weight].map(|values| upload(device, Number::F32, &values));
    let mut out = device.alloc(8).expect("memory");
    rmsnorm(&mut out, Number::F16, &x, &weight, 1, 4, 0.0).expect("a launch");
    let y = download(&out, Number::F16, 4);
    assert_eq!(y, [65504.0, -65504.0, 60000.0, -65504.0]);
}
