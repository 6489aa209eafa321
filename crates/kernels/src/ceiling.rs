//! What a machine's multiply-adds can do, for benches to compare with.

use std::hint::black_box;

use crate::Isa;
use crate::isa::{Int8Task, Task};
use crate::simd::{Int8, LANES, Simd};

/// Independent sums of a loop: enough to hide the latency.
const SUMS: usize = 12;

/// Loops of multiply-adds in registers, that touch no memory.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// How often each loop turns.
    pub turns: usize,
}

impl Ceilings {
    /// Operations of [`run_floats`](Self::run_floats): a multiply-add is two.
    #[must_use]
    pub fn floats(self) -> f64 {
        (2 * SUMS * LANES * self.turns) as f64
    }

    /// Operations of [`run_bytes`](Self::run_bytes): a multiply-add is two.
    #[must_use]
    pub fn bytes(self) -> f64 {
        4.0 * self.floats()
    }

    /// Fused multiply-adds of float32.
    pub fn run_floats(self, isa: Isa) {
        isa.run(Floats(self.turns));
    }

    /// Dot products of bytes, as int8 layers use them.
    pub fn run_bytes(self, isa: Isa) {
        isa.run_int8(Bytes(self.turns));
    }
}

struct Floats(usize);

impl Task for Floats {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let x = s.splat(black_box(0.999));
        let mut sums = [s.splat(black_box(1.0)); SUMS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = s.fma(*sum, x, x);
            }
        }
        for sum in sums {
            black_box(s.to_array(sum));
        }
    }
}

struct Bytes(usize);

impl Int8Task for Bytes {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        let weights = black_box([1u8; 4 * LANES]);
        // SAFETY: 64 bytes.
        let weights = unsafe { i.load_bytes(weights.as_ptr()) };
        let x = black_box(0x0100_0001);
        let mut sums = [i.start(black_box(0)); SUMS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = i.dot(*sum, weights, x);
            }
        }
        for sum in sums {
            black_box(i.floats().to_array(i.to_floats(sum)));
        }
    }
}
