use super::Arg::{At, Int};
use super::{Buffer, CudaError, Launch, Number};

/// Copies rows of the embedding table to `out: [rows, hidden]` as float32: `out[row] =
/// table[tokens[row]]`. The table's buffer has rows of `hidden` values of the type `number`. A
/// token outside the table gives zeros.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small.
pub fn embed(
    out: &mut Buffer,
    number: Number,
    table: &Buffer,
    tokens: &Buffer,
    rows: usize,
    hidden: usize,
) -> Result<(), CudaError> {
    assert!(hidden > 0);
    out.assert_holds(rows * hidden, 4);
    tokens.assert_holds(rows, 4);
    let vocab = table.bytes() / (hidden * number.bytes());
    let launch = Launch::new([rows, 1, 1], 256);
    let args = [At(out), At(table), At(tokens), Int(hidden), Int(vocab)];
    let kernel = number.pick(["embed_f32", "embed_bf16", "embed_f16"]);
    // SAFETY: the buffers hold `rows` tokens and rows of the output, checked; the kernel checks the
    // tokens.
    unsafe { out.device().launch(kernel, launch, &args) }
}
