//! Fused training operations for the CPU, with gradients. candle itself composes these operations from many full-size
//! intermediate tensors, and candle's fused operations have no backward pass. Most operations have a twin in
//! [`composed`], which serves other devices and is the reference in tests.

// Index loops over rows of fixed size are vectorised by the compiler; the iterator chains that this lint proposes are
// not.
#![allow(clippy::needless_range_loop)]

use candle_core::{CpuStorage, Error, Layout, Result, Storage, Tensor};

/// Defines a function that is compiled for every vector unit and runs on the best one of the machine. A macro,
/// because a closure passed to `pulp` would not be inlined into the vectorised code.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<$a:lifetime $(, const $hd:ident: usize)?>($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$doc])*
        $vis fn $name<$a $(, const $hd: usize)?>($($arg: $ty),*) -> $ret {
            struct Job<$a $(, const $hd: usize)?> { $($arg: $ty),* }
            impl<$a $(, const $hd: usize)?> pulp::WithSimd for Job<$a $(, $hd)?> {
                type Output = $ret;
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> $ret {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Job { $($arg),* })
        }
    };
}

// A macro is visible only in modules declared after it.
mod attention;
pub mod composed;
mod cross_entropy;
mod linear;
mod math;
mod rms_norm;
mod swiglu;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use cross_entropy::CrossEntropy;
pub use linear::{Cost, FrozenLinear, linear_cross_entropy, linear_log_probs, linear_objective};
pub use rms_norm::RmsNorm;
pub use swiglu::SwiGlu;

/// Applies [`Attention`] to `x: [batch * time, (heads + 2 * kv_heads) * head_dim]`. Runs the fused operation on the
/// CPU if [`Attention::is_fused`], else the composed one.
///
/// # Errors
/// `x` has a shape that does not fit `op`.
pub fn attention(x: &Tensor, op: Attention) -> Result<Tensor> {
    if x.device().is_cpu() && op.is_fused() {
        x.apply_op1(op)
    } else {
        composed::attention(&op, x)
    }
}

/// Applies [`RmsNorm`] to `x: [rows, width]` with `weight: [width]`. The operation is fused on the CPU only.
///
/// # Errors
/// `x` and `weight` have different widths.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if x.device().is_cpu() {
        x.apply_op2(weight, RmsNorm { eps })
    } else {
        composed::rms_norm(x, weight, eps)
    }
}

/// Applies [`SwiGlu`] to `x: [rows, 2 * f]` and returns `[rows, f]`. The operation is fused on the CPU only.
///
/// # Errors
/// `x` is not a matrix.
pub fn swiglu(x: &Tensor) -> Result<Tensor> {
    if x.device().is_cpu() {
        x.apply_op1(SwiGlu)
    } else {
        composed::swiglu(x)
    }
}

/// Applies [`CrossEntropy`] to `logits: [rows, vocab]` and returns a scalar. The operation is fused on the CPU only.
///
/// # Errors
/// `logits` is not a matrix.
pub fn cross_entropy(logits: &Tensor, targets: Vec<u32>, weights: Vec<f32>) -> Result<Tensor> {
    if logits.device().is_cpu() {
        logits.apply_op1(CrossEntropy { targets, weights })
    } else {
        composed::cross_entropy(logits, &targets, &weights)
    }
}

fn floats<'a>(s: &'a CpuStorage, l: &Layout) -> Result<&'a [f32]> {
    let (a, b) = l
        .contiguous_offsets()
        .ok_or_else(|| Error::Msg("a fused training op needs contiguous input".into()))?;
    Ok(&s.as_slice::<f32>()?[a..b])
}

/// Runs `f` on the tensor's values without copying them.
fn with_floats<R>(t: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let (storage, layout) = t.storage_and_layout();
    match &*storage {
        Storage::Cpu(s) => f(floats(s, layout)?),
        _ => Err(Error::Msg("a fused training op runs on the CPU".into())),
    }
}

/// The number of rows of one rayon task. It is fixed, so that sums over rows do not depend on the number of threads.
const ROWS: usize = 64;
