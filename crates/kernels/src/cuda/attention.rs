mod plan;

use super::{Arg, Buffer, CudaError, KvLayout, Launch, Number, Staging};
use crate::AttentionShape;
pub use plan::{AttentionPlan, AttentionReach};

/// The limits of all plans that are staged in the same lists. A launch touches no memory beyond
/// these limits, even in a graph that is replayed for another plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionCapacity {
    /// The most rows of a plan, padding included.
    pub rows: usize,
    /// The most partial results of a plan: one for each row and segment that the row attends to.
    pub partials: usize,
}

impl AttentionCapacity {
    /// The bytes of the partial results. For each head, a result has `head_dim` sums, a maximum and
    /// a sum of weights.
    #[must_use]
    pub fn partial_bytes(&self, heads: usize, head_dim: usize) -> usize {
        4 * self.partials * heads * (head_dim + 2)
    }
}

/// The room for a plan's lists. If plans are staged with the same room, after the same other lists,
/// their lists have the same addresses. A graph of launches with such lists can be replayed for the
/// next plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionRoom {
    /// The rows of the output. Rows beyond the plan's have no partial results.
    pub rows: usize,
    /// The most items of a plan. Each item is a block of a launch.
    pub items: usize,
    /// The most partial results of a plan, which the plan's segments determine.
    pub partials: usize,
    /// The most pages of an item: those that one segment of positions may touch.
    pub pages: usize,
}

impl AttentionRoom {
    /// The least room that `plan` fits in.
    #[must_use]
    pub fn of(plan: &AttentionPlan) -> Self {
        Self {
            rows: plan.rows(),
            items: plan.items(),
            partials: plan.partials(),
            pages: plan.most_pages(),
        }
    }

    /// The number of 32-bit words that the lists take in a [`Staging`].
    #[must_use]
    pub fn words(&self) -> usize {
        2 * (self.rows + 1) + (6 + self.pages) * self.items + 2 * self.partials
    }
}

/// The lists of the plan that was staged last, in the memory of a [`Staging`].
#[derive(Debug)]
pub struct AttentionLists {
    capacity: AttentionCapacity,
    places: Places,
    /// The reach of the staged plan. The next fields are its sizes.
    reach: AttentionReach,
    count: usize,
    rows: usize,
    pages: usize,
    turn: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Places {
    tables: usize,
    item_count: usize,
    row_first: usize,
    lens: usize,
    members: usize,
    row_parts: usize,
    items: usize,
}

impl AttentionLists {
    /// Creates lists for plans within `capacity`. They are empty before the first
    /// [`stage`](Self::stage).
    #[must_use]
    pub fn new(capacity: AttentionCapacity) -> Self {
        Self {
            capacity,
            places: Places::default(),
            reach: AttentionReach::default(),
            count: 0,
            rows: 0,
            pages: 0,
            turn: 0,
        }
    }

    /// Stages the lists of a plan, which replace those of the previous plan.
    ///
    /// # Panics
    /// If the plan exceeds the room, or the room exceeds the capacity.
    pub fn stage(&mut self, staging: &mut Staging, plan: &AttentionPlan, room: AttentionRoom) {
        let AttentionCapacity { rows, partials } = self.capacity;
        assert!(room.rows <= rows && plan.partials() <= partials);
        let all = plan.partials() as u32;
        // A row that the plan does not have begins and ends after all partial results.
        let row_first = plan.row_first.iter().copied();
        let rest = room
            .rows
            .checked_sub(plan.rows())
            .expect("room for the rows");
        let row_first = row_first.chain(std::iter::repeat_n(all, rest));
        self.places = Places {
            tables: staging.push(plan.tables.iter().copied(), room.pages * room.items),
            item_count: staging.push([plan.items() as u32], 1),
            row_first: staging.push(row_first, room.rows + 1),
            lens: staging.push(plan.lens.iter().copied(), room.rows),
            members: staging.push(plan.members.iter().copied(), room.partials),
            row_parts: staging.push(plan.row_parts.iter().copied(), room.partials),
            items: staging.push(plan.items.as_flattened().iter().copied(), 6 * room.items),
        };
        (self.reach, self.count) = (plan.reach, plan.items());
        (self.rows, self.pages) = (room.rows, plan.pages);
        self.turn = staging.turn();
    }

    /// Returns the memory with the lists. Panics if they were not copied to the device.
    #[track_caller]
    fn staged<'a>(&self, staging: &'a Staging) -> &'a Buffer {
        assert!(staging.has_copied(self.turn), "the lists were not copied");
        staging.memory()
    }
}

/// Computes the partial results of all items of the plan in `lists`, which was staged and copied
/// with `staging`. Blocks for `items` items are launched; for graphs these may be more than the
/// plan has. Rows of `q` are `shape.stride` floats apart and begin with their queries. Keys and
/// values that no row of an item sees are not used; they may be NaN.
///
/// bfloat16 and float16 with heads of 64, 96 or 128 run on tensor cores: queries and weights are
/// rounded to the type of keys and values.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small, the lists were not copied, the plan is for another shape or more
/// items, or pages, heads or the layer do not exist.
#[expect(clippy::too_many_arguments, reason = "five buffers, two shapes")]
pub fn attention(
    parts: &mut Buffer,
    q: &Buffer,
    shape: &AttentionShape,
    kv: &Buffer,
    layout: &KvLayout,
    layer: usize,
    staging: &Staging,
    lists: &AttentionLists,
    items: usize,
) -> Result<(), CudaError> {
    let (heads, stride, window) = (shape.heads, shape.stride, shape.window);
    let (layers, kv_heads, head_dim) = (layout.layers, layout.kv_heads, layout.head_dim);
    let page_size = layout.page_size;
    assert!(kv_heads > 0 && heads > 0 && heads.is_multiple_of(kv_heads));
    assert!(head_dim > 0 && heads * head_dim <= stride && layer < layers);
    if lists.count > 0 {
        let reach = AttentionReach {
            page_size,
            window,
            group: heads / kv_heads,
        };
        assert_eq!(lists.reach, reach, "the plan is for another shape");
    }
    assert!(
        lists.count <= items,
        "{} items, {items} launched",
        lists.count
    );
    assert!(
        lists.pages <= layout.pages(kv),
        "page {} of {}",
        lists.pages,
        layout.pages(kv)
    );
    q.assert_holds(lists.capacity.rows * stride, 4);
    parts.assert_holds(lists.capacity.partial_bytes(heads, head_dim), 1);

    let (at, staged) = (lists.places, lists.staged(staging));
    let list = [at.tables, at.items, at.item_count, at.members, at.lens];
    let [tables, item_list, count, members, lens] = list.map(|at| Arg::Byte(staged, at));
    let [q_stride, heads, kv_count] = [stride, heads, kv_heads].map(Arg::Int);
    let [page, layers, layer, window] =
        [page_size, layers, layer, window.unwrap_or(0)].map(Arg::Int);
    let device = kv.device();
    let (parts, q, kv) = (Arg::At(parts), Arg::At(q), Arg::At(kv));
    let scale = Arg::Float(shape.scale);
    let on_tensor_cores = tensor_kernel(shape, layout);
    let any = [
        "attention_any_f32",
        "attention_any_bf16",
        "attention_any_f16",
    ];
    let kernel = on_tensor_cores.unwrap_or(layout.number.pick(any));
    let (shared, head_size) = match on_tensor_cores {
        Some(_) => (0, Arg::Absent),
        None => (4 * 2 * 4 * head_dim, Arg::Int(head_dim)),
    };
    let launch = Launch {
        shared,
        ..Launch::new([items, kv_heads, 1], 128)
    };
    let args = [
        parts, q, q_stride, kv, tables, item_list, count, members, lens, heads, kv_count,
        head_size, page, layers, layer, window, scale,
    ];
    // SAFETY: the buffers hold the plan's rows, pages and partials, checked when it was staged and
    // above; the dynamic shared memory holds a query and its sums for each of four warps.
    unsafe { device.launch(kernel, launch, &args) }
}

/// The kernel on tensor cores for this shape; `None` if there is none.
fn tensor_kernel(shape: &AttentionShape, layout: &KvLayout) -> Option<&'static str> {
    let fits = layout.page_size.is_multiple_of(16)
        && shape.heads / layout.kv_heads <= 64
        && shape.stride.is_multiple_of(4);
    let names = match layout.head_dim {
        64 => ["attention_64_bf16", "attention_64_f16"],
        96 => ["attention_96_bf16", "attention_96_f16"],
        128 => ["attention_128_bf16", "attention_128_f16"],
        _ => return None,
    };
    match layout.number {
        Number::F32 => None,
        Number::Bf16 => fits.then_some(names[0]),
        Number::F16 => fits.then_some(names[1]),
    }
}

/// Merges the partial results of `rows` rows to `[rows, heads * head_dim]` in `number`, without
/// gaps. Rows beyond the plan's become 0.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
///
/// # Panics
/// If a buffer is too small, there are more rows than there was room for, or the lists were not
/// copied.
pub fn attention_merge(
    out: &mut Buffer,
    number: Number,
    parts: &Buffer,
    staging: &Staging,
    lists: &AttentionLists,
    rows: usize,
    (heads, head_dim): (usize, usize),
) -> Result<(), CudaError> {
    assert!(rows <= lists.rows);
    out.assert_holds(rows * heads * head_dim, number.bytes());
    parts.assert_holds(lists.capacity.partial_bytes(heads, head_dim), 1);
    let block = head_dim.next_multiple_of(32).min(128);
    let launch = Launch::new([rows, heads, 1], block);
    let kernel = number.pick([
        "attention_merge_f32",
        "attention_merge_bf16",
        "attention_merge_f16",
    ]);
    let staged = lists.staged(staging);
    let [first, counts] =
        [lists.places.row_first, lists.places.row_parts].map(|at| Arg::Byte(staged, at));
    let [heads, head_dim] = [heads, head_dim].map(Arg::Int);
    let args = [Arg::At(out), Arg::At(parts), first, counts, heads, head_dim];
    // SAFETY: the buffers hold the rows, and the partials of a plan, checked.
    unsafe { out.device().launch(kernel, launch, &args) }
}
