//! What a pass is told: tokens, their places, and what each row attends to, in one piece of memory.

use beamgen_kernels::AttentionRow;
use beamgen_kernels::cuda::{AttentionPlan, Buffer, Device};

use super::Kv;
use super::memory::most_parts;
use crate::decoder::Chunk;
use crate::{EngineConfig, Error, ModelConfig};

/// Positions that one partial of attention covers.
pub(super) const SEGMENT: usize = beamgen_kernels::cuda::SEGMENT;

/// Lists of the current pass, on the host and on the device.
#[derive(Debug)]
pub(super) struct Lists {
    device: Device,
    words: Buffer,
    host: Vec<u32>,
    plan: AttentionPlan,
    most_parts: usize,
    pub(super) now: Places,
}

/// Where the lists of the current pass are (bytes), and how long.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Rows, those that fill up included.
    pub(super) rows: usize,
    /// Wanted rows; the same.
    pub(super) wanted: usize,
    /// All rows are wanted: nothing is gathered.
    pub(super) all: bool,
    tokens: usize,
    positions: usize,
    slots: usize,
    tables: usize,
    wanted_rows: usize,
    /// What all rows attend to, and what the wanted ones do.
    pub(super) every: Attending,
    pub(super) last: Attending,
}

/// Rows that attend, some at a time: as many as there is room for their partials.
#[derive(Debug, Default)]
pub(super) struct Attending {
    lens: usize,
    pub(super) waves: Vec<Wave>,
}

/// Rows `first..first + rows`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wave {
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Items that are launched; at most.
    pub(super) items: usize,
    items_at: usize,
    count_at: usize,
    members_at: usize,
    row_first_at: usize,
    row_parts_at: usize,
}

/// Sizes that a recorded pass has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    rows: usize,
    items: usize,
    members: usize,
    parts: usize,
    tables: usize,
}

/// What [`Lists::write`] made of a chunk.
pub(super) struct Rounded {
    /// A pass of this size is recorded once; `None` for those that are not.
    pub(super) key: Option<Key>,
    /// The lists are elsewhere from now on.
    pub(super) moved: bool,
}

/// A list of the current pass.
macro_rules! place {
    ($($name:ident),*) => {
        impl Lists {
            $(pub(super) fn $name(&self) -> Buffer {
                self.words.from(self.now.$name)
            })*
        }
    };
}
place!(tokens, positions, slots, tables, wanted_rows);

impl Lists {
    /// Words of the lists of a chunk whose sequences are short; longer ones take more.
    fn words(config: &EngineConfig) -> usize {
        64 * config.max_rows + 4096
    }

    pub(super) fn bytes_for(_: &ModelConfig, config: &EngineConfig) -> usize {
        4 * Self::words(config)
    }

    pub(super) fn new(device: &Device, c: &ModelConfig, config: &EngineConfig) -> Result<Self, Error> {
        Ok(Self {
            words: device.alloc(4 * Self::words(config))?,
            device: device.clone(),
            host: Vec::new(),
            plan: AttentionPlan::default(),
            most_parts: most_parts(c, config.max_rows),
            now: Places::default(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// Lists of a wave of those that attend.
    pub(super) fn lens(&self, attending: &Attending) -> Buffer {
        self.words.from(attending.lens)
    }

    pub(super) fn items(&self, wave: &Wave) -> Buffer {
        self.words.from(wave.items_at)
    }

    pub(super) fn item_count(&self, wave: &Wave) -> Buffer {
        self.words.from(wave.count_at)
    }

    pub(super) fn members(&self, wave: &Wave) -> Buffer {
        self.words.from(wave.members_at)
    }

    pub(super) fn row_first(&self, wave: &Wave) -> Buffer {
        self.words.from(wave.row_first_at)
    }

    pub(super) fn row_parts(&self, wave: &Wave) -> Buffer {
        self.words.from(wave.row_parts_at)
    }

    /// Makes the lists of a chunk and copies them to the device. `decoding` chunks, of which every row is wanted,
    /// are rounded up to a size that comes again.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk,
        tables: &[u32],
        c: &ModelConfig,
        shape: Kv,
        decoding: bool,
    ) -> Result<Rounded, Error> {
        let real = chunk.len();
        let rows = if decoding { rounded_rows(real) } else { real };
        let up = |n: usize| if decoding { n.next_power_of_two().max(16) } else { n };
        self.host.clear();
        let mut now = std::mem::take(&mut self.now);
        now.rows = rows;
        now.all = chunk.wanted.len() == real;
        now.wanted = if now.all { rows } else { chunk.wanted.len() };
        now.tokens = self.region(chunk.tokens.iter().copied(), rows, 0);
        now.positions = self.region(chunk.positions.iter().copied(), rows, 0);
        let slots = chunk.slots.iter().flat_map(|slot| [slot.page, slot.offset]);
        let scratch = std::iter::repeat_n([shape.scratch, 0], rows - real).flatten();
        now.slots = self.region(slots.chain(scratch), 2 * rows, 0);
        now.tables = self.region(tables.iter().copied(), up(tables.len()), 0);
        now.wanted_rows = self.region(chunk.wanted.iter().copied(), chunk.wanted.len(), 0);

        let group = c.num_attention_heads / c.num_key_value_heads;
        let mut key = Key { rows, items: 0, members: 0, parts: 0, tables: up(tables.len()) };
        self.attending(&mut now.every, &chunk.attends, rows, tables, shape, group, &up, &mut key);
        if now.all {
            now.last.waves.clear();
        } else {
            let wanted: Vec<AttentionRow> =
                chunk.wanted.iter().map(|row| chunk.attends[*row as usize]).collect();
            let rows = wanted.len();
            self.attending(&mut now.last, &wanted, rows, tables, shape, group, &up, &mut key);
        }
        let one_wave = now.every.waves.len() == 1;
        self.now = now;

        let moved = 4 * self.host.len() > self.words.bytes();
        if moved {
            self.words = self.device.alloc(4 * self.host.len().next_power_of_two())?;
        }
        self.words.write(0, &self.host)?;
        Ok(Rounded {
            key: (decoding && one_wave).then_some(key),
            moved,
        })
    }

    /// Appends a list that has room for `room` words, and `fill` where it has fewer. Returns its byte.
    fn region(&mut self, values: impl Iterator<Item = u32>, room: usize, fill: u32) -> usize {
        // Lists of pairs are read as such.
        self.host.resize(self.host.len().next_multiple_of(4), 0);
        let at = self.host.len();
        self.host.extend(values);
        debug_assert!(self.host.len() <= at + room);
        self.host.resize(at + room, fill);
        4 * at
    }

    /// Appends what `attends` look at, in waves. Rows from there up to `rows` look at nothing.
    #[allow(clippy::too_many_arguments)]
    fn attending(
        &mut self,
        to: &mut Attending,
        attends: &[AttentionRow],
        rows: usize,
        tables: &[u32],
        shape: Kv,
        group: usize,
        up: &dyn Fn(usize) -> usize,
        key: &mut Key,
    ) {
        to.lens = self.region(attends.iter().map(|row| row.len), rows, 0);
        to.waves.clear();
        let mut first = 0;
        while first < attends.len() {
            let mut parts = 0;
            let fits = attends[first..].iter().take_while(|row| {
                parts += (row.len as usize).div_ceil(SEGMENT);
                parts <= self.most_parts
            });
            let real = fits.count().max(1);
            let end = first + real;
            let mut plan = std::mem::take(&mut self.plan);
            plan.build(tables, &attends[first..end], first, shape.page_size, group);
            let count = plan.items().len() / 6;
            let items = up(count);
            let members = up(plan.members().len());
            let parts = up(plan.row_parts().len());
            let wave_rows = if end == attends.len() { rows - first } else { real };
            let words = |list: &[i32]| list.iter().map(|n| *n as u32).collect::<Vec<u32>>();
            let all = plan.row_parts().len() as u32;
            to.waves.push(Wave {
                first,
                rows: wave_rows,
                items,
                items_at: self.region(words(plan.items()).into_iter(), 6 * items, 0),
                count_at: self.region(std::iter::once(count as u32), 1, 0),
                members_at: self.region(plan.members().iter().copied(), members, 0),
                // Rows that fill up have no partials.
                row_first_at: self.region(words(plan.row_first()).into_iter(), wave_rows + 1, all),
                row_parts_at: self.region(words(plan.row_parts()).into_iter(), parts, 0),
            });
            (key.items, key.members, key.parts) = (items, members, parts);
            self.plan = plan;
            first = end;
        }
    }
}

/// So many rows are computed where `n` are there: few sizes, so that they come again.
fn rounded_rows(n: usize) -> usize {
    match n {
        0..=8 => n.next_power_of_two(),
        9..=64 => n.next_multiple_of(8),
        _ => n.next_multiple_of(32),
    }
}
