//! The kinds of quantised blocks: their layout in panels, and the unpacking of groups into bytes.

use super::PANEL;
use crate::simd::{LANES, Simd};

/// Values that share a scale.
pub(super) const GROUP: usize = 32;

/// The bytes of a group's unpacked weights in a panel: for every four inputs, four bytes of each
/// output.
pub(super) const WIDE: usize = GROUP * PANEL;

/// The number of groups that are unpacked at a time. They stay in the first-level cache while all
/// register blocks of rows use them.
pub(super) const CHUNK: usize = 16;

/// A kind of blocks. A weight is `scale * q`, or `scale * q + min`, or (with
/// [`HALVES`](Self::HALVES) of 2) `scale * sub * q` with a whole `sub` for each 16 inputs; `q` is a
/// signed byte.
///
/// A panel consists of super-blocks. A super-block has a header, with the numbers that all its
/// groups share, and then its groups. The numbers of the 32 outputs are adjacent.
pub(super) trait Blocks {
    /// Groups of 32 that a block of the file spans.
    const SUPER: usize = 1;
    /// Bytes of a block in a GGUF file.
    const FILE: usize;
    /// Bytes of a super-block before its groups.
    const HEADER: usize = 0;
    /// Bytes of a group.
    const GROUP: usize;
    const MIN: bool = false;
    const HALVES: usize = 1;
    /// The offset of the weights' bytes in a group, if they need no unpacking.
    const IN_PLACE: Option<usize> = None;

    /// Writes the block of output `n` of a panel into its super-block.
    fn pack(block: &[u8], n: usize, to: &mut [u8]);

    /// Reads the scales of a group and, if the format has them, minima and sub-scales.
    fn scales<S: Simd>(s: S, header: &[u8], group: &[u8], to: &mut Scales);

    /// Unpacks the weights of a group into bytes.
    fn bytes(group: &[u8], to: &mut [u8; WIDE]);
}

/// The factors of a group for each of a panel's 32 outputs.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Scales {
    pub(super) scale: [f32; PANEL],
    pub(super) min: [f32; PANEL],
    /// The sub-scales of the first 16 inputs, and of the last 16.
    pub(super) sub: [[f32; PANEL]; 2],
}

impl Scales {
    pub(super) const EMPTY: Self = Self {
        scale: [0.0; PANEL],
        min: [0.0; PANEL],
        sub: [[1.0; PANEL]; 2],
    };
}

/// Bytes of a super-block in a panel.
pub(super) const fn super_bytes<F: Blocks>() -> usize {
    F::HEADER + F::SUPER * F::GROUP
}

/// The bytes of a panel with `groups` groups.
pub(super) const fn panel_bytes<F: Blocks>(groups: usize) -> usize {
    groups / F::SUPER * super_bytes::<F>()
}

/// The offsets in a panel of group `g`, and of the header of its super-block.
#[inline(always)]
pub(super) const fn place<F: Blocks>(g: usize) -> (usize, usize) {
    let header = g / F::SUPER * super_bytes::<F>();
    (header + F::HEADER + g % F::SUPER * F::GROUP, header)
}

/// The offset of byte `k` of output `n` in an unpacked group.
pub(super) const fn wide(n: usize, k: usize) -> usize {
    k / 4 * (4 * PANEL) + 4 * n + k % 4
}

/// Converts row `n` of a layer with `inputs` inputs to float32, with the results of GGUF's readers.
pub(super) fn unpack<F: Blocks>(panels: &[u8], inputs: usize, n: usize, row: &mut [f32]) {
    let bytes = panel_bytes::<F>(inputs / GROUP);
    let (panel, n) = (&panels[n / PANEL * bytes..][..bytes], n % PANEL);
    let (mut scales, mut values) = (Scales::EMPTY, [0; WIDE]);
    for (g, weights) in row.chunks_exact_mut(GROUP).enumerate() {
        let (group, header) = place::<F>(g);
        let group = &panel[group..][..F::GROUP];
        F::scales(crate::simd::Portable, &panel[header..], group, &mut scales);
        let bytes = if let Some(at) = F::IN_PLACE {
            &group[at..]
        } else {
            F::bytes(group, &mut values);
            &values
        };
        for (k, w) in weights.iter_mut().enumerate() {
            let q = f32::from(bytes[wide(n, k)].cast_signed());
            let scale = scales.scale[n] * scales.sub[k / 16][n];
            *w = if F::MIN {
                scale * q + scales.min[n]
            } else {
                scale * q
            };
        }
    }
}

/// Converts 32 float16 in 64 bytes to float32.
#[inline(always)]
fn widen<S: Simd>(s: S, bytes: &[u8], to: &mut [f32; PANEL]) {
    assert!(bytes.len() >= 2 * PANEL);
    for half in 0..2 {
        // SAFETY: 32 words, and room for 32 floats.
        unsafe {
            let words = bytes.as_ptr().cast::<u16>().add(half * LANES);
            s.store(to.as_mut_ptr().add(half * LANES), s.load_f16(words));
        }
    }
}

fn put_half(to: &mut [u8], n: usize, bytes: &[u8]) {
    let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
    to[2 * n..][..2].copy_from_slice(&bits.to_ne_bytes());
}

/// 512 bytes of values of 4 bits: low halves are inputs 0 to 15, high halves 16 to 31.
const NIBBLES: usize = WIDE / 2;

#[inline(always)]
fn nibbles(from: &[u8], to: &mut [u8; WIDE], less: u8) {
    let from: &[u8; NIBBLES] = from[..NIBBLES].try_into().expect("512 bytes");
    for i in 0..NIBBLES {
        to[i] = (from[i] & 15).wrapping_sub(less);
        to[NIBBLES + i] = (from[i] >> 4).wrapping_sub(less);
    }
}

/// 32 values of 8 bits and a scale.
pub(super) struct Q8_0;

impl Blocks for Q8_0 {
    const FILE: usize = 34;
    const GROUP: usize = 2 * PANEL + WIDE;
    const IN_PLACE: Option<usize> = Some(2 * PANEL);

    fn pack(block: &[u8], n: usize, to: &mut [u8]) {
        put_half(to, n, block);
        for (k, value) in block[2..].iter().enumerate() {
            to[2 * PANEL + wide(n, k)] = *value;
        }
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, _: &[u8], group: &[u8], to: &mut Scales) {
        widen(s, group, &mut to.scale);
    }
    #[inline(always)]
    fn bytes(_: &[u8], _: &mut [u8; WIDE]) {}
}

/// 32 values of 4 bits and a scale.
pub(super) struct Q4_0;

impl Blocks for Q4_0 {
    const FILE: usize = 18;
    const GROUP: usize = 2 * PANEL + NIBBLES;

    fn pack(block: &[u8], n: usize, to: &mut [u8]) {
        put_half(to, n, block);
        for (k, pair) in block[2..].iter().enumerate() {
            to[2 * PANEL + wide(n, k)] = *pair;
        }
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, _: &[u8], group: &[u8], to: &mut Scales) {
        widen(s, group, &mut to.scale);
    }
    #[inline(always)]
    fn bytes(group: &[u8], to: &mut [u8; WIDE]) {
        // GGUF stores these values with an offset of 8.
        nibbles(&group[2 * PANEL..], to, 8);
    }
}

/// 32 values of 4 bits, a scale and a minimum.
pub(super) struct Q4_1;

impl Blocks for Q4_1 {
    const FILE: usize = 20;
    const GROUP: usize = 4 * PANEL + NIBBLES;
    const MIN: bool = true;

    fn pack(block: &[u8], n: usize, to: &mut [u8]) {
        put_half(to, n, block);
        put_half(&mut to[2 * PANEL..], n, &block[2..]);
        for (k, pair) in block[4..].iter().enumerate() {
            to[4 * PANEL + wide(n, k)] = *pair;
        }
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, _: &[u8], group: &[u8], to: &mut Scales) {
        widen(s, group, &mut to.scale);
        widen(s, &group[2 * PANEL..], &mut to.min);
    }
    #[inline(always)]
    fn bytes(group: &[u8], to: &mut [u8; WIDE]) {
        nibbles(&group[4 * PANEL..], to, 0);
    }
}

/// Returns the scale and the minimum of group `g` (0 to 7) in a `Q4_K` block of GGUF. `s` has 12
/// bytes with six bits for each.
#[inline]
pub fn scale_min(s: &[u8], g: usize) -> (u8, u8) {
    match g {
        0..4 => (s[g] & 63, s[g + 4] & 63),
        _ => (
            s[g + 4] & 15 | s[g - 4] >> 2 & 48,
            s[g + 4] >> 4 | s[g] >> 2 & 48,
        ),
    }
}

/// 256 values of 4 bits; 8 scales and minima of 6 bits, which have a byte each here.
pub(super) struct Q4K;

impl Blocks for Q4K {
    const SUPER: usize = 8;
    const FILE: usize = 144;
    const HEADER: usize = 4 * PANEL;
    const GROUP: usize = 2 * PANEL + NIBBLES;
    const MIN: bool = true;

    fn pack(block: &[u8], n: usize, to: &mut [u8]) {
        put_half(to, n, block);
        put_half(&mut to[2 * PANEL..], n, &block[2..]);
        let (s, values) = (&block[4..16], &block[16..]);
        for (g, to) in to[Self::HEADER..].chunks_exact_mut(Self::GROUP).enumerate() {
            (to[n], to[PANEL + n]) = scale_min(s, g);
            // The low halves of 32 bytes are one group, and the high halves are the next group.
            let value = |k: usize| values[g / 2 * 32 + k] >> (g % 2 * 4) & 15;
            for k in 0..16 {
                to[2 * PANEL + wide(n, k)] = value(k) | value(16 + k) << 4;
            }
        }
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, header: &[u8], group: &[u8], to: &mut Scales) {
        widen(s, header, &mut to.scale);
        widen(s, &header[2 * PANEL..], &mut to.min);
        for n in 0..PANEL {
            // Exact: 11 bits times 6.
            to.scale[n] *= f32::from(group[n]);
            // GGUF subtracts the minimum, and these kernels add it.
            to.min[n] *= -f32::from(group[PANEL + n]);
        }
    }
    #[inline(always)]
    fn bytes(group: &[u8], to: &mut [u8; WIDE]) {
        nibbles(&group[2 * PANEL..], to, 0);
    }
}

/// 256 values of 6 bits; 16 scales of 8 bits.
pub(super) struct Q6K;

impl Blocks for Q6K {
    const SUPER: usize = 8;
    const FILE: usize = 210;
    const HEADER: usize = 2 * PANEL;
    const GROUP: usize = 2 * PANEL + NIBBLES + NIBBLES / 2;
    const HALVES: usize = 2;

    fn pack(block: &[u8], n: usize, to: &mut [u8]) {
        put_half(to, n, &block[208..]);
        let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
        let value = |i: usize| {
            let low = low[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
            low | (high[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) << 4
        };
        for (g, to) in to[Self::HEADER..].chunks_exact_mut(Self::GROUP).enumerate() {
            (to[n], to[PANEL + n]) = (scales[2 * g], scales[2 * g + 1]);
            let to = &mut to[2 * PANEL..];
            let value = |k| value(g * GROUP + k);
            for k in 0..16 {
                to[wide(n, k)] = value(k) & 15 | value(16 + k) << 4;
            }
            // A byte has the upper two bits of four inputs, which are four apart.
            for k in 0..8 {
                let (first, j) = (k / 4 * 16, k % 4);
                let bits = |step: usize| value(first + 4 * step + j) >> 4 << (2 * step);
                to[NIBBLES + wide(n, k)] = bits(0) | bits(1) | bits(2) | bits(3);
            }
        }
    }
    #[inline(always)]
    fn scales<S: Simd>(s: S, header: &[u8], group: &[u8], to: &mut Scales) {
        widen(s, header, &mut to.scale);
        for half in 0..2 {
            for n in 0..PANEL {
                to.sub[half][n] = f32::from(group[half * PANEL + n].cast_signed());
            }
        }
    }
    #[inline(always)]
    fn bytes(group: &[u8], to: &mut [u8; WIDE]) {
        const STEP: usize = 4 * PANEL;
        let group: &[u8; Self::GROUP] = group[..Self::GROUP].try_into().expect("a group");
        nibbles(&group[2 * PANEL..], to, 0);
        for step in 0..8 {
            let high = 2 * PANEL + NIBBLES + step / 4 * STEP;
            for i in 0..STEP {
                let bits = group[high + i] >> (2 * (step % 4)) & 3;
                let at = step * STEP + i;
                // GGUF stores these values with an offset of 32.
                to[at] = (to[at] | bits << 4).wrapping_sub(32);
            }
        }
    }
}
