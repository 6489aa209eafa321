//! Measures a machine's peak rates of multiply-adds and of memory, as references for benchmarks.

use std::hint::black_box;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::isa::{Int8Task, Task};
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
use crate::simd::tiles::TileRegisters;
use crate::simd::{Int8, LANES, Simd, prefetch};
use crate::{Isa, Parallel, ThreadPool};

/// The number of sums in registers that each turn of a loop updates.
const SUMS: usize = 12;

/// The number of 64-byte lines that the dot products read in turn. They fit in the first-level
/// cache.
const LINES: usize = 16;

/// Loops of multiply-adds on sums in registers. They touch no memory beyond the first-level cache.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// The number of turns of each loop; about 20,000 take a fraction of a millisecond.
    pub turns: usize,
}

impl Ceilings {
    /// The number of operations in [`run_floats`](Self::run_floats); a multiply-add counts as two.
    #[must_use]
    pub fn floats(self) -> f64 {
        (2 * SUMS * LANES * self.turns) as f64
    }

    /// Runs fused multiply-adds of float32, which count [`floats`](Self::floats) operations.
    pub fn run_floats(self, isa: Isa) {
        isa.run(Floats(self.turns));
    }

    /// The number of operations in [`run_pairs`](Self::run_pairs); a multiply-add counts as two.
    #[must_use]
    pub fn pairs(self) -> f64 {
        2.0 * self.floats()
    }

    /// Runs dot products of pairs of bfloat16, as layers multiply them: with AMX's tiles, or with
    /// AVX512-BF16 where that is faster than multiply-adds of float32.
    pub fn run_pairs(self, isa: Isa) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if isa.tiles() {
            // SAFETY: the tier has tiles.
            black_box(unsafe { tile_pairs(&mut crate::simd::tiles::Amx, self.turns) });
            return;
        }
        if isa.bf16() {
            isa.run_bf16(PairDots(self.turns));
        } else {
            isa.run(Floats(2 * self.turns));
        }
    }

    /// The number of operations in [`run_bytes`](Self::run_bytes); a multiply-add counts as two.
    #[must_use]
    pub fn bytes(self) -> f64 {
        4.0 * self.floats()
    }

    /// Runs dot products of bytes, with VNNI if the tier has it. AMX's tiles can be faster.
    pub fn run_bytes(self, isa: Isa) {
        isa.run_int8(Bytes(self.turns));
    }

    /// The number of operations on bytes in [`run_blocks`](Self::run_blocks); a multiply-add counts
    /// as two, and the operations on the scales of blocks are not counted.
    #[must_use]
    pub fn blocks(self) -> f64 {
        8.0 * self.bytes()
    }

    /// Runs dot products of blocks of 32 bytes, as layers in int8 need them: the sum of each block
    /// is converted to float32, and multiplied by the scales of both operands. AMX's tiles can be
    /// faster.
    pub fn run_blocks(self, isa: Isa) {
        isa.run_int8(BlockDots(self.turns));
    }
}

struct Floats(usize);

impl Task for Floats {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // The sums are enough to hide the latency of a multiply-add, and few enough for the
        // registers. Below AVX-512 a vector takes two or more registers, so there are half as many
        // sums.
        if S::WIDE {
            floats::<S, SUMS>(s, self.0);
        } else {
            floats::<S, { SUMS / 2 }>(s, 2 * self.0);
        }
    }
}

#[inline(always)]
fn floats<S: Simd, const N: usize>(s: S, turns: usize) {
    let x = s.splat(black_box(0.999));
    let mut sums = [s.splat(black_box(1.0)); N];
    for _ in 0..turns {
        for sum in &mut sums {
            *sum = s.fma(*sum, x, x);
        }
    }
    for sum in sums {
        black_box(s.to_array(sum));
    }
}

struct PairDots(usize);

impl Task for PairDots {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // Two bfloat16 of about 0.999.
        let x = s.splat(f32::from_bits(black_box(0x3f7f_3f7f)));
        let mut sums = [s.splat(black_box(1.0)); SUMS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = s.dot_pairs(x, x, *sum);
            }
        }
        for sum in sums {
            black_box(s.to_array(sum));
        }
    }
}

/// The turns of the loop of pairs that do as many operations as twelve products of tiles, each of 16
/// rows, 16 columns and 32 numbers.
const TILE_TURNS: usize = 16 * 32 / 2;

/// Multiplies tiles of ones, with sums in four tiles as in layers. Returns the sum of one output of
/// each. If `turns` is not a multiple of [`TILE_TURNS`], it is rounded up.
///
/// # Safety
/// The process may use the tiles.
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
unsafe fn tile_pairs(registers: &mut impl TileRegisters, turns: usize) -> f32 {
    const LINE: usize = 4 * LANES;
    let ones = black_box([[0x3f80_3f80u32; LANES]; 16]);
    let mut sums = [[[0.0f32; LANES]; 16]; 4];
    // SAFETY: the caller's promise; tiles of 16 rows of a line are read and written.
    unsafe {
        registers.configure([(16, LINE); 8]);
        registers.zero::<0>();
        registers.zero::<1>();
        registers.zero::<2>();
        registers.zero::<3>();
        let ones = ones.as_ptr().cast::<u8>();
        registers.load::<4>(ones, LINE);
        registers.load::<5>(ones, LINE);
        registers.load::<6>(ones, LINE);
        registers.load::<7>(ones, LINE);
        for _ in 0..3 * turns.div_ceil(TILE_TURNS) {
            registers.multiply::<0, 4, 6>();
            registers.multiply::<1, 4, 7>();
            registers.multiply::<2, 5, 6>();
            registers.multiply::<3, 5, 7>();
        }
        registers.store::<0>(sums[0].as_mut_ptr().cast(), LINE);
        registers.store::<1>(sums[1].as_mut_ptr().cast(), LINE);
        registers.store::<2>(sums[2].as_mut_ptr().cast(), LINE);
        registers.store::<3>(sums[3].as_mut_ptr().cast(), LINE);
        registers.release();
    }
    sums.iter().map(|sums| sums[0][0]).sum()
}

struct BlockDots(usize);

impl Int8Task for BlockDots {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        if I::Floats::WIDE {
            blocks::<I, SUMS>(i, self.0);
        } else {
            blocks::<I, { SUMS / 3 }>(i, 3 * self.0);
        }
    }
}

/// Multiplies blocks of `N` rows by those of 16 outputs. Weights, inputs and scales are read from
/// the first-level cache.
#[inline(always)]
fn blocks<I: Int8, const N: usize>(i: I, turns: usize) {
    let f = i.floats();
    let weights = black_box([[1u8; 4 * LANES]; LINES]);
    let inputs = black_box([[0x0100_0001i32; N]; LINES]);
    let scales = black_box([[0.5f32; LANES]; LINES]);
    let mut sums = [f.splat(black_box(0.0)); N];
    for turn in 0..turns {
        let mut dots = [i.start(0); N];
        for step in 0..8 {
            let line = (8 * turn + step) % LINES;
            // SAFETY: 64 bytes.
            let weights = unsafe { i.load_bytes(weights[line].as_ptr()) };
            for (dot, x) in dots.iter_mut().zip(inputs[line]) {
                *dot = i.dot(*dot, weights, x);
            }
        }
        // SAFETY: 16 floats.
        let scale = unsafe { f.load(scales[turn % LINES].as_ptr()) };
        for (n, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
            let scale = f.mul(scale, f.splat(scales[turn % LINES][n]));
            *sum = f.fma(scale, i.to_floats(dot), *sum);
        }
    }
    for sum in sums {
        black_box(f.to_array(sum));
    }
}

struct Bytes(usize);

impl Int8Task for Bytes {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        if I::Floats::WIDE {
            bytes::<I, SUMS>(i, self.0);
        } else {
            bytes::<I, { SUMS / 3 }>(i, 3 * self.0);
        }
    }
}

/// Multiplies `N` rows by 16 outputs. Weights and inputs differ from turn to turn, as in a layer.
/// With constant operands, the compiler would move the work that AVX2 does before each
/// multiplication out of the loop.
#[inline(always)]
fn bytes<I: Int8, const N: usize>(i: I, turns: usize) {
    let weights = black_box([[1u8; 4 * LANES]; LINES]);
    let inputs = black_box([[0x0100_0001i32; N]; LINES]);
    let mut sums = [i.start(black_box(0)); N];
    for turn in 0..turns {
        // SAFETY: 64 bytes.
        let weights = unsafe { i.load_bytes(weights[turn % LINES].as_ptr()) };
        for (sum, x) in sums.iter_mut().zip(inputs[turn % LINES]) {
            *sum = i.dot(*sum, weights, x);
        }
    }
    for sum in sums {
        black_box(i.floats().to_array(i.to_floats(sum)));
    }
}

/// Two mappings of equal size, between which memory is read and copied.
#[derive(Debug)]
pub struct CeilingMemory {
    from: MmapMut,
    to: MmapMut,
}

impl CeilingMemory {
    /// The number of floats that a task reads or copies, 256 KiB.
    const PIECE: usize = 1 << 16;

    /// Maps two stretches of about `bytes` each, and writes to both, so that their pages exist.
    /// `bytes` must exceed the last-level cache; otherwise the cache is measured.
    ///
    /// # Errors
    /// If the system does not grant the memory.
    pub fn new(bytes: usize) -> std::io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(4 * Self::PIECE);
        Ok(Self {
            from: Self::stretch(bytes, 1)?,
            to: Self::stretch(bytes, 2)?,
        })
    }

    fn stretch(bytes: usize, value: u8) -> std::io::Result<MmapMut> {
        let mut memory = MmapMut::map_anon(bytes)?;
        // Packed weights are on huge pages, too (`buffer.rs`). Without huge pages, the measured
        // rate is only lower.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        memory.fill(value);
        Ok(memory)
    }

    /// The bytes of one stretch; the two are equally large.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.from.len()
    }

    /// Reads one stretch ([`bytes`](Self::bytes) bytes) in order, like a pass reads weights.
    pub fn run_read(&self, isa: Isa, parallel: Parallel) {
        let piece = 4 * Self::PIECE;
        parallel.for_each(self.bytes() / piece, u64::MAX, |i| {
            isa.run(Sum(&self.from[i * piece..][..piece]));
        });
    }

    /// Copies one stretch to the other. This reads and writes twice [`bytes`](Self::bytes) bytes in
    /// total.
    pub fn run_copy(&mut self, parallel: Parallel) {
        let (from, len) = (&self.from, self.to.len() / 4);
        // SAFETY: the mapping begins on a page and has four times as many bytes, all of them
        // written; any bits are a float; it is borrowed uniquely.
        let to = unsafe { std::slice::from_raw_parts_mut(self.to.as_mut_ptr().cast::<f32>(), len) };
        parallel.for_row_runs(to, Self::PIECE, u64::MAX, |row, to| {
            let from = from[4 * row * Self::PIECE..].as_ptr().cast::<f32>();
            // SAFETY: both mappings are of one size, and `to` is a part of the other one that
            // begins as far from its start.
            to.copy_from_slice(unsafe { std::slice::from_raw_parts(from, to.len()) });
        });
    }
}

struct Sum<'a>(&'a [u8]);

impl Task for Sum<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const BLOCK: usize = 8 * 4 * LANES;
        let mut sums = [s.splat(0.0); 8];
        for block in self.0.chunks_exact(BLOCK) {
            for line in 0..8 {
                prefetch(block.as_ptr().wrapping_add(4 * BLOCK + line * 4 * LANES));
            }
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a block has eight vectors, on no particular boundary.
                let v = unsafe { s.load(block.as_ptr().cast::<f32>().add(i * LANES)) };
                *sum = s.add(*sum, v);
            }
        }
        for sum in sums {
            black_box(s.to_array(sum));
        }
    }
}

/// The peak rates of all threads of a pool together, in units of 10^9 per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineRates {
    /// Bytes read from memory.
    pub read: f64,
    /// Bytes read and written by a copy.
    pub copy: f64,
    /// Float32 operations; a multiply-add is two.
    pub floats: f64,
    /// Operations of dot products of bfloat16 ([`Ceilings::run_pairs`]); a multiply-add is two.
    pub pairs: f64,
    /// Operations of byte dot products ([`Ceilings::run_bytes`]); a multiply-add is two.
    pub bytes: f64,
    /// Operations of byte dot products in blocks of 32 with scales ([`Ceilings::run_blocks`]).
    pub blocks: f64,
}

impl MachineRates {
    /// Measures each rate as the best of nine windows of 15 ms, which takes about a second in total.
    /// The rates of memory use two arrays of `memory` bytes.
    ///
    /// # Errors
    /// If the system does not grant twice `memory` bytes.
    pub fn measure(pool: &ThreadPool, isa: Isa, memory: usize) -> std::io::Result<Self> {
        let mut memory = CeilingMemory::new(memory)?;
        let loops = Ceilings {
            turns: 80 * TILE_TURNS,
        };
        let threads = pool.threads();
        let stretch = memory.bytes() as f64;
        pool.run(u64::MAX, |parallel| {
            let all = |operations: f64, run: fn(Ceilings, Isa)| {
                let body = || parallel.for_each(threads, u64::MAX, |_| run(loops, isa));
                rate(threads as f64 * operations, body)
            };
            let mut rates = [const { Vec::new() }; 6];
            // The loops take turns, so that a short disturbance does not hit all windows of one
            // loop.
            for _ in 0..9 {
                rates[0].push(rate(stretch, || memory.run_read(isa, parallel)));
                rates[1].push(rate(2.0 * stretch, || memory.run_copy(parallel)));
                rates[2].push(all(loops.floats(), Ceilings::run_floats));
                rates[3].push(all(loops.pairs(), Ceilings::run_pairs));
                rates[4].push(all(loops.bytes(), Ceilings::run_bytes));
                rates[5].push(all(loops.blocks(), Ceilings::run_blocks));
            }
            let [read, copy, floats, pairs, bytes, blocks] =
                rates.map(|windows| windows.into_iter().fold(0.0, f64::max));
            Ok(Self {
                read,
                copy,
                floats,
                pairs,
                bytes,
                blocks,
            })
        })
    }
}

/// Calls `body`, which does `amount` operations, for at least 15 ms. Returns 10^9 operations per
/// second.
fn rate(amount: f64, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_millis(15) {
        body();
        calls += 1;
    }
    amount * f64::from(calls) / start.elapsed().as_secs_f64() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::tiles::Model;

    #[test]
    fn products_of_tiles_are_as_many_operations_as_counted() {
        let loops = Ceilings {
            turns: 2 * TILE_TURNS,
        };
        // SAFETY: a model may always be used.
        let sum = unsafe { tile_pairs(&mut Model::default(), loops.turns) };
        // Each product adds 32 to every output of a tile.
        let operations = f64::from(sum) / 32.0 * (2 * 16 * 16 * 32) as f64;
        assert_eq!(operations, loops.pairs());
    }

    #[test]
    fn rates_are_measured_and_the_copy_is_one() {
        let pool = ThreadPool::new(2);
        let rates = MachineRates::measure(&pool, Isa::detect(), 1 << 20).unwrap();
        for rate in [
            rates.read,
            rates.copy,
            rates.floats,
            rates.pairs,
            rates.bytes,
            rates.blocks,
        ] {
            assert!(rate.is_finite() && rate > 0.0, "{rates:?}");
        }
        let mut memory = CeilingMemory::new(1000).unwrap();
        assert_eq!(memory.bytes(), 4 * CeilingMemory::PIECE);
        pool.run(u64::MAX, |parallel| memory.run_copy(parallel));
        assert!(memory.to.iter().all(|x| *x == 1));
    }
}
