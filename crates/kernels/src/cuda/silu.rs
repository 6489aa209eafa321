use super::Arg::{At, Int};
use super::{Buffer, CudaError, Launch, Number};

/// Computes the gate of a `SwiGLU` block: `gate / (1 + e^-gate) * up`. Input rows are `[gate | up]`
/// of `2 * width` floats, and output rows have `width` values of the type `number`.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small.
pub fn silu_mul(
    out: &mut Buffer,
    number: Number,
    gate_up: &Buffer,
    rows: usize,
    width: usize,
) -> Result<(), CudaError> {
    out.assert_holds(rows * width, number.bytes());
    gate_up.assert_holds(rows * 2 * width, 4);
    let block = 256;
    let launch = Launch::new([rows, width.div_ceil(4 * block), 1], block);
    let kernel = number.pick(["silu_mul_f32", "silu_mul_bf16", "silu_mul_f16"]);
    let args = [At(out), At(gate_up), Int(width)];
    // SAFETY: the buffers hold `rows` rows, checked.
    unsafe { out.device().launch(kernel, launch, &args) }
}
