use std::path::Path;

use ::safetensors::SafeTensors;
use beamgen_kernels::{PackedLinear, Parallel};

use super::*;

/// Checks that rows read from each kept kind of blocks have the bits of Python's `gguf`.
#[test]
fn kept_blocks_are_the_values_of_gguf() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/formats");
    let file = std::fs::read(root.join("blocks.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    for (encoding, name) in [
        (Encoding::Q4_0, "Q4_0"),
        (Encoding::Q4_1, "Q4_1"),
        (Encoding::Q8_0, "Q8_0"),
        (Encoding::Q4K, "Q4_K"),
        (Encoding::Q6K, "Q6_K"),
    ] {
        let bytes = file.tensor(&format!("{name}.bytes")).unwrap();
        let values = file.tensor(&format!("{name}.values")).unwrap();
        let expected = values.data().as_chunks::<4>().0;
        let width = encoding.block().0.max(64);
        let rows = expected.len() / width;
        let view = View {
            shape: &[rows, width],
            bytes: bytes.data(),
            encoding,
            interleaved: None,
            delta: None,
        };
        let format = encoding.blocks_format().unwrap();
        let layer =
            PackedLinear::pack_blocks(Parallel::serial(), width, rows, format, |row, blocks| {
                assert!(view.blocks(row, format, blocks));
            });
        let mut weights = vec![0.0; width];
        for (row, expected) in expected.chunks_exact(width).enumerate() {
            layer.weight_row(row, &mut weights);
            for (got, want) in weights.iter().zip(expected) {
                assert_eq!(got.to_le_bytes(), *want, "{name}, row {row}");
            }
        }
    }
}
