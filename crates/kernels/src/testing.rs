//! Helpers of the tests.

pub(crate) use beamgen_test_support::numbers::{assert_close, assert_same_bits, noise};

use crate::{Cpu, Isa, Parallel};

/// Sizes around the widths of registers and panels.
pub(crate) const SIZES: [usize; 14] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37, 129];

/// Returns every tier of this machine, each on the calling thread only.
pub(crate) fn cpus() -> Vec<Cpu<'static>> {
    Isa::all()
        .into_iter()
        .map(|isa| Cpu {
            isa,
            parallel: Parallel::serial(),
        })
        .collect()
}
