mod plan;

use super::{Arg, Buffer, CudaError, Device, KvLayout, Launch, Number};
use crate::AttentionShape;
pub use plan::{AttentionPlan, AttentionReach};

/// Room for the lists of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionCapacity {
    /// Most rows.
    pub rows: usize,
    /// Most partial results: one for each row and segment that it sees.
    pub partials: usize,
    /// Most entries of tables.
    pub tables: usize,
}

impl AttentionCapacity {
    /// Bytes of the lists.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let items = 6 * self.partials + 1;
        4 * (self.tables + items + 2 * self.partials + 2 * self.rows + 1)
    }

    /// Bytes of the partial results.
    #[must_use]
    pub fn partial_bytes(&self, heads: usize, head_dim: usize) -> usize {
        4 * self.partials * heads * (head_dim + 2)
    }
}

/// A plan on a device, at places that stay the same when another is written: a graph that has launches
/// with it may be replayed for the next plan.
#[derive(Debug)]
pub struct AttentionLists {
    capacity: AttentionCapacity,
    tables: Buffer,
    items: Buffer,
    item_count: Buffer,
    members: Buffer,
    lens: Buffer,
    row_first: Buffer,
    row_parts: Buffer,
    /// Of the plan that was written last.
    reach: AttentionReach,
    count: usize,
    pages: usize,
    /// `row_first` with the rows that are not planned for, which have no partials.
    padded: Vec<i32>,
}

impl AttentionLists {
    /// Room for plans. There is none before the first [`write`](Self::write).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(device: &Device, capacity: AttentionCapacity) -> Result<Self, CudaError> {
        let list = |n: usize| device.alloc(4 * n);
        let mut lists = Self {
            capacity,
            tables: list(capacity.tables)?,
            items: list(6 * capacity.partials)?,
            item_count: list(1)?,
            members: list(capacity.partials)?,
            lens: list(capacity.rows)?,
            row_first: list(capacity.rows + 1)?,
            row_parts: list(capacity.partials)?,
            reach: AttentionReach::default(),
            count: 0,
            pages: 0,
            padded: vec![0; capacity.rows + 1],
        };
        lists.item_count.clear()?;
        lists.row_first.clear()?;
        Ok(lists)
    }

    /// Where they are.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.tables.device()
    }

    /// What there is room for.
    #[must_use]
    pub fn capacity(&self) -> AttentionCapacity {
        self.capacity
    }

    /// Replaces the plan. Its tables are those that it was built with.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn write(&mut self, plan: &AttentionPlan, tables: &[u32]) -> Result<(), CudaError> {
        let lists = plan.lists();
        let AttentionCapacity { rows, partials, .. } = self.capacity;
        assert!(plan.rows() <= rows && plan.partials() <= partials);
        self.padded.clear();
        self.padded.extend_from_slice(lists.row_first);
        self.padded.resize(rows + 1, plan.partials() as i32);
        self.tables.write(0, tables)?;
        self.items.write(0, lists.items)?;
        self.item_count.write(0, &[plan.items() as i32])?;
        self.members.write(0, lists.members)?;
        self.lens.write(0, lists.lens)?;
        self.row_first.write(0, &self.padded)?;
        self.row_parts.write(0, lists.row_parts)?;
        (self.reach, self.count, self.pages) = (plan.reach(), plan.items(), plan.pages());
        Ok(())
    }
}

/// Partial results of all items of the plan in `lists`. Blocks for `items` of them are launched, which may be
/// more than there are (for graphs). Rows of `q` begin with their queries, `shape.stride` floats apart;
/// keys and values that no row of an item sees are not used, whatever they are.
///
/// bfloat16 and float16 with heads of 64, 96 or 128 run on tensor cores: queries and weights are rounded to
/// the type of keys and values.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small, the plan is for another shape or more items, or pages, heads or the layer do not
/// exist.
#[expect(clippy::too_many_arguments, reason = "four buffers, two shapes")]
pub fn attention(
    parts: &mut Buffer,
    q: &Buffer,
    shape: &AttentionShape,
    kv: &Buffer,
    layout: &KvLayout,
    layer: usize,
    lists: &AttentionLists,
    items: usize,
) -> Result<(), CudaError> {
    let AttentionShape {
        heads,
        stride,
        scale,
        window,
    } = *shape;
    let KvLayout {
        number,
        page_size,
        layers,
        kv_heads,
        head_dim,
    } = *layout;
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

    let list = [
        &lists.tables,
        &lists.items,
        &lists.item_count,
        &lists.members,
        &lists.lens,
    ]
    .map(Arg::At);
    let [tables, item_list, count, members, lens] = list;
    let [q_stride, heads, kv_heads_arg] = [stride, heads, kv_heads].map(Arg::Int);
    let [page, layers, layer, window] =
        [page_size, layers, layer, window.unwrap_or(0)].map(Arg::Int);
    let (parts, q, kv, scale) = (Arg::At(parts), Arg::At(q), Arg::At(kv), Arg::Float(scale));
    let grid = [items, kv_heads, 1];
    let device = lists.tables.device();
    if let Some(kernel) = tensor_kernel(shape, layout) {
        let launch = Launch {
            grid,
            block: 128,
            shared: 0,
        };
        let args = [
            parts,
            q,
            q_stride,
            kv,
            tables,
            item_list,
            count,
            members,
            lens,
            heads,
            kv_heads_arg,
            page,
            layers,
            layer,
            window,
            scale,
        ];
        // SAFETY: the lists are those of a plan, which names rows, pages and partials that are there,
        // checked when it was written and above.
        return unsafe { device.launch(kernel, launch, &args) };
    }
    let launch = Launch {
        grid,
        block: 128,
        shared: 4 * 2 * 4 * head_dim,
    };
    let kernel = number.pick([
        "attention_any_f32",
        "attention_any_bf16",
        "attention_any_f16",
    ]);
    let args = [
        parts,
        q,
        q_stride,
        kv,
        tables,
        item_list,
        count,
        members,
        lens,
        heads,
        kv_heads_arg,
        Arg::Int(head_dim),
        page,
        layers,
        layer,
        window,
        scale,
    ];
    // SAFETY: as above.
    unsafe { device.launch(kernel, launch, &args) }
}

/// The kernel on tensor cores, where there is one.
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

/// Sums up the partial results of `rows` rows: `[rows, heads * head_dim]` in `number`, without gaps. Rows
/// that the plan does not have become 0.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small.
pub fn attention_merge(
    out: &mut Buffer,
    number: Number,
    parts: &Buffer,
    lists: &AttentionLists,
    rows: usize,
    heads: usize,
    head_dim: usize,
) -> Result<(), CudaError> {
    assert!(rows <= lists.capacity.rows);
    out.assert_holds(rows * heads * head_dim, number.bytes());
    parts.assert_holds(lists.capacity.partial_bytes(heads, head_dim), 1);
    let block = head_dim.next_multiple_of(32).min(128);
    let launch = Launch {
        grid: [rows, heads, 1],
        block,
        shared: 0,
    };
    let kernel = number.pick([
        "attention_merge_f32",
        "attention_merge_bf16",
        "attention_merge_f16",
    ]);
    let args = [
        Arg::At(out),
        Arg::At(parts),
        Arg::At(&lists.row_first),
        Arg::At(&lists.row_parts),
        Arg::Int(heads),
        Arg::Int(head_dim),
    ];
    // SAFETY: rows, and partials of a plan, are there, checked.
    unsafe { out.device().launch(kernel, launch, &args) }
}
