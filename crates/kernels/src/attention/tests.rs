use super::*;
use crate::simd::Portable;
use crate::testing::{assert_close, assert_same_bits, cpus, noise};
use crate::{Isa, IsaLevel, KvFormat, KvShape, KvSlot, ThreadPool, kv_store};

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::Bf16, KvFormat::F16];

struct Case {
    pages: KvPages,
    shape: AttentionShape,
    tables: Vec<u32>,
    q: Vec<f32>,
    rows: Vec<AttentionRow>,
}

/// Creates a sequence of `positions` in scattered pages, with a row for each of `lens`.
fn case(kv: KvShape, group: usize, positions: usize, lens: &[u32]) -> Case {
    let needed = positions.div_ceil(kv.page_size);
    // The sequence has every second page in reverse order, because its pages may be anywhere.
    let table: Vec<u32> = (0..needed).rev().map(|p| 2 * p as u32 + 1).collect();
    let rows: Vec<(u32, u32)> = lens.iter().map(|len| (0, *len)).collect();
    Case::new(kv, group, table, &rows)
}

impl Case {
    /// Rows (table, length) over pages of noise.
    fn new(kv: KvShape, group: usize, tables: Vec<u32>, rows: &[(u32, u32)]) -> Self {
        let heads = kv.kv_heads * group;
        let stride = heads * kv.head_dim + 3;
        let mut case = Self {
            pages: KvPages::stored_as(kv, KvFormat::F32),
            shape: AttentionShape {
                heads,
                stride,
                scale: 1.0 / (kv.head_dim as f32).sqrt(),
                window: None,
            },
            tables,
            q: noise(rows.len() * stride, 33),
            rows: rows
                .iter()
                .map(|&(table, len)| AttentionRow { table, len })
                .collect(),
        };
        case.store_as(KvFormat::F32);
        case
    }

    fn store_as(&mut self, format: KvFormat) {
        let kv = self.pages.shape();
        let pages = self.tables.iter().max().expect("a page") + 1;
        self.pages = KvPages::stored_as(kv, format);
        self.pages.grow_to(pages as usize);
        let slots: Vec<KvSlot> = (0..pages as usize * kv.page_size)
            .map(|p| KvSlot {
                page: (p / kv.page_size) as u32,
                offset: (p % kv.page_size) as u32,
            })
            .collect();
        let width = kv.kv_heads * kv.head_dim;
        let mut data = noise(slots.len() * 2 * width, 31);
        for row in data.chunks_exact_mut(2 * width) {
            row[..width].iter_mut().for_each(|k| *k *= 3.0);
        }
        let layer = kv.layers - 1;
        let stride = 2 * width;
        kv_store(
            Cpu::serial(),
            &mut self.pages,
            layer,
            &data,
            stride,
            0,
            width,
            &slots,
        );
    }

    fn run(&self, cpu: Cpu, rows: std::ops::Range<usize>) -> Vec<f32> {
        self.run_with(attention, cpu, rows)
    }

    #[allow(clippy::type_complexity)]
    fn run_with(
        &self,
        attention: fn(
            Cpu,
            &KvPages,
            usize,
            AttentionShape,
            &[f32],
            &[u32],
            &[AttentionRow],
            &mut [f32],
        ),
        cpu: Cpu,
        rows: std::ops::Range<usize>,
    ) -> Vec<f32> {
        let kv = self.pages.shape();
        let mut out = vec![f32::NAN; rows.len() * self.shape.heads * kv.head_dim];
        let q = &self.q[rows.start * self.shape.stride..rows.end * self.shape.stride];
        let layer = kv.layers - 1;
        attention(
            cpu,
            &self.pages,
            layer,
            self.shape,
            q,
            &self.tables,
            &self.rows[rows],
            &mut out,
        );
        out
    }

    /// Compares with attention in float64 over the stored (rounded) keys and values.
    fn check(&self, cpu: Cpu) {
        let kv = self.pages.shape();
        let d = kv.head_dim;
        let bf16 = self.pages.format() == KvFormat::Bf16;
        // Every weight may be wrong by half of its last of eight bits; values are below 1.
        let tolerance = if bf16 { 1.0 / 256.0 } else { 1e-5 };
        let out = self.run(cpu, 0..self.rows.len());
        let group = self.shape.heads / kv.kv_heads;
        for (r, row) in self.rows.iter().enumerate() {
            for kv_head in 0..kv.kv_heads {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for p in self.shape.first(row.len as usize)..row.len as usize {
                    let page = self.tables[row.table as usize + p / kv.page_size];
                    let region = self.pages.head(page, kv.layers - 1, kv_head);
                    let (k, v) = self.pages.format().read(region, kv, p % kv.page_size);
                    keys.extend(k);
                    values.extend(v);
                }
                for h in kv_head * group..(kv_head + 1) * group {
                    let mut q = self.q[r * self.shape.stride + h * d..][..d].to_vec();
                    let mut scale = self.shape.scale;
                    if bf16 {
                        let scaled = scale * std::f32::consts::LOG2_E;
                        for q in &mut q {
                            *q = Portable.round_bf16([*q * scaled; 16])[0];
                        }
                        scale = std::f32::consts::LN_2;
                    }
                    let want = attention_reference(&q, &keys, &values, scale);
                    let got = &out[(r * self.shape.heads + h) * d..][..d];
                    assert_close(got, &want, tolerance);
                }
            }
        }
    }
}

/// Creates a tree. A branch is the number of pages that it shares with the previous branch, and its
/// number of positions.
fn tree(kv: KvShape, group: usize, branches: &[(usize, usize)]) -> Case {
    let (mut tables, mut rows, mut pages) = (Vec::<u32>::new(), Vec::new(), 0);
    let mut before: Vec<u32> = Vec::new();
    for &(shared, len) in branches {
        before.truncate(shared);
        while before.len() < len.div_ceil(kv.page_size) {
            before.push(pages);
            pages += 1;
        }
        rows.push((tables.len() as u32, len as u32));
        tables.extend(&before);
    }
    Case::new(kv, group, tables, &rows)
}

#[test]
fn what_rows_share_changes_no_bit() {
    for (kv_heads, group, head_dim, page_size) in [
        (2, 7, 64, 16),
        (1, 3, 32, 16),
        (2, 2, 32, 64),
        (1, 6, 128, 256),
        (1, 1, 12, 100),
        (1, 70, 16, 16),
    ] {
        let kv = KvShape {
            layers: 2,
            kv_heads,
            head_dim,
            page_size,
        };
        let block = 256 / page_size;
        // Siblings of some depths; one that shares nothing; one that shares less than a block.
        let branches = [
            (0, 600),
            (2 * block, 550),
            (2 * block, 513),
            (2 * block + 1, 700),
            (2 * block, 512),
            (block, 900),
            (3 * block, 801),
            (3 * block, 780),
            (0, 600),
            (1, 300),
            (block, 300),
            (block, 257),
            (block - 1, 400),
        ];
        let mut case = tree(kv, group, &branches);
        for format in FORMATS {
            case.store_as(format);
            for cpu in cpus() {
                case.check(cpu);
                let all = case.run(cpu, 0..branches.len());
                let flat = case.run_with(attention_flat, cpu, 0..branches.len());
                assert_same_bits(&all, &flat);
            }
            let serial = case.run(Cpu::serial(), 0..branches.len());
            let isa = Isa::detect();
            for threads in [2, 5] {
                let parallel = ThreadPool::new(threads).run(u64::MAX, |parallel| {
                    case.run(Cpu { isa, parallel }, 0..branches.len())
                });
                assert_same_bits(&parallel, &serial);
            }
        }
    }
}

#[test]
fn tokens_of_a_prompt_are_branches_too() {
    let kv = KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 32,
        page_size: 16,
    };
    let lens: Vec<u32> = (700..800).collect();
    let mut case = case(kv, 4, 800, &lens);
    for format in FORMATS {
        case.store_as(format);
        for window in [None, Some(790), Some(300)] {
            case.shape.window = window;
            case.check(Cpu::serial());
            let flat = case.run_with(attention_flat, Cpu::serial(), 0..100);
            assert_same_bits(&case.run(Cpu::serial(), 0..100), &flat);
        }
    }
}

#[test]
fn numbers_behind_the_end_of_a_page_do_not_matter() {
    let kv = KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 32,
        page_size: 16,
    };
    for format in FORMATS {
        let mut case = case(kv, 2, 48, &[1, 19, 33]);
        case.store_as(format);
        let before: Vec<Vec<f32>> = cpus().iter().map(|cpu| case.run(*cpu, 1..2)).collect();
        // Another sequence may have written NaN to the rest of the page, which must not matter.
        let nan = vec![f32::NAN; 13 * 64];
        let slots: Vec<KvSlot> = (3..16)
            .map(|offset| KvSlot {
                page: case.tables[1],
                offset,
            })
            .collect();
        kv_store(Cpu::serial(), &mut case.pages, 0, &nan, 64, 0, 32, &slots);
        for (cpu, before) in cpus().into_iter().zip(before) {
            assert_same_bits(&case.run(cpu, 1..2), &before);
        }
    }
}

#[test]
fn equals_the_reference() {
    for (cpu, format) in cpus().into_iter().flat_map(|cpu| FORMATS.map(|f| (cpu, f))) {
        for head_dim in [2, 8, 12, 16, 32, 36, 64, 80, 128] {
            for (kv_heads, group) in [(1, 1), (2, 2), (1, 3), (2, 7)] {
                let kv = KvShape {
                    layers: 2,
                    kv_heads,
                    head_dim,
                    page_size: 16,
                };
                let mut case = case(kv, group, 70, &[1, 2, 15, 16, 17, 33, 64, 65, 70]);
                case.store_as(format);
                case.check(cpu);
            }
        }
    }
}

#[test]
fn any_page_size_and_more_than_a_block() {
    for (cpu, format) in cpus().into_iter().flat_map(|cpu| FORMATS.map(|f| (cpu, f))) {
        for page_size in [1, 2, 3, 7, 8, 16, 17, 32, 100, 256] {
            let kv = KvShape {
                layers: 1,
                kv_heads: 2,
                head_dim: 12,
                page_size,
            };
            let mut case = case(kv, 2, 600, &[1, 5, 255, 256, 257, 300, 513, 600]);
            case.store_as(format);
            case.check(cpu);
        }
    }
}

#[test]
fn windows_of_any_size() {
    for (cpu, format) in cpus().into_iter().flat_map(|cpu| FORMATS.map(|f| (cpu, f))) {
        for (page_size, head_dim) in [(16, 16), (5, 12), (1, 8), (256, 32)] {
            let kv = KvShape {
                layers: 1,
                kv_heads: 2,
                head_dim,
                page_size,
            };
            let lens = [1, 2, 15, 16, 17, 33, 64, 257, 300, 600];
            let mut case = case(kv, 3, 600, &lens);
            case.store_as(format);
            for window in [1, 2, 15, 16, 17, 31, 255, 256, 257, 300, 599, 600, 1000] {
                case.shape.window = Some(window);
                case.check(cpu);
            }
        }
    }
}

#[test]
fn what_lies_before_the_window_is_not_read() {
    let kv = KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 16,
        page_size: 16,
    };
    let mut case = case(kv, 2, 100, &[100]);
    case.shape.window = Some(40);
    let before = case.run(Cpu::serial(), 0..1);
    // Positions 0 to 59 fill three whole pages before the window. These pages need not exist.
    case.tables[..3].fill(u32::MAX);
    assert_same_bits(&case.run(Cpu::serial(), 0..1), &before);
    // A window that covers all positions gives the same bits as no window.
    case.shape.window = None;
    case.tables = (0..7).rev().map(|p| 2 * p + 1).collect();
    let whole = case.run(Cpu::serial(), 0..1);
    case.shape.window = Some(100);
    assert_same_bits(&case.run(Cpu::serial(), 0..1), &whole);
}

#[test]
fn a_row_has_the_same_bits_in_any_batch_and_with_any_threads() {
    for window in [None, Some(1), Some(50), Some(270)] {
        for format in FORMATS {
            rows_in_batches(window, format);
        }
    }
}

fn rows_in_batches(window: Option<usize>, format: KvFormat) {
    let kv = KvShape {
        layers: 3,
        kv_heads: 2,
        head_dim: 32,
        page_size: 16,
    };
    let lens: Vec<u32> = (1..=300).collect();
    let mut case = case(kv, 3, 300, &lens);
    case.shape.window = window;
    case.store_as(format);
    for cpu in cpus() {
        let all = case.run(cpu, 0..300);
        let width = case.shape.heads * 32;
        for r in [0, 1, 15, 16, 137, 299] {
            assert_same_bits(&case.run(cpu, r..r + 1), &all[r * width..][..width]);
        }
    }
    let isa = Isa::detect();
    let serial = case.run(Cpu::serial(), 0..300);
    for threads in [2, 5] {
        let parallel = ThreadPool::new(threads)
            .run(u64::MAX, |parallel| case.run(Cpu { isa, parallel }, 0..300));
        assert_same_bits(&parallel, &serial);
    }
}

#[test]
fn tiers_with_fma_agree_bitwise() {
    for (group, head_dim) in [(1, 16), (2, 32), (3, 80), (7, 64)] {
        let kv = KvShape {
            layers: 1,
            kv_heads: 2,
            head_dim,
            page_size: 16,
        };
        let mut case = case(kv, group, 300, &[1, 17, 300]);
        for format in FORMATS {
            case.store_as(format);
            let results: Vec<Vec<f32>> = cpus()
                .into_iter()
                .filter(|cpu| {
                    cpu.isa.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64")
                })
                .map(|cpu| case.run(cpu, 0..3))
                .collect();
            for pair in results.windows(2) {
                assert_same_bits(&pair[0], &pair[1]);
            }
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let kv = KvShape {
        layers: 1,
        kv_heads: 1,
        head_dim: 16,
        page_size: 16,
    };
    let mut case = case(kv, 1, 300, &[300]);
    case.shape.scale = 1e4;
    for format in FORMATS {
        case.store_as(format);
        for cpu in cpus() {
            assert!(case.run(cpu, 0..1).iter().all(|x| x.is_finite()));
        }
    }
}
