use super::Arg::{At, Int, Null};
use super::{Arg, Buffer, CudaError, Launch};

/// Outputs and rows of a block, as `kernels/prm.cu` has it.
const TILE: usize = 8;

/// A linear layer of a reward model's head: `weight: [outputs, inputs]` and `bias: [outputs]`,
/// float32.
#[derive(Clone, Copy, Debug)]
pub struct PrmLayer<'a> {
    /// The weights in row-major order, float32.
    pub weight: &'a Buffer,
    /// The bias, float32; `None` means zeros.
    pub bias: Option<&'a Buffer>,
    /// The number of values in an input row: the hidden size, or the outputs of the previous layer.
    pub inputs: usize,
    /// The number of values in an output row: the scores, or the inputs of the next layer.
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

/// Applies the first layer of a head to `count` rows of `hidden: [rows, inputs]`, in float32.
/// `rows` has the rows' numbers as u32. `out: [count, outputs]` is float64; a row that does not
/// exist gives NaN.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
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
    // SAFETY: the buffers hold the layer, rows and outputs, checked; the kernel checks the row
    // numbers.
    unsafe { out.device().launch("prm_head", layer.launch(count), &args) }
}

/// Applies a further layer of a head to the previous layer's outputs `x: [count, inputs]`. `out` is
/// `[count, outputs]`, and both are float64. Negative inputs count as 0 (`ReLU`).
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
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
    // SAFETY: the buffers hold the layer, inputs and outputs, checked.
    unsafe { out.device().launch("prm_layer", layer.launch(count), &args) }
}
