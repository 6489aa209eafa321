use beamgen_kernels::cuda::{
    AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Device,
    KvLayout, Number, Staging, attention, attention_merge,
};
use beamgen_kernels::{AttentionRow, AttentionShape, attention_reference};

use crate::helpers::{
    NUMBERS, assert_close, assert_same_bits, device, download, noise, rounded, rounding, upload,
};

const LAYERS: usize = 3;
const LAYER: usize = 1;
/// The number of floats after a row's queries, which the kernels must skip.
const BEYOND: usize = 4;

/// Rows with their pages.
struct Tree {
    tables: Vec<u32>,
    rows: Vec<AttentionRow>,
    pages: usize,
}

impl Tree {
    /// Creates branches of one prefix that branch again, the tokens of a prompt, and rows that
    /// share nothing.
    fn new(page_size: usize) -> Self {
        let mut tree = Self {
            tables: Vec::new(),
            rows: Vec::new(),
            pages: 0,
        };
        let prefix = tree.fresh(300 / page_size);
        for branch in 0..4 {
            let mut own = prefix.clone();
            own.extend(tree.fresh(64 / page_size + 2));
            for twig in 0..3 {
                let mut pages = own.clone();
                pages.extend(tree.fresh(40 / page_size + 1));
                let len = pages.len() * page_size - (5 * branch + twig) % page_size;
                tree.push(&pages, len..=len);
            }
        }
        let prompt = tree.fresh(300usize.div_ceil(page_size));
        tree.push(&prompt, 240..=270);
        let alone = tree.fresh(600usize.div_ceil(page_size));
        tree.push(&alone, 600..=600);
        let one = tree.fresh(1);
        tree.push(&one, 1..=2);
        tree
    }

    fn fresh(&mut self, pages: usize) -> Vec<u32> {
        let first = self.pages;
        self.pages += pages;
        // Pages are in reverse order, because a sequence's pages may be anywhere in memory.
        (first..self.pages).rev().map(|page| page as u32).collect()
    }

    fn push(&mut self, pages: &[u32], lens: std::ops::RangeInclusive<usize>) {
        let table = self.tables.len() as u32;
        self.tables.extend_from_slice(pages);
        self.rows.extend(lens.map(|len| AttentionRow {
            table,
            len: len as u32,
        }));
    }
}

/// Keys, values and queries for the rows of a tree.
struct Case<'a> {
    device: &'a Device,
    tree: Tree,
    layout: KvLayout,
    shape: AttentionShape,
    /// Keys and values; NaN at positions that no row has, and in the other layers.
    kv: Vec<f32>,
    q: Vec<f32>,
}

impl<'a> Case<'a> {
    fn new(
        device: &'a Device,
        number: Number,
        page_size: usize,
        (heads, kv_heads): (usize, usize),
        head_dim: usize,
        window: Option<usize>,
    ) -> Self {
        let tree = Tree::new(page_size);
        let layout = KvLayout {
            number,
            page_size,
            layers: LAYERS,
            kv_heads,
            head_dim,
        };
        let stride = (heads * head_dim).next_multiple_of(4) + BEYOND;
        let scale = 2.0 / (head_dim as f32).sqrt();
        let shape = AttentionShape {
            heads,
            stride,
            scale,
            window,
        };
        let values = rounded(
            number,
            &noise(tree.pages * layout.page_bytes() / number.bytes(), 1),
        );
        let mut kv = vec![f32::NAN; values.len()];
        let mut q = noise(tree.rows.len() * stride, 2);
        for q in q.chunks_mut(stride) {
            q[heads * head_dim..].fill(f32::NAN);
        }
        let mut case = Self {
            device,
            tree,
            layout,
            shape,
            kv: Vec::new(),
            q,
        };
        for row in &case.tree.rows {
            // The pages of a row's window are its own from their first position on.
            let first =
                window.map_or(0, |w| (row.len as usize).saturating_sub(w)) / page_size * page_size;
            for position in first..row.len as usize {
                for kv_head in 0..kv_heads {
                    for d in 0..head_dim {
                        for at in case.places(row, position, kv_head, d) {
                            kv[at] = values[at];
                        }
                    }
                }
            }
        }
        case.kv = kv;
        case
    }

    /// The offsets in `kv` of element `d` of a row's key and value.
    fn places(&self, row: &AttentionRow, position: usize, kv_head: usize, d: usize) -> [usize; 2] {
        let KvLayout {
            page_size,
            kv_heads,
            head_dim,
            ..
        } = self.layout;
        let page = self.tree.tables[row.table as usize + position / page_size] as usize;
        let offset = position % page_size;
        let base = ((page * LAYERS + LAYER) * kv_heads + kv_head) * 2 * page_size * head_dim;
        [
            base + offset * head_dim + d,
            base + page_size * head_dim + d * page_size + offset,
        ]
    }

    /// The attention of these rows, in `number`.
    fn run(&self, rows: &[usize], number: Number) -> Vec<f32> {
        let AttentionShape {
            heads,
            stride,
            window,
            ..
        } = self.shape;
        let KvLayout {
            page_size,
            kv_heads,
            head_dim,
            ..
        } = self.layout;
        let reach = AttentionReach {
            page_size,
            window,
            group: heads / kv_heads,
        };
        let wanted: Vec<_> = rows.iter().map(|row| self.tree.rows[*row]).collect();
        let mut plan = AttentionPlan::default();
        plan.build(&self.tree.tables, &wanted, reach);
        // The capacity has one row of padding more than the plan.
        let capacity = AttentionCapacity {
            rows: rows.len() + 1,
            partials: plan.partials() + 3,
        };
        let room = AttentionRoom {
            rows: capacity.rows,
            items: plan.items() + 1,
            partials: plan.partials() + 2,
            ..AttentionRoom::of(&plan)
        };
        let mut staging = Staging::new(self.device, 5).expect("memory");
        let mut lists = AttentionLists::new(capacity);
        lists.stage(&mut staging, &plan, room);
        assert!(staging.copy().expect("a copy"), "there was no room");

        let mut q: Vec<f32> = rows
            .iter()
            .flat_map(|row| &self.q[row * stride..][..stride])
            .copied()
            .collect();
        q.resize(q.len() + stride, f32::NAN);
        let q = upload(self.device, Number::F32, &q);
        let kv = upload(self.device, self.layout.number, &self.kv);
        let mut parts = self
            .device
            .alloc(capacity.partial_bytes(heads, head_dim))
            .expect("memory");
        let width = heads * head_dim;
        let mut out = self
            .device
            .alloc((rows.len() + 1) * width * number.bytes())
            .expect("memory");
        // The launch has more items than the plan, like in a replayed graph.
        attention(
            &mut parts,
            &q,
            &self.shape,
            &kv,
            &self.layout,
            LAYER,
            &staging,
            &lists,
            plan.items() + 2,
        )
        .expect("a launch");
        attention_merge(
            &mut out,
            number,
            &parts,
            &staging,
            &lists,
            rows.len() + 1,
            (heads, head_dim),
        )
        .expect("a launch");
        let mut out = download(&out, number, (rows.len() + 1) * width);
        assert!(
            out[rows.len() * width..].iter().all(|v| *v == 0.0),
            "padding is 0"
        );
        out.truncate(rows.len() * width);
        out
    }

    fn all(&self) -> Vec<usize> {
        (0..self.tree.rows.len()).collect()
    }

    fn reference(&self, row: usize, head: usize) -> Vec<f64> {
        let AttentionShape {
            heads,
            stride,
            scale,
            window,
        } = self.shape;
        let KvLayout {
            kv_heads, head_dim, ..
        } = self.layout;
        let at = &self.tree.rows[row];
        let len = at.len as usize;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for position in window.map_or(0, |window| len.saturating_sub(window))..len {
            for d in 0..head_dim {
                let [key, value] = self.places(at, position, head / (heads / kv_heads), d);
                keys.push(self.kv[key]);
                values.push(self.kv[value]);
            }
        }
        let q = &self.q[row * stride + head * head_dim..][..head_dim];
        attention_reference(q, &keys, &values, scale)
    }

    fn check(&self) {
        let AttentionShape { heads, .. } = self.shape;
        let out = self.run(&self.all(), Number::F32);
        let tolerance = 2e-5 + rounding(self.layout.number);
        for (i, out) in out.chunks(self.layout.head_dim).enumerate() {
            // The reference is slow, so only every third combination of row and head is compared.
            if (i / heads + i % heads) % 3 > 0 {
                assert!(out.iter().all(|v| v.is_finite()));
                continue;
            }
            assert_close(out, &self.reference(i / heads, i % heads), tolerance);
        }
    }
}

#[test]
fn equals_the_reference_on_tensor_cores() {
    let Some(device) = device() else { return };
    let heads = [
        (1, 1),
        (4, 2),
        (3, 1),
        (4, 1),
        (10, 2),
        (6, 1),
        (14, 2),
        (8, 1),
    ];
    for number in [Number::Bf16, Number::F16] {
        for (i, heads) in heads.into_iter().enumerate() {
            let (page_size, head_dim) = ([16, 32, 64, 48][i % 4], [64, 96, 128][i % 3]);
            let window = [None, None, Some(100), None, Some(1), Some(257)][i % 6];
            Case::new(device, number, page_size, heads, head_dim, window).check();
        }
    }
}

#[test]
fn equals_the_reference_in_any_shape() {
    let Some(device) = device() else { return };
    for number in NUMBERS {
        for (page_size, heads, head_dim, window) in [
            (16, (2, 1), 20, None),
            (32, (3, 3), 33, Some(300)),
            (7, (2, 2), 64, None),
            (64, (4, 2), 2, Some(31)),
            (100, (1, 1), 130, None),
        ] {
            Case::new(device, number, page_size, heads, head_dim, window).check();
        }
    }
    // This group has more heads than a block on tensor cores can handle.
    Case::new(device, Number::F16, 32, (66, 1), 64, Some(40)).check();
}

#[test]
fn rows_are_batch_invariant() {
    let Some(device) = device() else { return };
    for (number, page_size, heads, head_dim, window) in [
        (Number::Bf16, 16, (6, 1), 64, None),
        (Number::F16, 32, (4, 2), 128, Some(70)),
        (Number::Bf16, 64, (2, 2), 96, Some(300)),
        (Number::F32, 16, (4, 2), 24, None),
        (Number::F32, 16, (4, 2), 24, Some(70)),
    ] {
        let case = Case::new(device, number, page_size, heads, head_dim, window);
        let width = heads.0 * head_dim;
        let all = case.all();
        let together = case.run(&all, Number::F32);
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        let mixed: Vec<_> = all.iter().map(|i| i * 7 % all.len()).collect();
        for order in [reversed, mixed] {
            for (row, out) in order
                .iter()
                .zip(case.run(&order, Number::F32).chunks(width))
            {
                assert_same_bits(out, &together[row * width..][..width]);
            }
        }
        for row in all.into_iter().step_by(5) {
            assert_same_bits(
                &case.run(&[row], Number::F32),
                &together[row * width..][..width],
            );
        }
    }
}

#[test]
fn results_are_rounded_to_their_type() {
    let Some(device) = device() else { return };
    let case = Case::new(device, Number::F32, 16, (2, 1), 34, None);
    let rows = [0, 13, 20];
    let exact = case.run(&rows, Number::F32);
    for number in NUMBERS {
        assert_same_bits(&case.run(&rows, number), &rounded(number, &exact));
    }
}

#[test]
#[should_panic(expected = "the plan is for another shape")]
fn plans_for_other_pages_are_refused() {
    let Some(device) = device() else {
        panic!("the plan is for another shape: no device");
    };
    let mut case = Case::new(device, Number::F32, 16, (1, 1), 8, None);
    let mut plan = AttentionPlan::default();
    let reach = AttentionReach {
        page_size: 16,
        window: None,
        group: 1,
    };
    plan.build(&case.tree.tables, &case.tree.rows[..1], reach);
    let capacity = AttentionCapacity {
        rows: 1,
        partials: plan.partials(),
    };
    let mut staging = Staging::new(device, 0).expect("memory");
    let mut lists = AttentionLists::new(capacity);
    lists.stage(&mut staging, &plan, AttentionRoom::of(&plan));
    staging.copy().expect("a copy");
    case.layout.page_size = 8;
    let (q, kv) = (
        upload(device, Number::F32, &case.q),
        upload(device, Number::F32, &case.kv),
    );
    let mut parts = device.alloc(capacity.partial_bytes(1, 8)).expect("memory");
    let _ = attention(
        &mut parts,
        &q,
        &case.shape,
        &kv,
        &case.layout,
        LAYER,
        &staging,
        &lists,
        plan.items(),
    );
}

#[test]
fn queries_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let mut case = Case::new(device, Number::F16, 16, (4, 2), 64, None);
    for q in &mut case.q {
        *q *= 1e6;
    }
    let large = case.run(&case.all(), Number::F32);
    for q in &mut case.q {
        *q = q.clamp(-65504.0, 65504.0);
    }
    assert!(large.iter().all(|v| v.is_finite()));
    assert_same_bits(&large, &case.run(&case.all(), Number::F32));
}

#[test]
fn outputs_beyond_float16_become_its_largest_number() {
    let Some(device) = device() else { return };
    let mut case = Case::new(device, Number::F32, 16, (2, 1), 8, None);
    for v in &mut case.kv {
        *v *= 1e6;
    }
    let whole = case.run(&case.all(), Number::F32);
    let narrow = case.run(&case.all(), Number::F16);
    assert!(whole.iter().any(|v| v.abs() > 7e4));
    let clamped: Vec<f32> = whole.iter().map(|v| v.clamp(-65504.0, 65504.0)).collect();
    assert_same_bits(&narrow, &rounded(Number::F16, &clamped));
}
