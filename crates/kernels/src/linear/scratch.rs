//! Working memory of layers that convert their inputs before they multiply.

use super::blocks::GROUP;
use super::int8::{InputBytes, InputScale};
use super::{PackedLinear, WeightFormat};

/// Working memory for the converted inputs of layers. It grows to the largest call.
#[derive(Debug, Default)]
pub struct LinearScratch {
    /// The quantised inputs of layers in blocks.
    pub(super) bytes: Vec<InputBytes>,
    pub(super) scales: Vec<InputScale>,
    /// The inputs of layers of pairs, rounded to bfloat16.
    pairs: Vec<u32>,
}

/// The most inputs among layers that convert their inputs, for each kind of conversion. The
/// working memory of all layers follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WidestInputs {
    blocks: usize,
    pairs: usize,
}

/// The number of groups beyond the last one that reading a whole tile of rows may reach.
const BEYOND: usize = 16;

impl WidestInputs {
    /// Returns the inputs of one layer.
    #[must_use]
    pub fn of(layer: &PackedLinear) -> Self {
        let mut widest = Self::default();
        widest.include(layer.format(), layer.inputs());
        widest
    }

    /// Takes a layer of this format and number of inputs into account.
    pub fn include(&mut self, format: WeightFormat, inputs: usize) {
        let widest = match format {
            WeightFormat::Bf16Pairs => &mut self.pairs,
            WeightFormat::F32 | WeightFormat::Bf16 | WeightFormat::F16 => return,
            _ => &mut self.blocks,
        };
        *widest = inputs.max(*widest);
    }
}

impl LinearScratch {
    /// Allocates enough memory for calls of up to `rows` rows of layers with these inputs.
    #[must_use]
    pub fn new(rows: usize, inputs: WidestInputs) -> Self {
        let mut scratch = Self::default();
        scratch.reserve_groups(rows, inputs.blocks);
        scratch.pairs(rows * inputs.pairs.div_ceil(2));
        scratch
    }

    /// Returns room for this number of pairs.
    pub(super) fn pairs(&mut self, count: usize) -> &mut [u32] {
        if self.pairs.len() < count {
            self.pairs.resize(count, 0);
        }
        &mut self.pairs[..count]
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
        let pairs = rows.saturating_mul(size_of::<u32>() * inputs.pairs.div_ceil(2));
        blocks.saturating_add(pairs)
    }

    /// The bytes of working memory that were allocated so far; it never shrinks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bytes[..]) + size_of_val(&self.scales[..]) + size_of_val(&self.pairs[..])
    }
}
