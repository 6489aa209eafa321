use crate::{Isa, Parallel};

/// What an operation runs on: which instructions, how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Cpu<'a> {
    /// The instruction set.
    pub isa: Isa,
    /// The threads.
    pub parallel: Parallel<'a>,
}

impl Cpu<'_> {
    /// The best instruction set of this machine, on the calling thread alone.
    #[must_use]
    pub fn serial() -> Self {
        Self {
            isa: Isa::detect(),
            parallel: Parallel::serial(),
        }
    }
}
