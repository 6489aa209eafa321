use crate::{Isa, Parallel};

/// The instruction set and the threads that an operation runs on.
#[derive(Clone, Copy, Debug)]
pub struct Cpu<'a> {
    /// The tier whose instructions are used; all tiers with fused multiply-add give the same bits.
    pub isa: Isa,
    /// The threads that share the tasks of an operation.
    pub parallel: Parallel<'a>,
}

impl Cpu<'_> {
    /// The best instruction set of this machine, on the calling thread only.
    #[must_use]
    pub fn serial() -> Self {
        Self {
            isa: Isa::detect(),
            parallel: Parallel::serial(),
        }
    }
}
