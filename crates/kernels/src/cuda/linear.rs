use super::{Arg, Buffer, CudaError, Device, Launch, Number};
use crate::Epilogue;

/// A linear layer: `y = x Wᵀ + b` with row-major weights `[outputs, inputs]`.
///
/// Every output is a sum in an order that depends on these three alone: its bits are the same with
/// any other rows, and whatever kernel the number of rows asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearShape {
    /// Values of an input row.
    pub inputs: usize,
    /// Values of an output row.
    pub outputs: usize,
    /// What weights and input rows are in.
    pub number: Number,
}

/// The numbers of kernels/linear.cu.
const CHUNK: usize = 32;
const FEW_OUTPUTS: usize = 64;
const MANY_OUTPUTS: usize = 128;
const MANY_ROWS: usize = 64;
const ANY_OUTPUTS: usize = 8;
const ANY_ROWS: usize = 8;

/// Blocks that keep the memory of a large card busy: two for each of 132 multiprocessors. Not those of
/// the card at hand, on which bits must not depend.
const BLOCKS: usize = 264;
/// Least chunks of a group: two for each of its slices.
const LEAST: usize = 8;
const MOST_GROUPS: usize = 16;

impl LinearShape {
    /// Rows up to which the inputs may be cut among blocks, which needs [`LinearWorkspace`].
    const SPLIT_ROWS: usize = 256;

    /// The tensor cores' type, where they serve.
    fn tensor(&self) -> Option<usize> {
        let fits = self.inputs > 0 && self.inputs.is_multiple_of(CHUNK);
        match self.number {
            Number::F32 => None,
            Number::Bf16 => fits.then_some(0),
            Number::F16 => fits.then_some(1),
        }
    }

    /// Groups of inputs that are added up one after the other, by a block for each if rows are few.
    fn groups(&self) -> usize {
        let tiles = self.outputs.div_ceil(FEW_OUTPUTS).max(1);
        let most = (self.inputs / CHUNK / LEAST).clamp(1, MOST_GROUPS);
        BLOCKS.div_ceil(tiles).clamp(1, most)
    }

    /// Floats and counters of a workspace for calls of at most `rows` rows.
    fn workspace(&self, rows: usize) -> [usize; 2] {
        let rows = rows.min(Self::SPLIT_ROWS);
        if self.tensor().is_none() || self.groups() == 1 {
            return [0, 0];
        }
        let tiles = self.outputs.div_ceil(FEW_OUTPUTS);
        [self.groups() * rows * tiles * FEW_OUTPUTS, tiles * rows.div_ceil(MANY_ROWS)]
    }
}

/// Memory for sums that several blocks share. One is enough for all layers, which run one after the other.
#[derive(Debug)]
pub struct LinearWorkspace {
    partials: Buffer,
    /// Zero between calls.
    arrived: Buffer,
}

impl LinearWorkspace {
    /// Bytes that are needed for calls of these layers with at most `rows` rows.
    #[must_use]
    pub fn bytes(layers: &[LinearShape], rows: usize) -> usize {
        Self::elements(layers, rows).iter().map(|n| 4 * n).sum()
    }

    fn elements(layers: &[LinearShape], rows: usize) -> [usize; 2] {
        let sizes = layers.iter().map(|layer| layer.workspace(rows));
        sizes.fold([0, 0], |a, b| [a[0].max(b[0]), a[1].max(b[1])])
    }

    /// For calls of these layers with at most `rows` rows.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(device: &Device, layers: &[LinearShape], rows: usize) -> Result<Self, CudaError> {
        let [partials, arrived] = Self::elements(layers, rows);
        let partials = device.alloc(4 * partials)?;
        let mut arrived = device.alloc(4 * arrived)?;
        arrived.clear()?;
        Ok(Self { partials, arrived })
    }
}

/// `rows` rows of `x` through the layer to rows of `outputs` float32.
/// `bias` is float32.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small, the workspace included.
#[expect(clippy::too_many_arguments, reason = "five buffers, two shapes")]
pub fn linear(
    out: &mut Buffer,
    x: &Buffer,
    layer: &LinearShape,
    weight: &Buffer,
    bias: Option<&Buffer>,
    rows: usize,
    epilogue: Epilogue,
    workspace: &mut LinearWorkspace,
) -> Result<(), CudaError> {
    let LinearShape { inputs, outputs, number } = *layer;
    out.assert_holds(rows * outputs, 4);
    x.assert_holds(rows * inputs, number.bytes());
    weight.assert_holds(outputs * inputs, number.bytes());
    if let Some(bias) = bias {
        bias.assert_holds(outputs, 4);
    }
    let bias = bias.map_or(Arg::Null, Arg::At);
    let add = Arg::Int(usize::from(epilogue == Epilogue::Add));
    let [out, x, w] = [Arg::At(out), Arg::At(x), Arg::At(weight)];
    let sizes = [rows, inputs, outputs].map(Arg::Int);
    let device = weight.device();

    let Some(tensor) = layer.tensor() else {
        let grid = [rows.div_ceil(ANY_ROWS), outputs.div_ceil(ANY_OUTPUTS), 1];
        let launch = Launch { grid, block: 32 * ANY_OUTPUTS, shared: 0 };
        let kernel = number.pick(["linear_any_f32", "linear_any_bf16", "linear_any_f16"]);
        let args = [out, x, w, bias, sizes[0], sizes[1], sizes[2], add];
        // SAFETY: rows, weights and the bias are there, checked.
        return unsafe { device.launch(kernel, launch, &args) };
    };

    let groups = layer.groups();
    let many = [rows.div_ceil(MANY_ROWS), outputs.div_ceil(MANY_OUTPUTS), 1];
    let enough = many[0] * many[1] >= BLOCKS / 2;
    if rows > LinearShape::SPLIT_ROWS || (rows > MANY_ROWS && enough) {
        let launch = Launch { grid: many, block: 256, shared: 0 };
        let kernel = ["linear_many_bf16", "linear_many_f16"][tensor];
        let args = [out, x, w, bias, sizes[0], sizes[1], sizes[2], Arg::Int(groups), add];
        // SAFETY: as above; inputs are whole chunks.
        return unsafe { device.launch(kernel, launch, &args) };
    }
    let [partials, arrived] = layer.workspace(rows);
    workspace.partials.assert_holds(partials, 4);
    workspace.arrived.assert_holds(arrived, 4);
    let (tile, kernel) = match rows {
        0..=8 => (8, ["linear_8_bf16", "linear_8_f16"]),
        9..=16 => (16, ["linear_16_bf16", "linear_16_f16"]),
        17..=32 => (32, ["linear_32_bf16", "linear_32_f16"]),
        _ => (64, ["linear_64_bf16", "linear_64_f16"]),
    };
    let grid = [rows.div_ceil(tile), outputs.div_ceil(FEW_OUTPUTS), groups];
    let launch = Launch { grid, block: 128, shared: 0 };
    let [partials, arrived] = [Arg::At(&workspace.partials), Arg::At(&workspace.arrived)];
    let args = [out, partials, arrived, x, w, bias, sizes[0], sizes[1], sizes[2], add];
    // SAFETY: as above; the workspace holds a part for each group and a counter for each tile.
    unsafe { device.launch(kernel[tensor], launch, &args) }
}
