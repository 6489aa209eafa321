//! Decodes the values of a checkpoint's tensors: plain numbers, and GGUF's quantised blocks.

mod blocks;

use std::fmt;

use beamgen_kernels::WeightFormat;

/// The layout of a tensor's values in its bytes (little endian): plain numbers, or GGUF's blocks of
/// quantised values that share their scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16: the upper 16 bits of an IEEE 754 single.
    Bf16,
    /// 32 values of 4 bits and a scale.
    Q4_0,
    /// 32 values of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 values of 5 bits and a scale.
    Q5_0,
    /// 32 values of 5 bits, a scale and a minimum.
    Q5_1,
    /// 32 values of 8 bits and a scale.
    Q8_0,
    /// 256 values of 2 bits; 16 scales and minima of 4 bits.
    Q2K,
    /// 256 values of 3 bits; 16 scales of 6 bits.
    Q3K,
    /// 256 values of 4 bits; 8 scales and minima of 6 bits.
    Q4K,
    /// 256 values of 5 bits; 8 scales and minima of 6 bits.
    Q5K,
    /// 256 values of 6 bits; 16 scales of 8 bits.
    Q6K,
}

/// An encoding, its name and number in GGUF files (`enum ggml_type`), the values and bytes of a
/// block, and the weight format that keeps its blocks unchanged.
type Row = (
    Encoding,
    &'static str,
    u32,
    (usize, usize),
    Option<WeightFormat>,
);

impl fmt::Display for Encoding {
    /// Writes the name that GGUF files use, in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, ..) = self.row();
        f.write_str(name)
    }
}

impl Encoding {
    const TABLE: [Row; 13] = [
        (Self::F32, "f32", 0, (1, 4), None),
        (Self::F16, "f16", 1, (1, 2), None),
        (Self::Bf16, "bf16", 30, (1, 2), None),
        (Self::Q4_0, "q4_0", 2, (32, 18), Some(WeightFormat::Q4_0)),
        (Self::Q4_1, "q4_1", 3, (32, 20), Some(WeightFormat::Q4_1)),
        (Self::Q5_0, "q5_0", 6, (32, 22), None),
        (Self::Q5_1, "q5_1", 7, (32, 24), None),
        (Self::Q8_0, "q8_0", 8, (32, 34), Some(WeightFormat::Int8)),
        (Self::Q2K, "q2_k", 10, (256, 84), None),
        (Self::Q3K, "q3_k", 11, (256, 110), None),
        (Self::Q4K, "q4_k", 12, (256, 144), Some(WeightFormat::Q4K)),
        (Self::Q5K, "q5_k", 13, (256, 176), None),
        (Self::Q6K, "q6_k", 14, (256, 210), Some(WeightFormat::Q6K)),
    ];

    /// Whether values are quantised in blocks that share their scales.
    #[must_use]
    pub fn is_block(self) -> bool {
        self.block().0 > 1
    }

    /// Whether the kernels multiply by this encoding's blocks directly. The weight type int8 then
    /// keeps the blocks unchanged.
    #[must_use]
    pub fn can_be_kept(self) -> bool {
        self.blocks_format().is_some()
    }

    fn row(self) -> &'static Row {
        let row = Self::TABLE.iter().find(|(encoding, ..)| *encoding == self);
        row.expect("each encoding has a row")
    }

    /// Returns the encoding with the number `number` of `enum ggml_type`; `None` if it is not
    /// supported.
    pub(crate) fn of_gguf(number: u32) -> Option<Self> {
        let row = Self::TABLE
            .iter()
            .find(|(_, _, ggml_type, ..)| *ggml_type == number);
        row.map(|(encoding, ..)| *encoding)
    }

    /// The number of values and the number of bytes in a block; a plain number is a block of one
    /// value.
    pub(crate) fn block(self) -> (usize, usize) {
        let (.., block, _) = *self.row();
        block
    }

    pub(crate) fn blocks_format(self) -> Option<WeightFormat> {
        let (.., format) = *self.row();
        format
    }

    /// The bytes of a tensor of `shape`. `None` if a row is not a whole number of blocks, or the
    /// size overflows.
    pub(crate) fn bytes(self, shape: &[usize]) -> Option<usize> {
        let (values, bytes) = self.block();
        let row = shape.last().copied().unwrap_or(1);
        // Shapes come from files, so the product may overflow.
        let all = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        row.is_multiple_of(values)
            .then(|| (all / values).checked_mul(bytes))?
    }

    /// Decodes `out.len()` values from value `start` on. Panics if `bytes` has fewer.
    pub(crate) fn widen(self, bytes: &[u8], start: usize, out: &mut [f32]) {
        match self {
            Self::F32 => widen(bytes, start, out, |b, [v]| *v = f32::from_le_bytes(*b)),
            Self::F16 => widen(bytes, start, out, |b, [v]| {
                *v = half::f16::from_le_bytes(*b).to_f32();
            }),
            Self::Bf16 => widen(bytes, start, out, |b, [v]| {
                *v = half::bf16::from_le_bytes(*b).to_f32();
            }),
            Self::Q4_0 => widen(bytes, start, out, blocks::q4_0),
            Self::Q4_1 => widen(bytes, start, out, blocks::q4_1),
            Self::Q5_0 => widen(bytes, start, out, blocks::q5_0),
            Self::Q5_1 => widen(bytes, start, out, blocks::q5_1),
            Self::Q8_0 => widen(bytes, start, out, blocks::q8_0),
            Self::Q2K => widen(bytes, start, out, blocks::q2_k),
            Self::Q3K => widen(bytes, start, out, blocks::q3_k),
            Self::Q4K => widen(bytes, start, out, blocks::q4_k),
            Self::Q5K => widen(bytes, start, out, blocks::q5_k),
            Self::Q6K => widen(bytes, start, out, blocks::q6_k),
        }
    }
}

/// Decodes the blocks of `BYTES` bytes and `VALUES` values that hold `start..start + out.len()`.
fn widen<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    start: usize,
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let mut blocks = bytes.as_chunks::<BYTES>().0[start / VALUES..].iter();
    let mut next = move || blocks.next().expect("the tensor has these values");
    let mut partly = |out: &mut [f32], skip: usize| {
        let mut values = [0.0; VALUES];
        decode(next(), &mut values);
        out.copy_from_slice(&values[skip..][..out.len()]);
    };
    // Only a caller that reads a piece of a row starts or ends within a block: rows are whole
    // blocks.
    let skip = start % VALUES;
    let head = if skip == 0 {
        0
    } else {
        out.len().min(VALUES - skip)
    };
    let (head, out) = out.split_at_mut(head);
    if !head.is_empty() {
        partly(head, skip);
    }
    let (whole, tail) = out.as_chunks_mut::<VALUES>();
    for values in whole {
        partly(values, 0);
    }
    if !tail.is_empty() {
        partly(tail, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use safetensors::SafeTensors;

    use super::*;

    /// The fixture has random blocks, with the values that Python's `gguf.quants` decodes from them
    /// (`tests/fixtures/make_format_fixtures.py`).
    #[test]
    fn blocks_are_widened_to_the_bits_of_gguf() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/formats");
        let file = std::fs::read(root.join("blocks.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&file).unwrap();
        for (encoding, name) in [
            (Encoding::Q4_0, "Q4_0"),
            (Encoding::Q4_1, "Q4_1"),
            (Encoding::Q5_0, "Q5_0"),
            (Encoding::Q5_1, "Q5_1"),
            (Encoding::Q8_0, "Q8_0"),
            (Encoding::Q2K, "Q2_K"),
            (Encoding::Q3K, "Q3_K"),
            (Encoding::Q4K, "Q4_K"),
            (Encoding::Q5K, "Q5_K"),
            (Encoding::Q6K, "Q6_K"),
        ] {
            let bytes = file.tensor(&format!("{name}.bytes")).unwrap();
            let values = file.tensor(&format!("{name}.values")).unwrap();
            let expected = values.data().as_chunks::<4>().0;
            let n = expected.len();
            assert_eq!(encoding.bytes(&[n]), Some(bytes.data().len()), "{name}");
            // The ranges are all values, whole blocks, and pieces of blocks.
            let block = encoding.block().0;
            for (start, end) in [(0, n), (block, n), (block, 2 * block), (7, n - 9), (3, 5)] {
                let mut out = vec![f32::NAN; end - start];
                encoding.widen(bytes.data(), start, &mut out);
                for (i, (got, want)) in out.iter().zip(&expected[start..end]).enumerate() {
                    assert_eq!(got.to_le_bytes(), *want, "{name}: value {}", start + i);
                }
            }
        }
    }

    #[test]
    fn rows_hold_whole_blocks() {
        assert_eq!(Encoding::Q4_0.bytes(&[3, 64]), Some(3 * 2 * 18));
        assert_eq!(Encoding::Q4_0.bytes(&[64, 3]), None);
        assert_eq!(Encoding::Q6K.bytes(&[2, 128]), None);
        assert_eq!(Encoding::F32.bytes(&[usize::MAX, 2]), None);
        assert_eq!(Encoding::F32.bytes(&[]), Some(4));
    }
}
