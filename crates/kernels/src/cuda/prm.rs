use super::Arg::{At, Int, Null};
use super::{Arg, Buffer, CudaError, Launch};

/// Outputs and rows of a block, as `kernels/prm.cu` has it.
const TILE: usize = 8;

/// A linear layer of a reward model's head: `weight: [outputs, inputs]` and `bias: [outputs]`,
/// float32.
#[derive(Clone, Copy, Debug)]
pub struct PrmLayer<'a> {
    /// The weights.
    pub weight: &'a Buffer,
    /// The bias; none is zeros.
    pub bias: Option<&'a Buffer>,
    /// Values that go in.
    pub inputs: usize,
    /// Values that come out.
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

/// The first layer of a head on `count` chosen rows of `hidden: [rows, inputs]` float32: `rows`
/// (u32) says which. `out: [count, outputs]` float64. NaN for a row that does not exist.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small, or nothing goes in.
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
    // SAFETY: layer and room are there, checked; the kernel reads no row that is not there.
    unsafe { out.device().launch("prm_head", layer.launch(count), &args) }
}

/// A further layer, on what the one before it gave: `x: [count, inputs]` to `out: [count,
/// outputs]`, both float64. Negative inputs count as 0 (`ReLU`).
///
/// # Errors
/// What the driver says.
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
    // SAFETY: layer, inputs and room are there, checked.
    unsafe { out.device().launch("prm_layer", layer.launch(count), &args) }
}
