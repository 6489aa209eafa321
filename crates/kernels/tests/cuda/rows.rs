//! Embeddings and chosen rows.

use beamgen_kernels::cuda::{Gather, Number, embed, gather_rows};

use crate::helpers::{NUMBERS, SIZES, assert_same_bits, device, download, noise, rounded, upload};

#[test]
fn tokens_have_their_rows() {
    let Some(device) = device() else { return };
    let vocab = 11;
    let tokens = [10u32, 0, 3, 3, 11, u32::MAX];
    for number in NUMBERS {
        for hidden in SIZES {
            let table = noise(vocab * hidden, 1);
            let on_device = upload(device, number, &table);
            let mut out = device.alloc(tokens.len() * hidden * 4).expect("memory");
            let list = device.upload(&tokens).expect("memory");
            embed(&mut out, number, &on_device, &list, tokens.len(), hidden).expect("a launch");
            let (table, nothing) = (rounded(number, &table), vec![0.0; hidden]);
            let y = download(&out, Number::F32, tokens.len() * hidden);
            for (token, y) in tokens.iter().zip(y.chunks(hidden)) {
                let row = table.chunks(hidden).nth(*token as usize);
                assert_same_bits(y, row.unwrap_or(&nothing));
            }
        }
    }
}

#[test]
fn chosen_rows_are_copied() {
    let Some(device) = device() else { return };
    for (width, x_stride, out_stride) in [(1, 1, 1), (3, 5, 4), (700, 701, 1024)] {
        let x_rows = 9;
        let rows = [8u32, 2, 2, 0, 9];
        let x = noise((x_rows - 1) * x_stride + width, 2);
        let before = noise((rows.len() - 1) * out_stride + width, 3);
        let mut out = upload(device, Number::F32, &before);
        let (source, list) = (
            upload(device, Number::F32, &x),
            device.upload(&rows).expect("memory"),
        );
        let shape = Gather {
            width,
            x_stride,
            out_stride,
        };
        gather_rows(&mut out, &source, &list, rows.len(), shape).expect("a launch");
        let y = download(&out, Number::F32, before.len());
        for (i, row) in rows.iter().enumerate() {
            let start = *row as usize * x_stride;
            let want = x
                .get(start..start + width)
                .map_or(vec![0.0; width], <[f32]>::to_vec);
            assert_same_bits(&y[i * out_stride..][..width], &want);
            let between = i * out_stride + width..((i + 1) * out_stride).min(before.len());
            assert_same_bits(&y[between.clone()], &before[between]);
        }
    }
}
