use super::Arg::{At, Int};
use super::{Buffer, CudaError, Launch};

/// Columns of [`gather_rows`], in floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The number of columns that are copied, from the first column on.
    pub width: usize,
    /// The number of floats from one row of the source to the next.
    pub x_stride: usize,
    /// The number of floats from one row of the output to the next. Floats between rows stay
    /// unchanged.
    pub out_stride: usize,
}

/// Copies `count` rows of a float32 matrix: row `i` of `out` becomes row `rows[i]` of `x`. A row
/// number outside `x` gives zeros.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small or the rows overlap.
pub fn gather_rows(
    out: &mut Buffer,
    x: &Buffer,
    rows: &Buffer,
    count: usize,
    shape: Gather,
) -> Result<(), CudaError> {
    let (width, x_stride, out_stride) = (shape.width, shape.x_stride, shape.out_stride);
    assert!(0 < width && width <= x_stride.min(out_stride));
    out.assert_holds((count * out_stride).saturating_sub(out_stride - width), 4);
    rows.assert_holds(count, 4);
    let x_rows = (x.bytes() / 4 + x_stride - width) / x_stride;
    let launch = Launch::new([count, 1, 1], 256);
    let ints = [width, x_stride, out_stride, x_rows].map(Int);
    let args = [At(out), At(x), At(rows), ints[0], ints[1], ints[2], ints[3]];
    // SAFETY: the buffers hold `count` rows, checked; the kernel checks the row numbers.
    unsafe { out.device().launch("gather_rows", launch, &args) }
}
