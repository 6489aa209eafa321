use beamgen_kernels::cuda::{Number, silu_mul};
use beamgen_kernels::silu_mul_reference;

use crate::helpers::{NUMBERS, SIZES, assert_close, device, download, noise, rounding, upload};

#[test]
fn equals_the_reference() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for width in SIZES {
            let rows = 3;
            let gate_up: Vec<f32> = noise(rows * 2 * width, 1).iter().map(|x| 6.0 * x).collect();
            let source = upload(device, Number::F32, &gate_up);
            let mut out = device.alloc(rows * width * number.bytes()).expect("memory");
            silu_mul(&mut out, number, &source, rows, width).expect("a launch");
            let y = download(&out, number, rows * width);
            for (x, y) in gate_up.chunks(2 * width).zip(y.chunks(width)) {
                let (gate, up) = x.split_at(width);
                let want: Vec<f64> = gate
                    .iter()
                    .zip(up)
                    .map(|(g, u)| silu_mul_reference(*g, *u))
                    .collect();
                assert_close(y, &want, 1e-6 + rounding(number));
            }
        }
    }
}

#[test]
fn extreme_gates_stay_finite() {
    let Some(device) = device() else { return };
    let gate_up = upload(device, Number::F32, &[-1e4, 1e4, 1.0, 1.0]);
    let mut out = device.alloc(8).expect("memory");
    silu_mul(&mut out, Number::F32, &gate_up, 1, 2).expect("a launch");
    let y = download(&out, Number::F32, 2);
    assert!(y[0].abs() < 1e-30);
    assert_eq!(y[1], 1e4);
}

#[test]
fn products_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let infinite = f32::INFINITY;
    let gate_up = [
        300.0,
        300.0,
        300.0,
        300.0,
        1.0,
        300.0,
        -300.0,
        200.0,
        infinite,
        f32::NAN,
    ];
    let source = upload(device, Number::F32, &gate_up);
    let mut out = device.alloc(10).expect("memory");
    silu_mul(&mut out, Number::F16, &source, 1, 5).expect("a launch");
    let y = download(&out, Number::F16, 5);
    // Infinity and NaN must not be clamped, so that a broken computation shows.
    assert_eq!(y[..4], [65504.0, -65504.0, 60000.0, infinite]);
    assert!(y[4].is_nan());
}
