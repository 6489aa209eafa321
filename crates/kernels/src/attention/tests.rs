use super::*;
use crate::testing::{assert_close, assert_same_bits, cpus, noise};
use crate::{Isa, IsaLevel, KvShape, KvSlot, ThreadPool, kv_store};

struct Case {
    pages: KvPages,
    shape: AttentionShape,
    /// `[positions, kv_heads * head_dim]` each.
    keys: Vec<f32>,
    values: Vec<f32>,
    table: Vec<u32>,
    q: Vec<f32>,
    rows: Vec<AttentionRow>,
}

/// One sequence of `positions` in scattered pages, a row for each of `lens`.
fn case(kv: KvShape, group: usize, positions: usize, lens: &[u32]) -> Case {
    let width = kv.kv_heads * kv.head_dim;
    let keys: Vec<f32> = noise(positions * width, 31)
        .iter()
        .map(|x| x * 3.0)
        .collect();
    let values = noise(positions * width, 32);
    let needed = positions.div_ceil(kv.page_size);
    // Every second page, last first: pages of a sequence are anywhere.
    let table: Vec<u32> = (0..needed).rev().map(|p| 2 * p as u32 + 1).collect();
    let mut pages = KvPages::new(kv);
    pages.grow_to(2 * needed);
    let mut rows = Vec::new();
    for (k, v) in keys.chunks_exact(width).zip(values.chunks_exact(width)) {
        rows.extend_from_slice(k);
        rows.extend_from_slice(v);
    }
    let slots: Vec<KvSlot> = (0..positions)
        .map(|p| KvSlot {
            page: table[p / kv.page_size],
            offset: (p % kv.page_size) as u32,
        })
        .collect();
    kv_store(
        Cpu::serial(),
        &mut pages,
        kv.layers - 1,
        &rows,
        2 * width,
        0,
        width,
        &slots,
    );
    let heads = kv.kv_heads * group;
    let stride = heads * kv.head_dim + 3;
    let scale = 1.0 / (kv.head_dim as f32).sqrt();
    Case {
        pages,
        shape: AttentionShape {
            heads,
            stride,
            scale,
            window: None,
        },
        keys,
        values,
        table,
        q: noise(lens.len() * stride, 33),
        rows: lens
            .iter()
            .map(|len| AttentionRow {
                table: 0,
                len: *len,
            })
            .collect(),
    }
}

impl Case {
    fn run(&self, cpu: Cpu, rows: std::ops::Range<usize>) -> Vec<f32> {
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
            &self.table,
            &self.rows[rows],
            &mut out,
        );
        out
    }

    fn check(&self, cpu: Cpu) {
        let kv = self.pages.shape();
        let d = kv.head_dim;
        let out = self.run(cpu, 0..self.rows.len());
        let group = self.shape.heads / kv.kv_heads;
        for (r, row) in self.rows.iter().enumerate() {
            for h in 0..self.shape.heads {
                let pick = |all: &[f32]| -> Vec<f32> {
                    (self.shape.first(row.len as usize)..row.len as usize)
                        .flat_map(|p| {
                            let at = (p * kv.kv_heads + h / group) * d;
                            all[at..at + d].to_vec()
                        })
                        .collect()
                };
                let q = &self.q[r * self.shape.stride + h * d..][..d];
                let want = attention_reference(
                    q,
                    &pick(&self.keys),
                    &pick(&self.values),
                    self.shape.scale,
                );
                let got = &out[(r * self.shape.heads + h) * d..][..d];
                assert_close(got, &want, 1e-5);
            }
        }
    }
}

#[test]
fn equals_the_reference() {
    for cpu in cpus() {
        for head_dim in [2, 8, 12, 16, 32, 36, 64, 80, 128] {
            for (kv_heads, group) in [(1, 1), (2, 2), (1, 3), (2, 7)] {
                let kv = KvShape {
                    layers: 2,
                    kv_heads,
                    head_dim,
                    page_size: 16,
                };
                case(kv, group, 70, &[1, 2, 15, 16, 17, 33, 64, 65, 70]).check(cpu);
            }
        }
    }
}

#[test]
fn any_page_size_and_more_than_a_block() {
    for cpu in cpus() {
        for page_size in [1, 2, 3, 7, 8, 16, 17, 32, 100, 256] {
            let kv = KvShape {
                layers: 1,
                kv_heads: 2,
                head_dim: 12,
                page_size,
            };
            case(kv, 2, 600, &[1, 5, 255, 256, 257, 300, 513, 600]).check(cpu);
        }
    }
}

#[test]
fn windows_of_any_size() {
    for cpu in cpus() {
        for (page_size, head_dim) in [(16, 16), (5, 12), (1, 8), (256, 32)] {
            let kv = KvShape {
                layers: 1,
                kv_heads: 2,
                head_dim,
                page_size,
            };
            let lens = [1, 2, 15, 16, 17, 33, 64, 257, 300, 600];
            let mut case = case(kv, 3, 600, &lens);
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
    // Positions 0..60: three whole pages, which need not even exist.
    case.table[..3].fill(u32::MAX);
    assert_same_bits(&case.run(Cpu::serial(), 0..1), &before);
    // A window that holds everything is no window.
    case.shape.window = None;
    case.table = (0..7).rev().map(|p| 2 * p + 1).collect();
    let whole = case.run(Cpu::serial(), 0..1);
    case.shape.window = Some(100);
    assert_same_bits(&case.run(Cpu::serial(), 0..1), &whole);
}

#[test]
fn a_row_has_the_same_bits_in_any_company_and_with_any_threads() {
    for window in [None, Some(1), Some(50), Some(270)] {
        rows_in_company(window);
    }
}

fn rows_in_company(window: Option<usize>) {
    let kv = KvShape {
        layers: 3,
        kv_heads: 2,
        head_dim: 32,
        page_size: 16,
    };
    let lens: Vec<u32> = (1..=300).collect();
    let mut case = case(kv, 3, 300, &lens);
    case.shape.window = window;
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
        let case = case(kv, group, 300, &[1, 17, 300]);
        let fused = |c: &Cpu| c.isa.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64");
        let results: Vec<Vec<f32>> = cpus()
            .into_iter()
            .filter(fused)
            .map(|cpu| case.run(cpu, 0..3))
            .collect();
        for pair in results.windows(2) {
            assert_same_bits(&pair[0], &pair[1]);
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
    for cpu in cpus() {
        assert!(case.run(cpu, 0..1).iter().all(|x| x.is_finite()));
    }
}
