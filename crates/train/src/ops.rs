//! Fused training operations for the CPU, with gradients: candle's own compose the same things
//! from many full-size intermediates, and its fused inference ops have no backward pass. Every
//! operation has a composed twin (see [`composed`]), which other devices use and which the tests
//! hold these against.

// Index loops over fixed-size rows are what the compiler vectorises here.
#![allow(clippy::needless_range_loop)]

use candle_core::{CpuStorage, Error, Layout, Result, Storage, Tensor};

/// Defines a function whose body is compiled for, and run on, the best vector unit at hand. (A
/// closure handed to `pulp` would not be inlined into the vectorised caller.)
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

// Behind the macro, which they use.
mod attention;
pub mod composed;
mod cross_entropy;
mod frozen_linear;
mod linear_objective;
mod math;
mod rms_norm;
mod swiglu;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use cross_entropy::CrossEntropy;
pub use frozen_linear::FrozenLinear;
pub use linear_objective::{Cost, linear_cross_entropy, linear_log_probs, linear_objective};
pub use rms_norm::RmsNorm;
pub use swiglu::SwiGlu;

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

/// Rows handed to one task; fixed, so that sums over rows do not depend on the thread count.
const ROWS: usize = 64;
