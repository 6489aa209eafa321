use crate::{Isa, Parallel};

/// The instruction set and the threads of an operation, which every operation takes.
#[derive(Clone, Copy, Debug)]
pub struct Cpu<'a> {
    /// The tier of instructions. All tiers with fused multiply-add give the same bits.
    pub isa: Isa,
    /// The threads that share the operation's tasks. Their number does not change results.
    pub parallel: Parallel<'a>,
}

impl Cpu<'_> {
    /// Creates the best tier of this machine on the calling thread only.
    #[must_use]
    pub fn serial() -> Self {
        Self {
            isa: Isa::detect(),
            parallel: Parallel::serial(),
        }
    }
}
