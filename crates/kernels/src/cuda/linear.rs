use super::Arg::{Absent, At, Int, Null};
use super::{Arg, Buffer, CudaError, Device, Launch, Number};
use crate::Epilogue;

/// A linear layer: `y = x Wᵀ + b` with row-major weights `[outputs, inputs]`.
///
/// Batch-invariant: the order of an output's sum depends only on this shape. The bits of an output
/// therefore depend neither on other rows nor on the kernel that the number of rows selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearShape {
    /// Values of an input row.
    pub inputs: usize,
    /// Values of an output row.
    pub outputs: usize,
    /// The type of the weights and of the input rows. Outputs are float32.
    pub number: Number,
}

/// The inputs of a chunk. This size and the next ones must equal those in `kernels/linear.cu`.
const CHUNK: usize = 32;
const FEW_OUTPUTS: usize = 64;
const MANY_OUTPUTS: usize = 128;
const MANY_ROWS: usize = 64;
const ANY_OUTPUTS: usize = 8;
const ANY_ROWS: usize = 8;

/// Blocks that keep the memory of a large card busy: two for each of 132 multiprocessors. A
/// constant, because the bits of a result must not depend on the card.
const BLOCKS: usize = 264;
/// The fewest chunks of a group: two for each slice of the group.
const LEAST: usize = 8;
const MOST_GROUPS: usize = 16;

impl LinearShape {
    /// The most rows for which the inputs may be split between blocks, which needs a
    /// [`LinearWorkspace`].
    const SPLIT_ROWS: usize = 256;

    /// Whether the layer runs on tensor cores. It does with 16-bit numbers and whole chunks of
    /// inputs.
    #[must_use]
    pub fn on_tensor_cores(&self) -> bool {
        self.tensor().is_some()
    }

    /// The layer's column in the tables [`PLAIN`] and [`SILU`]; `None` without tensor cores.
    fn tensor(&self) -> Option<usize> {
        let fits = self.inputs > 0 && self.inputs.is_multiple_of(CHUNK);
        match self.number {
            Number::F32 => None,
            Number::Bf16 => fits.then_some(0),
            Number::F16 => fits.then_some(1),
        }
    }

    /// The number of groups of inputs. It decides the order of sums, so it does not depend on the
    /// number of rows. With few rows, each group is computed by a block of its own.
    fn groups(&self) -> usize {
        let tiles = self.outputs.div_ceil(FEW_OUTPUTS).max(1);
        let most = (self.inputs / CHUNK / LEAST).clamp(1, MOST_GROUPS);
        BLOCKS.div_ceil(tiles).clamp(1, most)
    }

    /// Floats and counters of the workspace for calls of at most `rows` rows.
    fn workspace(&self, rows: usize) -> [usize; 2] {
        let rows = rows.min(Self::SPLIT_ROWS);
        if self.tensor().is_none() || self.groups() == 1 {
            return [0, 0];
        }
        let tiles = self.outputs.div_ceil(FEW_OUTPUTS);
        [
            self.groups() * rows * tiles * FEW_OUTPUTS,
            tiles * rows.div_ceil(MANY_ROWS),
        ]
    }
}

/// Memory for the partial sums of several blocks. One workspace is enough for all layers, because
/// they run one after the other.
#[derive(Debug)]
pub struct LinearWorkspace {
    partials: Buffer,
    /// The number of blocks per tile that have finished. All are zero between calls.
    arrived: Buffer,
}

impl LinearWorkspace {
    /// The bytes of a workspace for calls of any of `layers` with at most `rows` rows.
    #[must_use]
    pub fn bytes(layers: &[LinearShape], rows: usize) -> usize {
        Self::elements(layers, rows).iter().map(|n| 4 * n).sum()
    }

    fn elements(layers: &[LinearShape], rows: usize) -> [usize; 2] {
        let sizes = layers.iter().map(|layer| layer.workspace(rows));
        sizes.fold([0, 0], |a, b| [a[0].max(b[0]), a[1].max(b[1])])
    }

    /// Allocates a workspace for calls of any of `layers` with at most `rows` rows.
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

    /// Returns another handle to the same memory. Layers run one after the other, so they may share
    /// it.
    #[must_use]
    pub fn share(&self) -> Self {
        let [partials, arrived] = [&self.partials, &self.arrived].map(|buffer| buffer.from(0));
        Self { partials, arrived }
    }
}

/// The kernels for at most 8, 16, 32 and 64 rows, and for more; each for bfloat16 and float16.
type Kernels = [[&'static str; 2]; 5];

const PLAIN: Kernels = [
    ["linear_8_bf16", "linear_8_f16"],
    ["linear_16_bf16", "linear_16_f16"],
    ["linear_32_bf16", "linear_32_f16"],
    ["linear_64_bf16", "linear_64_f16"],
    ["linear_many_bf16", "linear_many_f16"],
];
const SILU: Kernels = [
    ["linear_silu_8_bf16", "linear_silu_8_f16"],
    ["linear_silu_16_bf16", "linear_silu_16_f16"],
    ["linear_silu_32_bf16", "linear_silu_32_f16"],
    ["linear_silu_64_bf16", "linear_silu_64_f16"],
    ["linear_silu_many_bf16", "linear_silu_many_f16"],
];

/// Multiplies `rows` rows of `x` by the layer. The results, `[rows, outputs]` float32, replace what
/// is in `out` or are added to it. `bias` is float32.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
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
    let (inputs, outputs, number) = (layer.inputs, layer.outputs, layer.number);
    out.assert_holds(rows * outputs, 4);
    if let Some(bias) = bias {
        bias.assert_holds(outputs, 4);
    }
    let bias = bias.map_or(Null, At);
    let add = Int(usize::from(epilogue == Epilogue::Add));
    if let Some(tensor) = layer.tensor() {
        let kernels = PLAIN.map(|kernels| kernels[tensor]);
        // SAFETY: the buffers hold the outputs and the bias, checked.
        return unsafe {
            on_tensor_cores(
                kernels,
                layer,
                out,
                x,
                weight,
                Some([bias, add]),
                rows,
                workspace,
            )
        };
    }
    x.assert_holds(rows * inputs, number.bytes());
    weight.assert_holds(outputs * inputs, number.bytes());
    let grid = [rows.div_ceil(ANY_ROWS), outputs.div_ceil(ANY_OUTPUTS), 1];
    let launch = Launch::new(grid, 32 * ANY_OUTPUTS);
    let kernel = number.pick(["linear_any_f32", "linear_any_bf16", "linear_any_f16"]);
    let [rows, inputs, outputs] = [rows, inputs, outputs].map(Int);
    let args = [At(out), At(x), At(weight), bias, rows, inputs, outputs, add];
    // SAFETY: the buffers hold rows, weights, outputs and the bias, checked.
    unsafe { weight.device().launch(kernel, launch, &args) }
}

/// Computes [`linear`] and [`silu_mul`](super::silu_mul) in one launch, with the same bits. The
/// first half of the layer's outputs are gates, and the second half are multiplied by them. `out`
/// is `[rows, outputs / 2]` in the layer's `number`. The layer must run on tensor cores
/// ([`LinearShape::on_tensor_cores`]).
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small, the outputs are odd, or the layer does not run on tensor cores.
pub fn linear_silu(
    out: &mut Buffer,
    x: &Buffer,
    layer: &LinearShape,
    weight: &Buffer,
    rows: usize,
    workspace: &mut LinearWorkspace,
) -> Result<(), CudaError> {
    assert!(layer.outputs.is_multiple_of(2));
    out.assert_holds(rows * layer.outputs / 2, layer.number.bytes());
    let tensor = layer.tensor().expect("a layer for tensor cores");
    let kernels = SILU.map(|kernels| kernels[tensor]);
    // SAFETY: the buffer holds the outputs, checked.
    unsafe { on_tensor_cores(kernels, layer, out, x, weight, None, rows, workspace) }
}

/// Launches the kernel for `rows` rows.
///
/// # Safety
/// `out` must hold what the kernels write, and the bias of `bias_and_add` what they read.
#[expect(clippy::too_many_arguments, reason = "five buffers, two shapes")]
unsafe fn on_tensor_cores(
    kernels: [&'static str; 5],
    layer: &LinearShape,
    out: &mut Buffer,
    x: &Buffer,
    weight: &Buffer,
    bias_and_add: Option<[Arg<'_>; 2]>,
    rows: usize,
    workspace: &mut LinearWorkspace,
) -> Result<(), CudaError> {
    let (inputs, outputs, number) = (layer.inputs, layer.outputs, layer.number);
    x.assert_holds(rows * inputs, number.bytes());
    weight.assert_holds(outputs * inputs, number.bytes());
    let groups = layer.groups();
    let many = [rows.div_ceil(MANY_ROWS), outputs.div_ceil(MANY_OUTPUTS), 1];
    // The kernels for many rows need no workspace, but they need enough tiles to use the whole
    // card.
    let enough = many[0] * many[1] >= BLOCKS / 2;
    let is_many = rows > LinearShape::SPLIT_ROWS || (rows > MANY_ROWS / 2 && enough);
    let (index, tile) = match rows {
        _ if is_many => (4, MANY_ROWS),
        0..=8 => (0, 8),
        9..=16 => (1, 16),
        17..=32 => (2, 32),
        _ => (3, 64),
    };
    let [bias, add] = bias_and_add.unwrap_or([Absent; 2]);
    let [m, k, n] = [rows, inputs, outputs].map(Int);
    let [out, x, w] = [&*out, x, weight].map(At);
    let (grid, block, args) = if is_many {
        let groups = Int(groups);
        let args = [out, x, w, bias, m, k, n, groups, add, Absent];
        (many, 256, args)
    } else {
        let [partials, arrived] = layer.workspace(rows);
        workspace.partials.assert_holds(partials, 4);
        workspace.arrived.assert_holds(arrived, 4);
        let [partials, arrived] = [&workspace.partials, &workspace.arrived].map(At);
        let grid = [rows.div_ceil(tile), outputs.div_ceil(FEW_OUTPUTS), groups];
        let args = [out, partials, arrived, x, w, bias, m, k, n, add];
        (grid, 128, args)
    };
    let launch = Launch::new(grid, block);
    // SAFETY: the buffers hold rows and weights, the inputs are whole chunks, and the workspace
    // holds a part for each group and a counter for each tile, all checked; the rest is the
    // caller's promise.
    unsafe { weight.device().launch(kernels[index], launch, &args) }
}
