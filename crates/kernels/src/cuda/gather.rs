use super::Arg::{At, Int};
use super::{Buffer, CudaError, Launch};

/// Columns of [`gather_rows`], in floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The number of columns that are copied, the first ones of a row.
    pub width: usize,
    /// Floats from one row of the source to the next.
    pub x_stride: usize,
    /// Floats from one row of the output to the next.
    pub out_stride: usize,
}

/// Copies rows of a float32 matrix: row `i` of the output is row `rows[i]` of `x`, for `count`
/// rows. A row that `x` does not have gives zeros.
///
/// # Errors
/// The driver's error.
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
    // SAFETY: the buffers hold `count` rows, checked; the kernel checks the numbers of the rows.
    unsafe { out.device().launch("gather_rows", launch, &args) }
}
