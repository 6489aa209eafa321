//! The lists that a pass reads on the device: tokens, positions, and what each row attends to.

use beamgen_kernels::AttentionRow;
use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    Device, Staging,
};

use super::Kv;
use crate::chunk::Chunk;
use crate::{EngineConfig, Error, ModelConfig};

/// Pages of an attention item for which there is memory at first.
const PAGES: usize = 16;

/// The lists of the current pass.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) staging: Staging,
    places: Places,
    /// The positions that all rows attend to, once for each window that a layer has.
    every: Vec<Reaching>,
    /// The positions that the wanted rows attend to in the last layer, which computes only these.
    pub(super) last: Reaching,
    wanted: Vec<AttentionRow>,
    max_rows: usize,
    /// Room for partial results in recorded passes; never shrinks, as graphs keep addresses.
    recorded: usize,
    pub(super) now: Now,
}

/// The positions that rows attend to within one window.
#[derive(Debug)]
pub(super) struct Reaching {
    reach: AttentionReach,
    plan: AttentionPlan,
    pub(super) lists: AttentionLists,
    /// The number of items to launch; the items after the planned ones do nothing.
    pub(super) items: usize,
}

/// Offsets of the lists within the staged memory, in bytes.
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
    /// Rows of the pass, padding included.
    pub(super) rows: usize,
    /// Wanted rows, padding included if all rows are wanted.
    pub(super) wanted: usize,
    /// Whether all rows are wanted, so that none need to be gathered.
    pub(super) all: bool,
}

/// The padded size of a recorded pass; each size has its own graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    rows: usize,
    items: usize,
}

/// The most partial results of attention in a pass; a row of the longest context has to fit.
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

/// The distinct windows of the layers.
fn windows(c: &ModelConfig) -> Vec<Option<usize>> {
    let mut all: Vec<_> = (0..c.num_hidden_layers).map(|i| c.window(i)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The number of 4-byte words in the lists of a pass of `rows` rows.
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

    /// Makes the lists of a chunk and copies them to the device in one transfer. A chunk with
    /// `decoding`, of which every row is wanted, is padded to one of a few sizes. Returns that
    /// size, and whether the lists have moved since the last pass of the size.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk,
        tables: &[u32],
        kv: Kv,
        decoding: bool,
    ) -> Result<(Option<Key>, bool), Error> {
        let real = chunk.len();
        // The buffers have `max_rows` rows: a pass that is nearly full is padded less.
        let rounded = rounded_rows(real).min(self.max_rows);
        // Other passes rarely repeat a size, so padding them would only cost time.
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
            // A graph reads its lists at the addresses of the recording, so lists that grow from
            // pass to pass get more room than they need.
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
        // A larger staging area is another allocation, at another address.
        moved |= staging.copy()?;
        let key = Key {
            rows,
            items: room.items,
        };
        Ok((decoding.then_some(key), moved))
    }

    /// A view of one of the lists in [`Places`].
    pub(super) fn at(&self, place: impl Fn(&Places) -> usize) -> Buffer {
        self.staging.memory().from(place(&self.places))
    }

    /// The positions that all rows attend to in a layer with this window.
    pub(super) fn every(&self, window: Option<usize>) -> &Reaching {
        let found = self
            .every
            .iter()
            .find(|reaching| reaching.reach.window == window);
        found.expect("made for each window")
    }
}

impl Reaching {
    /// Plans the attention of `rows`; returns the room that the plan needs.
    fn plan(&mut self, tables: &[u32], rows: &[AttentionRow]) -> AttentionRoom {
        self.plan.build(tables, rows, self.reach);
        AttentionRoom::of(&self.plan)
    }

    fn stage(&mut self, staging: &mut Staging, room: AttentionRoom) {
        self.items = room.items;
        self.lists.stage(staging, &self.plan, room);
    }
}

/// Rounds a number of rows up to one of few sizes, so that recorded passes are replayed often.
fn rounded_rows(n: usize) -> usize {
    match n {
        0..=8 => n.next_power_of_two(),
        9..=64 => n.next_multiple_of(8),
        _ => n.next_multiple_of(32),
    }
}
