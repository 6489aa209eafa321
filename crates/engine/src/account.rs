//! An account of forward passes on the processor: the time, bytes and arithmetic of each operation.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use beamgen_kernels::{
    AttentionRow, AttentionShape, KvFormat, KvPages, MachineRates, PackedLinear, WeightFormat,
};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// An operation of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    /// Looks up the embeddings of tokens.
    Embed,
    /// All norms: before attention, before the feed-forward block, before the head, and of heads.
    Norm,
    /// The projection to queries, keys and values.
    Qkv,
    /// The rotation of queries and keys.
    Rope,
    /// Stores keys and values in their pages.
    Store,
    /// Attention over the pages.
    Attention,
    /// The projection of attention's output.
    AttentionOut,
    /// The projection to gate and up.
    GateUp,
    /// `silu(gate) * up`.
    Silu,
    /// The projection down.
    Down,
    /// The logits.
    Head,
}

impl Operation {
    /// Returns the operation's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The work of one operation, or of several: bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes read or written once: weights, keys and values, or activations between operations
    /// without weights.
    pub bytes: f64,
    /// Operations in float32; a multiply-add is two.
    pub floats: f64,
    /// Operations of dot products of bfloat16.
    pub pairs: f64,
    /// Operations on bytes in blocks with scales.
    pub blocks: f64,
}

impl Work {
    /// Returns the seconds that a machine needs at least: for the bytes at the rate at which it
    /// reads memory, or for the operations at its ceilings, whichever is longer (the roofline model
    /// of Williams, Waterman and Patterson, 2009). Less is possible if the caches hold the bytes.
    #[must_use]
    pub fn least_seconds(&self, rates: &MachineRates) -> f64 {
        let arithmetic =
            self.floats / rates.floats + self.pairs / rates.pairs + self.blocks / rates.blocks;
        arithmetic.max(self.bytes / rates.read) / 1e9
    }

    /// Returns an equal share of the work among `count` parts.
    #[must_use]
    pub fn over(self, count: f64) -> Self {
        Self {
            bytes: self.bytes / count,
            floats: self.floats / count,
            pairs: self.pairs / count,
            blocks: self.blocks / count,
        }
    }

    /// Returns the operations of all kinds.
    #[must_use]
    pub fn operations(&self) -> f64 {
        self.floats + self.pairs + self.blocks
    }

    fn of_activations(values: usize) -> Self {
        Self {
            bytes: (4 * values) as f64,
            ..Self::default()
        }
    }

    /// Values are read as float32 and written in the format of the cache.
    pub(crate) fn of_store(values: usize, format: KvFormat) -> Self {
        Self {
            bytes: (values * (4 + format.number_bytes())) as f64,
            ..Self::default()
        }
    }

    pub(crate) fn of_matrix(matrix: &PackedLinear, rows: usize) -> Self {
        let operations = (2 * rows * matrix.inputs() * matrix.outputs()) as f64;
        let mut work = Self {
            bytes: matrix.bytes() as f64,
            ..Self::default()
        };
        match matrix.format() {
            WeightFormat::F32 | WeightFormat::Bf16 | WeightFormat::F16 => work.floats = operations,
            WeightFormat::Bf16Pairs | WeightFormat::Bf16Tiles => work.pairs = operations,
            _ => work.blocks = operations,
        }
        work
    }

    /// The keys and values of a page count once, however many rows attend to them.
    pub(crate) fn of_attention(
        pages: &KvPages,
        shape: AttentionShape,
        tables: &[u32],
        rows: &[AttentionRow],
    ) -> Self {
        let kv = pages.shape();
        let mut read: HashMap<u32, usize> = HashMap::new();
        let mut positions = 0;
        for row in rows {
            let len = row.len as usize;
            let first = shape.window.map_or(0, |window| len.saturating_sub(window));
            positions += len - first;
            for page in first / kv.page_size..len.div_ceil(kv.page_size) {
                let used = kv.page_size.min(len - page * kv.page_size);
                let most = read.entry(tables[row.table as usize + page]).or_default();
                *most = used.max(*most);
            }
        }
        let per_position = pages.page_bytes() / (kv.layers * kv.page_size);
        Self {
            bytes: (read.values().sum::<usize>() * per_position) as f64,
            // A multiply-add for the score and one for the value.
            floats: (4 * positions * shape.heads * kv.head_dim) as f64,
            ..Self::default()
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.floats += other.floats;
        self.pairs += other.pairs;
        self.blocks += other.blocks;
    }
}

/// The calls of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// The number of calls.
    pub calls: u64,
    /// The time of all calls.
    pub time: Duration,
    /// The work of all calls.
    pub work: Work,
}

/// The calls of every operation since the account was opened.
#[derive(Clone, Debug, Default)]
pub struct Account([Entry; Operation::COUNT]);

impl Account {
    /// Adds the calls of another account.
    pub fn extend(&mut self, other: &Self) {
        for (entry, other) in self.0.iter_mut().zip(&other.0) {
            entry.calls += other.calls;
            entry.time += other.time;
            entry.work += other.work;
        }
    }

    /// Returns the operations that have been called, with their entries.
    pub fn entries(&self) -> impl Iterator<Item = (Operation, &Entry)> {
        let all = Operation::VARIANTS.iter().copied().zip(&self.0);
        all.filter(|(_, entry)| entry.calls > 0)
    }
}

/// Measures operations if an account is open.
#[derive(Debug, Default)]
pub(crate) struct Clock(Option<Box<Account>>);

impl Clock {
    pub(crate) fn open(&mut self) {
        self.0 = Some(Box::default());
    }

    pub(crate) fn close(&mut self) -> Account {
        self.0
            .take()
            .map_or_else(Account::default, |account| *account)
    }

    /// Runs an operation. `work` is called only if an account is open, after the time was taken.
    pub(crate) fn measure(
        &mut self,
        operation: Operation,
        work: impl FnOnce() -> Work,
        run: impl FnOnce(),
    ) {
        let Some(account) = &mut self.0 else {
            run();
            return;
        };
        let start = Instant::now();
        run();
        let entry = &mut account.0[operation as usize];
        entry.time += start.elapsed();
        entry.calls += 1;
        entry.work += work();
    }

    /// Runs an operation without weights, which reads and writes `values` float32 in total.
    pub(crate) fn activations(&mut self, operation: Operation, values: usize, run: impl FnOnce()) {
        self.measure(operation, || Work::of_activations(values), run);
    }
}

#[cfg(test)]
mod tests {
    use beamgen_kernels::KvShape;

    use super::*;

    #[test]
    fn the_slower_of_memory_and_arithmetic_is_the_least_time() {
        let rates = MachineRates {
            read: 10.0,
            copy: 1.0,
            floats: 100.0,
            pairs: 200.0,
            bytes: 1.0,
            blocks: 400.0,
        };
        let mut work = Work {
            bytes: 20e9,
            floats: 100e9,
            pairs: 50e9,
            blocks: 100e9,
        };
        // One second of float32, a quarter of pairs and a quarter of blocks, and two of memory.
        assert_eq!(work.least_seconds(&rates), 2.0);
        work.bytes = 1e9;
        assert_eq!(work.least_seconds(&rates), 1.5);
    }

    #[test]
    fn attention_reads_a_shared_page_once() {
        let shape = KvShape {
            layers: 3,
            kv_heads: 2,
            head_dim: 8,
            page_size: 4,
        };
        let mut pages = KvPages::stored_as(shape, KvFormat::F32);
        pages.grow_to(9);
        let all = AttentionShape {
            heads: 6,
            stride: 80,
            scale: 1.0,
            window: None,
        };
        // Two sequences share page 5; the last pages hold 2 and 3 positions.
        let tables = [5, 1, 5, 8];
        let rows = [(0, 6), (2, 7)].map(|(table, len)| AttentionRow { table, len });
        let work = Work::of_attention(&pages, all, &tables, &rows);
        // Keys and values of two heads in float32.
        let position = (2 * 2 * 8 * 4) as f64;
        assert_eq!(work.bytes, f64::from(4 + 2 + 3) * position);
        assert_eq!(work.floats, f64::from(4 * (6 + 7) * 6 * 8));
        // A window of two positions leaves out page 5.
        let window = AttentionShape {
            window: Some(2),
            ..all
        };
        let work = Work::of_attention(&pages, window, &tables, &rows);
        assert_eq!(work.bytes, f64::from(2 + 3) * position);
        assert_eq!(work.floats, f64::from(4 * (2 + 2) * 6 * 8));
    }
}
