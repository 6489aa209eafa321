//! What a pass is told: tokens, their places, and what each row attends to.

use beamgen_kernels::AttentionRow;
use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, Buffer, Device,
};

use super::Kv;
use crate::decoder::Chunk;
use crate::{EngineConfig, Error, ModelConfig};

/// Tables that there is room for at first, in pages for each row.
const PAGES: usize = 64;

/// Lists of the current pass.
#[derive(Debug)]
pub(super) struct Lists {
    /// Tokens, positions, places (page and offset), wanted rows: each for `rows` rows.
    words: Buffer,
    host: Vec<u32>,
    plan: AttentionPlan,
    /// For each window that a layer has, what all rows attend to.
    every: Vec<Reaching>,
    /// What the wanted rows attend to in the last layer.
    last: Reaching,
    wanted: Vec<AttentionRow>,
    max_rows: usize,
    pub(super) now: Now,
}

/// Rows that attend within a window.
#[derive(Debug)]
pub(super) struct Reaching {
    reach: AttentionReach,
    pub(super) lists: AttentionLists,
    /// Items to launch, at least as many as there are.
    pub(super) items: usize,
}

/// The size of the current pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// Rows, those that fill up included.
    pub(super) rows: usize,
    /// Wanted rows; the same.
    pub(super) wanted: usize,
    /// All rows are wanted: nothing is gathered.
    pub(super) all: bool,
}

/// What a pass that is recorded is rounded up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    rows: usize,
    items: usize,
}

/// Most partial results of attention in a pass; a row of the longest context has to fit.
pub(super) fn most_partials(c: &ModelConfig, rows: usize) -> usize {
    let longest = c.max_position_embeddings.div_ceil(AttentionPlan::SEGMENT);
    (16 * rows).max(longest)
}

pub(super) fn capacity(c: &ModelConfig, rows: usize, tables: usize) -> AttentionCapacity {
    AttentionCapacity {
        rows,
        partials: most_partials(c, rows),
        tables,
    }
}

/// The windows that layers have, each once.
fn windows(c: &ModelConfig) -> Vec<Option<usize>> {
    let mut all: Vec<_> = (0..c.num_hidden_layers).map(|i| c.window(i)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Lists {
    pub(super) fn bytes_for(c: &ModelConfig, config: &EngineConfig) -> usize {
        let rows = config.max_rows;
        let attending = capacity(c, rows, PAGES * rows).bytes();
        20 * rows + (windows(c).len() + 1) * attending
    }

    pub(super) fn new(
        device: &Device,
        c: &ModelConfig,
        config: &EngineConfig,
    ) -> Result<Self, Error> {
        let rows = config.max_rows;
        let reaching = |window| -> Result<Reaching, Error> {
            Ok(Reaching {
                reach: AttentionReach {
                    page_size: config.page_size,
                    window,
                    group: c.num_attention_heads / c.num_key_value_heads,
                },
                lists: AttentionLists::new(device, capacity(c, rows, PAGES * rows))?,
                items: 0,
            })
        };
        let every = windows(c).into_iter().map(reaching);
        Ok(Self {
            words: device.alloc(20 * rows)?,
            host: Vec::with_capacity(5 * rows),
            plan: AttentionPlan::default(),
            every: every.collect::<Result<_, _>>()?,
            last: reaching(c.window(c.num_hidden_layers - 1))?,
            wanted: Vec::with_capacity(rows),
            max_rows: rows,
            now: Now::default(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let attending = self.every.iter().chain([&self.last]);
        let attending = attending.map(|reaching| reaching.lists.capacity().bytes());
        self.words.bytes() + attending.sum::<usize>()
    }

    /// Makes the lists of a chunk and copies them to the device. `decoding` chunks, of which every row is wanted,
    /// are rounded up to a size that comes again. Returns the size, and whether lists have moved.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk,
        tables: &[u32],
        kv: Kv,
        decoding: bool,
    ) -> Result<(Option<Key>, bool), Error> {
        let real = chunk.len();
        // As far as there is room.
        let rounded = rounded_rows(real).min(self.max_rows);
        let rows = if decoding { rounded } else { real };
        let all = chunk.wanted.len() == real;
        self.now = Now {
            rows,
            wanted: if all { rows } else { chunk.wanted.len() },
            all,
        };
        self.host.clear();
        self.host.extend_from_slice(&chunk.tokens);
        self.host.resize(rows, 0);
        self.host.extend_from_slice(&chunk.positions);
        self.host.resize(2 * rows, 0);
        let slots = chunk.slots.iter().map(|slot| [slot.page, slot.offset]);
        let scratch = std::iter::repeat_n([kv.scratch, 0], rows - real);
        self.host.extend(slots.chain(scratch).flatten());
        self.host.extend_from_slice(&chunk.wanted);
        self.words.write(0, &self.host)?;

        let (mut moved, mut items) = (false, 0);
        for reaching in &mut self.every {
            moved |= reaching.write(&mut self.plan, tables, &chunk.attends)?;
            items = reaching.items.max(items);
        }
        if !all && !chunk.wanted.is_empty() {
            let wanted = chunk.wanted.iter().map(|row| chunk.attends[*row as usize]);
            self.wanted.clear();
            self.wanted.extend(wanted);
            moved |= self.last.write(&mut self.plan, tables, &self.wanted)?;
        }
        if !decoding {
            return Ok((None, moved));
        }
        let items = items.next_power_of_two();
        for reaching in &mut self.every {
            reaching.items = items;
        }
        Ok((Some(Key { rows, items }), moved))
    }

    pub(super) fn tokens(&self) -> Buffer {
        self.words.from(0)
    }

    pub(super) fn positions(&self) -> Buffer {
        self.words.from(4 * self.now.rows)
    }

    pub(super) fn slots(&self) -> Buffer {
        self.words.from(8 * self.now.rows)
    }

    pub(super) fn wanted_rows(&self) -> Buffer {
        self.words.from(16 * self.now.rows)
    }

    /// What all rows attend to in a layer with this window.
    pub(super) fn every(&self, window: Option<usize>) -> &Reaching {
        let found = self
            .every
            .iter()
            .find(|reaching| reaching.reach.window == window);
        found.expect("made for each window")
    }

    /// What the wanted rows attend to in the last layer.
    pub(super) fn last(&self) -> &Reaching {
        &self.last
    }
}

impl Reaching {
    /// Replaces the plan; returns whether the lists have moved.
    fn write(
        &mut self,
        plan: &mut AttentionPlan,
        tables: &[u32],
        rows: &[AttentionRow],
    ) -> Result<bool, Error> {
        plan.build(tables, rows, self.reach);
        let capacity = self.lists.capacity();
        let moves = tables.len() > capacity.tables;
        if moves {
            let capacity = AttentionCapacity {
                tables: tables.len().next_power_of_two(),
                ..capacity
            };
            self.lists = AttentionLists::new(self.lists.device(), capacity)?;
        }
        self.lists.write(plan, tables)?;
        self.items = plan.items();
        Ok(moves)
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
