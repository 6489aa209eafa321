//! Working memory of layers that convert their inputs before they multiply.

use super::blocks::GROUP;

/// The signed bytes, in -127..=127, of 32 neighbouring inputs of a row: four in each word.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct InputBytes(pub(super) [i32; GROUP / 4]);

/// The scale of a group of inputs, and the sums that the products of the group need.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct InputScale {
    pub(super) scale: f32,
    /// The scale times the sum of the bytes.
    pub(super) sum: f32,
    /// -128 times the sum of the bytes. VNNI reads weights as unsigned bytes, with an offset of
    /// 128.
    pub(super) offset: i32,
    /// -128 times the sum of the first 16 bytes, for formats with a scale per half group.
    pub(super) first_offset: i32,
}

/// Working memory for the converted inputs of layers. It grows to the largest call.
#[derive(Debug, Default)]
pub struct LinearScratch {
    /// The quantised inputs of layers in blocks.
    pub(super) bytes: Vec<InputBytes>,
    pub(super) scales: Vec<InputScale>,
    /// The inputs of layers of pairs, rounded to bfloat16. A tier that multiplies bfloat16 uses the
    /// first half.
    pairs: Vec<[f32; 2]>,
}

/// The widest inputs among layers that convert their inputs, for each kind of conversion. The
/// working memory of all layers follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WidestInputs {
    /// Inputs.
    pub(super) blocks: usize,
    /// Pairs of inputs.
    pub(super) pairs: usize,
}

/// The number of groups beyond the last one that reading a whole tile of rows may reach.
const BEYOND: usize = 16;

impl LinearScratch {
    /// Allocates enough memory for calls of up to `rows` rows of layers with these inputs.
    #[must_use]
    pub fn new(rows: usize, inputs: WidestInputs) -> Self {
        let mut scratch = Self::default();
        scratch.reserve_groups(rows, inputs.blocks);
        scratch.wide_pairs(rows * inputs.pairs);
        scratch
    }

    /// Returns room for this number of pairs as float32.
    pub(super) fn wide_pairs(&mut self, count: usize) -> &mut [[f32; 2]] {
        if self.pairs.len() < count {
            self.pairs.resize(count, [0.0; 2]);
        }
        &mut self.pairs[..count]
    }

    /// Returns room for this number of pairs as bfloat16.
    pub(super) fn pairs(&mut self, count: usize) -> &mut [u32] {
        let floats = self.wide_pairs(count).as_flattened_mut();
        // SAFETY: both are four bytes, and every bit pattern is an integer and a float.
        let (_, words, _) = unsafe { floats.align_to_mut::<u32>() };
        &mut words[..count]
    }

    /// Makes room for the quantised groups of `rows` rows.
    pub(super) fn reserve_groups(&mut self, rows: usize, inputs: usize) {
        let groups = Self::groups(rows, inputs);
        if self.bytes.len() < groups {
            self.bytes.resize(groups, InputBytes([0; GROUP / 4]));
            self.scales.resize(groups, InputScale::default());
        }
    }

    fn groups(rows: usize, inputs: usize) -> usize {
        match rows.saturating_mul(inputs.div_ceil(GROUP)) {
            0 => 0,
            groups => groups.saturating_add(BEYOND),
        }
    }

    /// The bytes of working memory for `rows` rows of layers with these inputs.
    #[must_use]
    pub fn bytes_for(rows: usize, inputs: WidestInputs) -> usize {
        let blocks = (size_of::<InputBytes>() + size_of::<InputScale>())
            .saturating_mul(Self::groups(rows, inputs.blocks));
        let pairs = rows.saturating_mul(size_of::<[f32; 2]>() * inputs.pairs);
        blocks.saturating_add(pairs)
    }

    /// The bytes of working memory that were allocated so far; it never shrinks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bytes[..]) + size_of_val(&self.scales[..]) + size_of_val(&self.pairs[..])
    }
}
