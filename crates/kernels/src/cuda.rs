//! The operations on a CUDA device: the same as on the CPU, on [`Buffer`]s in its memory.
//!
//! The driver is opened when [`Device::open`] asks for it, so a program with this module starts and
//! runs on machines without a driver. The kernels (`kernels/code`, made from `kernels/*.cu` by
//! `kernels/build.sh`) are machine code for some architectures, and portable PTX, which the driver
//! compiles, for all others.
//!
//! Calls queue work on one stream, which runs it in the order of the calls while the host
//! continues. Only [`Buffer::read`], [`Device::synchronize`] and calls that free memory wait for
//! the stream. If queued work fails, a later call returns the error. No operation allocates.

mod attention;
mod buffer;
mod code;
mod device;
mod embed;
mod error;
mod gather;
mod graph;
mod kv;
mod linear;
mod modules;
mod prm;
mod process;
mod rmsnorm;
mod rope;
mod sample;
mod silu;
mod staging;
mod upload;

pub use attention::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, attention,
    attention_merge,
};
pub use buffer::{Buffer, Element};
pub use code::Loaded;
pub use device::{Arg, Device, DeviceInfo, KernelInfo, Launch};
pub use embed::embed;
pub use error::CudaError;
pub use gather::{Gather, gather_rows};
pub use graph::Graph;
pub use kv::KvLayout;
pub use linear::{LinearShape, LinearWorkspace, linear, linear_silu};
pub use prm::{PrmLayer, prm_head, prm_layer};
pub use process::check_process;
pub use rmsnorm::{HeadColumns, rmsnorm, rmsnorm_heads};
pub use rope::{QkvRows, rope_angles, rope_kv};
pub use sample::{SampleRequest, Samples, log_probs};
pub use silu::silu_mul;
pub use staging::Staging;

/// The type of the numbers in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// float32.
    F32,
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
}

impl Number {
    /// The bytes that one number takes in a buffer: 4 or 2.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Selects a kernel's name for this type. `names` are those for float32, bfloat16 and float16.
    pub(crate) fn pick(self, names: [&'static str; 3]) -> &'static str {
        names[self as usize]
    }
}
