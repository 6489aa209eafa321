//! Memory, copies and launches.

use beamgen_kernels::cuda::{CudaError, Number, rmsnorm};

use crate::helpers::{assert_same_bits, device, download, noise, upload};

#[test]
fn what_is_written_is_read() {
    let Some(device) = device() else { return };
    let mut buffer = device.alloc(40).expect("memory");
    buffer
        .write(0, &[1.0f32, 2.0, 3.0, 4.0, 5.0])
        .expect("a copy");
    buffer.write(4, &[7u32]).expect("a copy");
    buffer.copy_within(4, 20, 12).expect("a copy");
    let mut values = [0u32; 3];
    buffer.read(20, &mut values).expect("a copy");
    assert_eq!(values, [7, 3.0f32.to_bits(), 4.0f32.to_bits()]);
    buffer.clear().expect("a fill");
    buffer.read(20, &mut values).expect("a copy");
    assert_eq!(values, [0; 3]);
}

#[test]
fn memory_ends() {
    let Some(device) = device() else { return };
    let needed = device.info().memory + 1;
    match device.alloc(needed) {
        Err(CudaError::OutOfMemory { needed: said, free }) => {
            assert_eq!(said, needed);
            assert!(free < needed);
        }
        other => panic!("{other:?}"),
    }
    assert!(device.alloc(0).is_ok());
}

#[test]
fn launches_of_no_rows_do_nothing() {
    let Some(device) = device() else { return };
    let x = noise(8, 1);
    let (source, mut out) = (
        upload(device, Number::F32, &x),
        upload(device, Number::F32, &x),
    );
    rmsnorm(&mut out, Number::F32, &source, &source, 0, 8, 1e-6).expect("a launch");
    assert_same_bits(&download(&out, Number::F32, 8), &x);
}

#[test]
#[should_panic(expected = "9 numbers of 4 bytes in a buffer of 32")]
fn short_buffers_are_refused() {
    let Some(device) = device() else {
        panic!("9 numbers of 4 bytes in a buffer of 32: no device");
    };
    let x = upload(device, Number::F32, &noise(8, 1));
    let mut out = device.alloc(64).expect("memory");
    let _ = rmsnorm(&mut out, Number::F32, &x, &x, 3, 3, 1e-6);
}
