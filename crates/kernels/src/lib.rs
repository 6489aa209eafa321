//! The operations of a decoding step on the CPU. The arithmetic is float32: weights in bfloat16 or
//! float16 are converted before they are multiplied. There are three exceptions. Weights in quantised
//! blocks are multiplied as bytes. Layers of pairs of bfloat16 round their inputs to bfloat16, and
//! so does attention over bfloat16 keys and values.
//!
//! Each operation has its own file, with a plain reference that accumulates in float64, and tests
//! that compare both at awkward sizes. Only this crate and the test helper `beamgen-emulated-cuda`
//! have `unsafe` code.
//!
//! Three rules hold for every operation:
//!
//! * **Fixed order.** The value of an output row is computed in an order that depends only on that
//!   row. The number of rows, their split into tasks and the number of threads do not matter. Equal
//!   input rows give bitwise equal output rows.
//! * **Same bits on every machine with fused multiply-add.** The AVX-512 and the AVX2 tier (and
//!   the portable tier on aarch64) do the same roundings in the same order.
//! * **No allocation.** The caller passes the output, or a vector that is reused.
//!
//! Operations take a [`Cpu`]: the instruction set and the threads to use. That argument is the
//! seam where another device comes in.

#![deny(clippy::undocumented_unsafe_blocks, missing_docs)]

mod attention;
mod buffer;
mod ceiling;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod isa;
mod kv;
mod linear;
mod mapped;
mod nucleus;
mod parallel;
mod rmsnorm;
mod rope;
mod silu;
mod simd;
mod softmax;

#[cfg(test)]
mod testing;

pub use attention::{AttentionRow, AttentionShape, attention, attention_flat, attention_reference};
pub use ceiling::{CeilingMemory, Ceilings, MachineRates};
pub use cpu::Cpu;
pub use isa::{Isa, IsaLevel};
pub use kv::{KvFormat, KvPages, KvShape, KvSlot, kv_store};
pub use linear::{
    Epilogue, LinearScratch, PackedLinear, Q8Block, WeightFormat, WidestInputs, linear_reference,
    scale_min,
};
pub use mapped::MappedFile;
pub use nucleus::{Nucleus, indices_at_least, nucleus, sums_at_least};
pub use parallel::{Parallel, ThreadPool};
pub use rmsnorm::{rmsnorm, rmsnorm_heads, rmsnorm_reference};
pub use rope::{RopeTable, rope, rope_reference};
pub use silu::{silu_mul, silu_mul_reference};
pub use softmax::{
    BLOCK, ExpRow, exp_sums, exp_weights, log_sum_exp, log_sum_exp_reference, maxima, maxima_len,
};
