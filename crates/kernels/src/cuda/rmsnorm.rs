use super::Arg::{At, Float, Int};
use super::{Buffer, CudaError, Launch, Number};

/// Normalises `rows` rows of `n` floats of `x` into rows of `n` `number`s: `x / sqrt(mean(x²) +
/// eps) * weight`.
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If a buffer is too small.
pub fn rmsnorm(
    out: &mut Buffer,
    number: Number,
    x: &Buffer,
    weight: &Buffer,
    rows: usize,
    n: usize,
    eps: f32,
) -> Result<(), CudaError> {
    assert!(n > 0);
    out.assert_holds(rows * n, number.bytes());
    x.assert_holds(rows * n, 4);
    weight.assert_holds(n, 4);
    // The order of a row's sum depends on the block's size, so the size depends only on the width.
    let block = n.div_ceil(4).next_power_of_two().clamp(32, 1024);
    let launch = Launch::new([rows, 1, 1], block);
    let args = [At(out), At(x), At(weight), Int(n), Float(eps)];
    let kernel = number.pick(["rmsnorm_f32", "rmsnorm_bf16", "rmsnorm_f16"]);
    // SAFETY: the buffers hold the rows and the weights, checked.
    unsafe { out.device().launch(kernel, launch, &args) }
}

/// The columns of each row that are normalised as heads, in floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadColumns {
    /// The number of floats from one row to the next, other columns included.
    pub stride: usize,
    /// The column at which the first head begins.
    pub offset: usize,
    /// The number of heads. They are adjacent.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// [`rmsnorm`] of each head by itself, in place: the norm of queries and keys of Qwen3.
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If a buffer is too small, or the heads do not fit into a row.
pub fn rmsnorm_heads(
    x: &mut Buffer,
    rows: usize,
    columns: HeadColumns,
    weight: &Buffer,
    eps: f32,
) -> Result<(), CudaError> {
    let (stride, offset) = (columns.stride, columns.offset);
    let (heads, head_dim) = (columns.heads, columns.head_dim);
    assert!(head_dim > 0 && offset + heads * head_dim <= stride);
    x.assert_holds(rows * stride, 4);
    weight.assert_holds(head_dim, 4);
    let launch = Launch::new([rows, 1, 1], 32 * heads.clamp(1, 16));
    let [stride, offset, heads, dim] = [stride, offset, heads, head_dim].map(Int);
    let args = [At(x), stride, offset, heads, dim, At(weight), Float(eps)];
    // SAFETY: the buffer holds the rows, and a row holds the heads, checked.
    unsafe { x.device().launch("rmsnorm_heads", launch, &args) }
}
