use super::Arg::{At, Float, Int, Null};
use super::{Buffer, CudaError, KvLayout, Launch};

/// Computes cosines and sines at each row's position, as `out: [rows][cos: half | sin: half]` in
/// float32 for [`rope_kv`]. They are those of [`crate::RopeTable`] with the same `scale` and `half`
/// frequencies rounded to float32.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small.
pub fn rope_angles(
    out: &mut Buffer,
    positions: &Buffer,
    frequencies: &Buffer,
    scale: f32,
    rows: usize,
    half: usize,
) -> Result<(), CudaError> {
    out.assert_holds(rows * 2 * half, 4);
    positions.assert_holds(rows, 4);
    frequencies.assert_holds(half, 4);
    let launch = Launch::new([rows, 1, 1], 64);
    let args = [
        At(out),
        At(positions),
        At(frequencies),
        Float(scale),
        Int(half),
    ];
    // SAFETY: the buffers hold `rows` rows and `half` frequencies, checked.
    unsafe { out.device().launch("rope_angles", launch, &args) }
}

/// Rows `[queries: heads | keys: kv_heads | values: kv_heads]` of `head_dim` floats each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QkvRows {
    /// The number of rows, one for each token of the pass.
    pub rows: usize,
    /// Floats from one row to the next.
    pub stride: usize,
    /// The number of query heads in a row; the layout has the number of key-value heads.
    pub heads: usize,
}

/// Turns queries and keys in place and writes keys and values of one layer to their places in `kv`.
/// Element `i` of a head is rotated with element `i + half`, by the `angles` of [`rope_angles`].
/// Elements from `2 * half` on stay unchanged. `slots: [rows][page, offset]` is u32; a row whose
/// slot is outside `kv` is not written.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small, the heads do not fit in a row, or the layer does not exist.
#[expect(clippy::too_many_arguments, reason = "four buffers, two shapes")]
pub fn rope_kv(
    qkv: &mut Buffer,
    shape: QkvRows,
    kv: &mut Buffer,
    layout: &KvLayout,
    layer: usize,
    angles: &Buffer,
    half: usize,
    slots: &Buffer,
) -> Result<(), CudaError> {
    let (rows, stride, heads) = (shape.rows, shape.stride, shape.heads);
    let (number, page_size, layers) = (layout.number, layout.page_size, layout.layers);
    let (kv_heads, head_dim) = (layout.kv_heads, layout.head_dim);
    assert!(kv_heads > 0 && (heads + 2 * kv_heads) * head_dim <= stride);
    assert!(2 * half <= head_dim && layer < layers);
    qkv.assert_holds(rows * stride, 4);
    angles.assert_holds(rows * 2 * half, 4);
    slots.assert_holds(2 * rows, 4);
    let launch = Launch::new([rows, heads + 2 * kv_heads, 1], 64);
    let pages = layout.pages(kv);
    let ints = [
        stride, heads, kv_heads, head_dim, half, page_size, layers, layer, pages,
    ]
    .map(Int);
    let buffers = [At(qkv), At(kv), At(angles), At(slots)];
    let mut args = [Null; 13];
    args[..4].copy_from_slice(&buffers);
    args[4..].copy_from_slice(&ints);
    let kernel = number.pick(["rope_kv_f32", "rope_kv_bf16", "rope_kv_f16"]);
    // SAFETY: the buffers hold the rows, rows hold their heads, and a page holds the layer,
    // checked; the kernel checks the slots.
    unsafe { qkv.device().launch(kernel, launch, &args) }
}
