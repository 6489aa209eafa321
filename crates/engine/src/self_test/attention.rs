//! Tests attention: rotation, storing keys and values in pages, partial results and their merge.

use beamgen_kernels::cuda::{
    self, AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    Device, KvLayout, Number, QkvRows, Staging,
};
use beamgen_kernels::{AttentionRow, AttentionShape, attention_reference, rope_reference};

use super::values::{check, compare, download, name, noise, rounded, tolerance, upload, widened};
use crate::Error;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const PAGE: usize = 16;
/// The pages of the positions 0 to 47, in order.
const PAGES: [u32; 3] = [1, 0, 2];
/// The page that becomes a copy, and the page that it copies.
const COPY: (u32, u32) = (3, 1);
/// The most positions that a row attends to, more than one segment of the kernels. Page tables of
/// this length repeat the pages.
const LONGEST: usize = 18 * PAGE;

/// Tests each head size that has a special kernel, and 40, which uses the general kernel.
pub(super) fn run(device: &Device, number: Number) -> Result<(), Error> {
    let sizes: &[usize] = match number {
        Number::F32 => &[40],
        _ => &[40, 64, 96, 128],
    };
    for head_dim in sizes {
        let case = Case::new(device, number, *head_dim)?;
        // A window of 20 positions crosses the border between two segments.
        for window in [None, Some(20)] {
            case.attend(window)?;
        }
    }
    Ok(())
}

/// Rows whose keys and values are stored in pages on the device.
struct Case<'a> {
    device: &'a Device,
    layout: KvLayout,
    /// Queries, keys and values after the rotation, on the device.
    rows: Buffer,
    /// A copy of `rows` on the host, for the references.
    rows_here: Vec<f32>,
    kv: Buffer,
    /// A copy of `kv` on the host, for the references.
    kv_here: Vec<f32>,
}

/// Returns page tables and the rows that attend to them. With `long_only`, the rows with short
/// contexts are left out.
fn attends(long_only: bool) -> (Vec<u32>, Vec<AttentionRow>) {
    let cycle = |first: u32| [[first, PAGES[1], PAGES[2]]; LONGEST / PAGE / 3];
    let tables = [cycle(PAGES[0]), cycle(COPY.0)];
    // Four warps share the queries of an item. With 20 rows a warp has several sets of queries,
    // with 10 rows one set; with 4 rows or 1 row, all warps have the same set.
    let lens: [(usize, Vec<u32>); 4] = [
        (0, (1..=20).collect()),
        (1, (24..=33).collect()),
        (0, vec![257, 270, 64, LONGEST as u32]),
        (1, vec![2]),
    ];
    let lens = &lens[if long_only { 2 } else { 0 }..];
    let rows = lens.iter().flat_map(|(table, lens)| {
        let table = (table * LONGEST / PAGE) as u32;
        lens.iter()
            .map(move |len| AttentionRow { table, len: *len })
    });
    let rows = rows.collect();
    (tables.as_flattened().as_flattened().to_vec(), rows)
}

impl<'a> Case<'a> {
    fn new(device: &'a Device, number: Number, head_dim: usize) -> Result<Self, Error> {
        let layout = KvLayout {
            number,
            page_size: PAGE,
            layers: 1,
            kv_heads: KV_HEADS,
            head_dim,
        };
        // In heads of 40 values, the last 8 values are not rotated.
        let pairs = match head_dim {
            40 => 16,
            _ => head_dim / 2,
        };
        let frequencies: Vec<f64> = (0..pairs)
            .map(|i| 1e4f64.powf(-((2 * i) as f64) / (2 * pairs) as f64))
            .collect();
        let count = attends(false).1.len();
        let positions: Vec<u32> = (0..count as u32).collect();
        let slots = positions
            .iter()
            .map(|p| [PAGES[*p as usize / PAGE], p % 16]);
        let slots: Vec<u32> = slots.flatten().collect();
        let stride = (HEADS + 2 * KV_HEADS) * head_dim;
        let mut qkv = noise(count * stride, 7);
        for row in qkv.chunks_mut(stride) {
            // Large values keep the weighted sums from being within the tolerance of zero.
            let values = &mut row[(HEADS + KV_HEADS) * head_dim..];
            for value in values.iter_mut() {
                *value *= 4.0;
            }
        }

        let narrow: Vec<f32> = frequencies.iter().map(|f| *f as f32).collect();
        let (positions, narrow) = (device.upload(&positions)?, device.upload(&narrow)?);
        let mut angles = device.alloc(8 * count * pairs)?;
        cuda::rope_angles(&mut angles, &positions, &narrow, 1.0, count, pairs)?;
        let mut turns = Vec::with_capacity(2 * count * pairs);
        for position in 0..count {
            let angles = || frequencies.iter().map(|f| position as f64 * f);
            turns.extend(angles().map(f64::cos));
            turns.extend(angles().map(f64::sin));
        }
        compare("rope_angles", 2 * pairs, &angles, Number::F32, &turns)?;

        let mut rows = upload(device, Number::F32, &qkv)?;
        let pages = PAGES.len() + 1;
        let mut kv = device.alloc(pages * layout.page_bytes())?;
        kv.clear()?;
        let shape = QkvRows {
            rows: count,
            stride,
            heads: HEADS,
        };
        let slots = device.upload(&slots)?;
        cuda::rope_kv(
            &mut rows, shape, &mut kv, &layout, 0, &angles, pairs, &slots,
        )?;
        let rows_here = download(&rows, Number::F32, qkv.len())?;
        let turned = (HEADS + KV_HEADS) * head_dim;
        let mut expected = Vec::with_capacity(qkv.len());
        for (position, row) in qkv.chunks(stride).enumerate() {
            let (turning, rest) = row.split_at(turned);
            for head in turning.chunks(head_dim) {
                expected.extend(rope_reference(head, &frequencies, 1.0, position));
            }
            expected.extend(widened(rest));
        }
        let what = format!("rope with heads of {head_dim} in {}", name(number));
        check(&what, stride, &rows_here, &expected, tolerance(Number::F32))?;

        let bytes = layout.page_bytes();
        kv.copy_within(COPY.1 as usize * bytes, COPY.0 as usize * bytes, bytes)?;
        let kv_here = download(&kv, number, kv.bytes() / number.bytes())?;
        let mut case = Self {
            device,
            layout,
            rows,
            rows_here,
            kv,
            kv_here,
        };
        let expected = widened(&rounded(number, case.pages()));
        let what = format!("keys and values of {what}");
        check(what, PAGE * head_dim, &case.kv_here, &expected, 0.0)?;
        case.kv_here.truncate(expected.len());
        Ok(case)
    }

    fn width(&self) -> usize {
        (HEADS + 2 * KV_HEADS) * self.layout.head_dim
    }

    /// The expected contents of all pages, computed from `rows_here`.
    fn pages(&self) -> Vec<f32> {
        let d = self.layout.head_dim;
        let block = PAGE * d;
        let mut pages = vec![0.0; (PAGES.len() + 1) * KV_HEADS * 2 * block];
        for (position, row) in self.rows_here.chunks(self.width()).enumerate() {
            let (page, offset) = (PAGES[position / PAGE] as usize, position % PAGE);
            for head in 0..KV_HEADS {
                let at = 2 * (page * KV_HEADS + head) * block;
                let key = &row[(HEADS + head) * d..][..d];
                let value = &row[(HEADS + KV_HEADS + head) * d..][..d];
                pages[at + offset * d..][..d].copy_from_slice(key);
                for (i, value) in value.iter().enumerate() {
                    pages[at + block + i * PAGE + offset] = *value;
                }
            }
        }
        let bytes = KV_HEADS * 2 * block;
        let (to, from) = (COPY.0 as usize * bytes, COPY.1 as usize * bytes);
        pages.copy_within(from..from + bytes, to);
        pages
    }

    /// The key and the value of `head` at `offset` in `page`.
    fn key_and_value(&self, page: u32, offset: usize, head: usize) -> (Vec<f32>, Vec<f32>) {
        let d = self.layout.head_dim;
        let at = 2 * (page as usize * KV_HEADS + head) * PAGE * d;
        let (keys, values) = self.kv_here[at..].split_at(PAGE * d);
        let value = (0..d).map(|i| values[i * PAGE + offset]);
        (keys[offset * d..][..d].to_vec(), value.collect())
    }

    fn attend(&self, window: Option<usize>) -> Result<(), Error> {
        let KvLayout {
            number, head_dim, ..
        } = self.layout;
        let (tables, attends) = attends(window.is_some());
        let rows = attends.len();
        let mut plan = AttentionPlan::default();
        let reach = AttentionReach {
            page_size: PAGE,
            window,
            group: HEADS / KV_HEADS,
        };
        plan.build(&tables, &attends, reach);
        let capacity = AttentionCapacity {
            rows,
            partials: plan.partials(),
        };
        let room = AttentionRoom::of(&plan);
        let mut staging = Staging::new(self.device, room.words())?;
        let mut lists = AttentionLists::new(capacity);
        lists.stage(&mut staging, &plan, room);
        staging.copy()?;
        let shape = AttentionShape {
            heads: HEADS,
            stride: self.width(),
            scale: 0.25,
            window,
        };
        let mut parts = self.device.alloc(capacity.partial_bytes(HEADS, head_dim))?;
        let (kv, layout, items) = (&self.kv, &self.layout, plan.items());
        cuda::attention(
            &mut parts, &self.rows, &shape, kv, layout, 0, &staging, &lists, items,
        )?;
        let expected = self.reference(&tables, &attends, &shape);
        let heads = (HEADS, head_dim);
        let merge = |to: Number| -> Result<Vec<f32>, Error> {
            let mut out = self.device.alloc(to.bytes() * expected.len())?;
            cuda::attention_merge(&mut out, to, &parts, &staging, &lists, rows, heads)?;
            download(&out, to, expected.len())
        };
        let merged = merge(Number::F32)?;
        let (width, tolerance) = (HEADS * head_dim, tolerance(number));
        let what = format!("attention with heads of {head_dim} in {}", name(number));
        check(what, width, &merged, &expected, tolerance)?;
        let what = format!("attention's sum to {}", name(number));
        check(what, width, &merge(number)?, &widened(&merged), tolerance)
    }

    fn reference(
        &self,
        tables: &[u32],
        attends: &[AttentionRow],
        shape: &AttentionShape,
    ) -> Vec<f64> {
        let KvLayout {
            number, head_dim, ..
        } = self.layout;
        // Kernels on tensor cores also round the queries; the general kernel does not.
        let as_read = match head_dim {
            40 => Number::F32,
            _ => number,
        };
        let rows = attends.iter().zip(self.rows_here.chunks(self.width()));
        let heads = rows.flat_map(|(row, queries)| (0..HEADS).map(move |h| (row, queries, h)));
        heads
            .flat_map(|(row, queries, head)| {
                let len = row.len as usize;
                let first = shape.window.map_or(0, |window| len.saturating_sub(window));
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for position in first..len {
                    let page = tables[row.table as usize + position / PAGE];
                    let kv_head = head / (HEADS / KV_HEADS);
                    let (key, value) = self.key_and_value(page, position % PAGE, kv_head);
                    keys.extend(key);
                    values.extend(value);
                }
                let query = queries[head * head_dim..][..head_dim].to_vec();
                attention_reference(&rounded(as_read, query), &keys, &values, shape.scale)
            })
            .collect()
    }
}
