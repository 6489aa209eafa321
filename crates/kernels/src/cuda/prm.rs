use super::Arg::{At, Int, Null};
use super::{Arg, Buffer, CudaError, Launch};

/// Outputs and rows of a block, as `kernels/prm.cu` has it.
const TILE: usize = 8;

/// A linear layer of a reward model's head: `weight: [outputs, inputs]` and `bias: [outputs]`,
/// float32.
#[derive(Clone, Copy, Debug)]
pub struct PrmLayer<'a> {
    /// The weights, row-major.
    pub weight: &'a Buffer,
    /// The bias; `None` means zeros.
    pub bias: Option<&'a Buffer>,
    /// Values of an input row.
    pub inputs: usize,
    /// Values of an output row.
    pub outputs: usize,
}

impl PrmLayer<'_> {
    fn check(&self) {
        self.weight.assert_holds(self.inputs * self.outputs, 4);
        if let Some(bias) = self.bias {
            bias.assert_holds(self.outputs, 4);
        }
    }

    fn bias(&self) -> Arg<'_> {
        self.bias.map_or(Null, At)
    }

    fn launch(&self, count: usize) -> Launch {
        Launch::new(
            [self.outputs.div_ceil(TILE), count.div_ceil(TILE), 1],
            32 * TILE,
        )
    }
}

/// Applies the first layer of a head to `count` rows of `hidden: [rows, inputs]` float32, whose
/// numbers are in `rows` (u32). `out: [count, outputs]` is float64, NaN for a row that does not
/// exist.
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If a buffer is too small, or the layer has no inputs.
pub fn prm_head(
    out: &mut Buffer,
    hidden: &Buffer,
    rows: &Buffer,
    layer: PrmLayer<'_>,
    count: usize,
) -> Result<(), CudaError> {
    layer.check();
    assert!(layer.inputs > 0);
    out.assert_holds(count * layer.outputs, 8);
    rows.assert_holds(count, 4);
    let args = [
        At(out),
        At(hidden),
        At(rows),
        Int(hidden.bytes() / (4 * layer.inputs)),
        At(layer.weight),
        layer.bias(),
        Int(count),
        Int(layer.inputs),
        Int(layer.outputs),
    ];
    // SAFETY: the buffers hold layer, rows and outputs, checked; the kernel checks the row numbers.
    unsafe { out.device().launch("prm_head", layer.launch(count), &args) }
}

/// Applies a further layer to the outputs of the layer before: `x: [count, inputs]` to `out:
/// [count, outputs]`, both float64. Negative inputs count as 0 (`ReLU`).
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If a buffer is too small.
pub fn prm_layer(
    out: &mut Buffer,
    x: &Buffer,
    layer: PrmLayer<'_>,
    count: usize,
) -> Result<(), CudaError> {
    layer.check();
    out.assert_holds(count * layer.outputs, 8);
    x.assert_holds(count * layer.inputs, 8);
    let args = [
        At(out),
        At(x),
        At(layer.weight),
        layer.bias(),
        Int(count),
        Int(layer.inputs),
        Int(layer.outputs),
    ];
    // SAFETY: the buffers hold layer, inputs and outputs, checked.
    unsafe { out.device().launch("prm_layer", layer.launch(count), &args) }
}
