use beamgen_kernels::cuda::{KvLayout, Number, QkvRows, rope_angles, rope_kv};
use beamgen_kernels::{Cpu, RopeTable, rope, rope_reference};

use crate::helpers::{
    NUMBERS, assert_close, assert_same_bits, device, download, noise, rounded, upload,
};

/// The frequencies of the original rotation of `dim` elements.
fn frequencies(dim: usize, theta: f64) -> Vec<f64> {
    (0..dim / 2)
        .map(|i| theta.powf(-((2 * i) as f64) / dim as f64))
        .collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|v| *v as f32).collect()
}

#[test]
fn angles_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    for (half, scale) in [(1, 1.0), (32, 1.0), (48, 1.3), (129, 0.9)] {
        let frequencies = frequencies(2 * half, 1e6);
        let positions = [0u32, 1, 2, 299, 4096, 31_000];
        let list = device.upload(&positions).expect("memory");
        let on_device = device.upload(&narrow(&frequencies)).expect("memory");
        let mut angles = device
            .alloc(positions.len() * 2 * half * 4)
            .expect("memory");
        rope_angles(
            &mut angles,
            &list,
            &on_device,
            scale as f32,
            positions.len(),
            half,
        )
        .expect("a launch");
        let angles = download(&angles, Number::F32, positions.len() * 2 * half);
        // Rotating a pair of ones gives cosine - sine and cosine + sine.
        let mut table = RopeTable::new(2 * half, &frequencies, scale);
        table.cover(31_001);
        let mut ones = vec![1.0; positions.len() * 2 * half];
        rope(Cpu::serial(), &table, &mut ones, 2 * half, 1, &positions);
        for (angles, ones) in angles.chunks(2 * half).zip(ones.chunks(2 * half)) {
            let (cosines, sines) = angles.split_at(half);
            for i in 0..half {
                let (c, s) = (f64::from(cosines[i]), f64::from(sines[i]));
                assert_close(&[ones[i], ones[half + i]], &[c - s, c + s], 2e-7);
            }
        }
    }
}

#[test]
fn turned_heads_and_values_go_to_their_pages() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for (heads, kv_heads, head_dim, turned) in [
            (1, 1, 2, 2),
            (6, 2, 30, 10),
            (4, 4, 64, 64),
            (5, 1, 128, 128),
            (3, 3, 96, 0),
        ] {
            let half = turned / 2;
            let frequencies = frequencies(turned, 10_000.0);
            let layout = KvLayout {
                number,
                page_size: 16,
                layers: 3,
                kv_heads,
                head_dim,
            };
            let (pages, layer, width) = (5, 1, (heads + 2 * kv_heads) * head_dim);
            let stride = width + 3;
            let positions = [0u32, 7, 299, 64, 18];
            let slots = [[4u32, 0], [0, 15], [2, 3], [2, 4], [5, 0]]; // there is no page 5
            let rows = positions.len();
            let x = noise(rows * stride, 6);

            let mut qkv = upload(device, Number::F32, &x);
            let mut kv = device.alloc(pages * layout.page_bytes()).expect("memory");
            kv.clear().expect("a fill");
            let mut angles = device.alloc(rows * 2 * half * 4).expect("memory");
            let list = device.upload(&positions).expect("memory");
            let narrowed = device.upload(&narrow(&frequencies)).expect("memory");
            rope_angles(&mut angles, &list, &narrowed, 1.0, rows, half).expect("a launch");
            let places = device.upload(slots.as_flattened()).expect("memory");
            let shape = QkvRows {
                rows,
                stride,
                heads,
            };
            rope_kv(
                &mut qkv, shape, &mut kv, &layout, layer, &angles, half, &places,
            )
            .expect("a launch");

            let y = download(&qkv, Number::F32, x.len());
            let mut want = vec![0.0f32; kv.bytes() / number.bytes()];
            for r in 0..rows {
                let (x, y) = (&x[r * stride..][..stride], &y[r * stride..][..stride]);
                assert_same_bits(
                    &x[(heads + kv_heads) * head_dim..],
                    &y[(heads + kv_heads) * head_dim..],
                );
                let turns = x
                    .chunks(head_dim)
                    .zip(y.chunks(head_dim))
                    .take(heads + kv_heads);
                for (x, y) in turns {
                    let turned = rope_reference(x, &frequencies, 1.0, positions[r] as usize);
                    assert_close(y, &turned, 2e-5);
                    assert_same_bits(&x[2 * half..], &y[2 * half..]);
                }
                let [page, offset] = slots[r].map(|n| n as usize);
                for h in 0..if page < pages { kv_heads } else { 0 } {
                    let block = 2 * layout.page_size * head_dim;
                    let block = &mut want
                        [((page * layout.layers + layer) * kv_heads + h) * block..][..block];
                    let (keys, values) = block.split_at_mut(layout.page_size * head_dim);
                    let [key, value] =
                        [heads + h, heads + kv_heads + h].map(|h| &y[h * head_dim..][..head_dim]);
                    keys[offset * head_dim..][..head_dim].copy_from_slice(key);
                    for (i, value) in value.iter().enumerate() {
                        values[i * layout.page_size + offset] = *value;
                    }
                }
            }
            assert_same_bits(&download(&kv, number, want.len()), &rounded(number, &want));
        }
    }
}

#[test]
fn keys_and_values_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let layout = KvLayout {
        number: Number::F16,
        page_size: 16,
        layers: 1,
        kv_heads: 1,
        head_dim: 4,
    };
    let mut qkv = upload(device, Number::F32, &[1e5f32; 12].map(|x| -x));
    let mut kv = device.alloc(layout.page_bytes()).expect("memory");
    kv.clear().expect("a fill");
    let angles = device.upload(&[1.0f32, 0.0]).expect("memory");
    let slots = device.upload(&[0u32, 0]).expect("memory");
    let shape = QkvRows {
        rows: 1,
        stride: 12,
        heads: 1,
    };
    rope_kv(&mut qkv, shape, &mut kv, &layout, 0, &angles, 1, &slots).expect("a launch");
    let stored = download(&kv, Number::F16, 2 * 4 * 16);
    assert_eq!(stored[..4], [-65504.0; 4]);
    for value in stored[4 * 16..].chunks(16) {
        assert_eq!(value[0], -65504.0);
    }
}
