//! Builds the lists that a pass reads on the device: tokens, positions, and what each row attends
//! to.

use beamgen_kernels::AttentionRow;
use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    Device, Staging,
};

use super::Kv;
use crate::chunk::Chunk;
use crate::{EngineConfig, Error, ModelConfig};

/// The number of page numbers per attention item for which memory is planned.
const PAGES: usize = 16;

#[derive(Debug)]
pub(super) struct Lists {
    pub(super) staging: Staging,
    places: Places,
    /// The attention of all rows, once for each distinct window of the layers.
    every: Vec<Reaching>,
    /// The attention of the wanted rows in the last layer, which computes only the wanted rows.
    pub(super) last: Reaching,
    wanted: Vec<AttentionRow>,
    max_rows: usize,
    /// The number of partial results that recorded passes have room for. It never shrinks, because
    /// graphs keep addresses.
    recorded: usize,
    pub(super) now: Now,
}

/// The attention of some rows within one window: the plan and its lists on the device.
#[derive(Debug)]
pub(super) struct Reaching {
    reach: AttentionReach,
    plan: AttentionPlan,
    pub(super) lists: AttentionLists,
    /// The number of items to launch. Items beyond the planned ones do nothing.
    pub(super) items: usize,
}

/// The offsets of the lists in the staged memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) tokens: usize,
    pub(super) positions: usize,
    pub(super) slots: usize,
    pub(super) wanted: usize,
}

/// The size of the current pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// The rows of the pass, padding included.
    pub(super) rows: usize,
    /// The wanted rows; with padding if all rows are wanted.
    pub(super) wanted: usize,
    /// Whether all rows are wanted, so that none have to be gathered.
    pub(super) all: bool,
}

/// The padded size of a recorded pass. Each size has its own graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    rows: usize,
    items: usize,
}

/// The most partial results of attention in a pass. They must be enough for one row with the
/// longest context.
pub(crate) fn most_partials(c: &ModelConfig, rows: usize) -> usize {
    let longest = c.max_position_embeddings.div_ceil(AttentionPlan::SEGMENT);
    (16 * rows).max(longest)
}

pub(super) fn capacity(c: &ModelConfig, rows: usize) -> AttentionCapacity {
    AttentionCapacity {
        rows,
        partials: most_partials(c, rows),
    }
}

fn windows(c: &ModelConfig) -> Vec<Option<usize>> {
    let mut all: Vec<_> = (0..c.num_hidden_layers).map(|i| c.window(i)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The number of 32-bit words in the lists of a pass with `rows` rows.
fn words(c: &ModelConfig, rows: usize) -> usize {
    let most = most_partials(c, rows);
    let attending = AttentionRoom {
        rows,
        items: most,
        partials: most,
        pages: PAGES,
    };
    5 * rows + (windows(c).len() + 1) * attending.words()
}

impl Lists {
    pub(super) fn bytes_for(c: &ModelConfig, config: &EngineConfig) -> usize {
        4 * words(c, config.max_rows)
    }

    pub(super) fn new(
        device: &Device,
        c: &ModelConfig,
        config: &EngineConfig,
    ) -> Result<Self, Error> {
        let rows = config.max_rows;
        let reaching = |window| Reaching {
            reach: AttentionReach {
                page_size: config.page_size,
                window,
                group: c.num_attention_heads / c.num_key_value_heads,
            },
            plan: AttentionPlan::default(),
            lists: AttentionLists::new(capacity(c, rows)),
            items: 0,
        };
        Ok(Self {
            staging: Staging::new(device, words(c, rows))?,
            places: Places::default(),
            every: windows(c).into_iter().map(reaching).collect(),
            last: reaching(c.window(c.num_hidden_layers - 1)),
            wanted: Vec::with_capacity(rows),
            max_rows: rows,
            recorded: 0,
            now: Now::default(),
        })
    }

    /// Builds the lists of a chunk and copies them to the device in one transfer. If `decoding`,
    /// every row is wanted and the chunk is padded to one of a few sizes. Returns that size, and
    /// whether the lists have moved, so that recorded graphs have wrong addresses.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk,
        tables: &[u32],
        kv: Kv,
        decoding: bool,
    ) -> Result<(Option<Key>, bool), Error> {
        let real = chunk.len();
        // The buffers have `max_rows` rows, which limits the padding of a pass that is nearly full.
        let rounded = rounded_rows(real).min(self.max_rows);
        // Other passes rarely have the same size twice, so padding would only cost time.
        let rows = if decoding { rounded } else { real };
        let all = chunk.wanted.len() == real;
        self.now = Now {
            rows,
            wanted: if all { rows } else { chunk.wanted.len() },
            all,
        };

        let mut room = AttentionRoom {
            rows,
            ..AttentionRoom::default()
        };
        for reaching in &mut self.every {
            let needed = reaching.plan(tables, &chunk.attends);
            room.items = room.items.max(needed.items);
            room.partials = room.partials.max(needed.partials);
            room.pages = needed.pages;
        }
        let mut moved = false;
        if decoding {
            // A graph reads its lists at the recorded addresses. Lists that grow from pass to pass
            // therefore get spare room.
            room.items = room.items.next_power_of_two();
            moved = room.partials > self.recorded;
            if moved {
                self.recorded = room.partials.next_power_of_two();
            }
            room.partials = self.recorded;
        }

        let staging = &mut self.staging;
        staging.clear();
        let slots = chunk.slots.iter().map(|slot| [slot.page, slot.offset]);
        let scratch = std::iter::repeat_n([kv.scratch, 0], rows - real);
        self.places = Places {
            tokens: staging.push(chunk.tokens.iter().copied(), rows),
            positions: staging.push(chunk.positions.iter().copied(), rows),
            slots: staging.push(slots.chain(scratch).flatten(), 2 * rows),
            wanted: staging.push(chunk.wanted.iter().copied(), rows),
        };
        for reaching in &mut self.every {
            reaching.stage(staging, room);
        }
        if !all && !chunk.wanted.is_empty() {
            let wanted = chunk.wanted.iter().map(|row| chunk.attends[*row as usize]);
            self.wanted.clear();
            self.wanted.extend(wanted);
            let room = self.last.plan(tables, &self.wanted);
            self.last.stage(staging, room);
        }
        // A staging area that has grown is a new allocation with another address.
        moved |= staging.copy()?;
        let key = Key {
            rows,
            items: room.items,
        };
        Ok((decoding.then_some(key), moved))
    }

    /// The staged memory from the list `place` on.
    pub(super) fn at(&self, place: impl Fn(&Places) -> usize) -> Buffer {
        self.staging.memory().from(place(&self.places))
    }

    /// The attention of all rows in a layer with this window.
    pub(super) fn every(&self, window: Option<usize>) -> &Reaching {
        let found = self
            .every
            .iter()
            .find(|reaching| reaching.reach.window == window);
        found.expect("made for each window")
    }
}

impl Reaching {
    /// Plans the attention of `rows`. Returns the room that the plan needs.
    fn plan(&mut self, tables: &[u32], rows: &[AttentionRow]) -> AttentionRoom {
        self.plan.build(tables, rows, self.reach);
        AttentionRoom::of(&self.plan)
    }

    fn stage(&mut self, staging: &mut Staging, room: AttentionRoom) {
        self.items = room.items;
        self.lists.stage(staging, &self.plan, room);
    }
}

/// Rounds up a number of rows to one of few sizes, so that recorded passes are replayed often.
fn rounded_rows(n: usize) -> usize {
    match n {
        0..=8 => n.next_power_of_two(),
        9..=64 => n.next_multiple_of(8),
        _ => n.next_multiple_of(32),
    }
}
