//! GGUF's blocks of quantised values, as llama.cpp's `ggml-quants.c` defines them.
//!
//! Every value is computed with the operations of llama.cpp and Python's `gguf.quants`, in their
//! order, so the results have the same bits.

use beamgen_kernels::scale_min;

/// Reads a half-precision number from the two bytes at `at`.
fn half(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 4 bits of value `i` of 32: low halves of the bytes first, then high halves.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    bytes[i % 16] >> (i / 16 * 4) & 15
}

/// Bit `i` of 32, shifted left by four: the fifth bit of value `i`.
fn fifth(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

pub(super) fn q4_0(b: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(b, 0);
    for (i, out) in out.iter_mut().enumerate() {
        *out = d * (f32::from(nibble(&b[2..], i)) - 8.0);
    }
}

pub(super) fn q4_1(b: &[u8; 20], out: &mut [f32; 32]) {
    let (d, min) = (half(b, 0), half(b, 2));
    for (i, out) in out.iter_mut().enumerate() {
        *out = d * f32::from(nibble(&b[4..], i)) + min;
    }
}

pub(super) fn q5_0(b: &[u8; 22], out: &mut [f32; 32]) {
    let d = half(b, 0);
    for (i, out) in out.iter_mut().enumerate() {
        *out = d * (f32::from(nibble(&b[6..], i) | fifth(&b[2..6], i)) - 16.0);
    }
}

pub(super) fn q5_1(b: &[u8; 24], out: &mut [f32; 32]) {
    let (d, min) = (half(b, 0), half(b, 2));
    for (i, out) in out.iter_mut().enumerate() {
        *out = d * f32::from(nibble(&b[8..], i) | fifth(&b[4..8], i)) + min;
    }
}

pub(super) fn q8_0(b: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(b, 0);
    for (out, q) in out.iter_mut().zip(&b[2..]) {
        // `ggml-quants.c` has the factors in this order.
        *out = f32::from(q.cast_signed()) * d;
    }
}

/// The 2 bits of value `i` of 256. Each 32 bytes hold 128 values, as four groups of 32 values.
fn crumb(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3
}

pub(super) fn q2_k(b: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, quants) = (&b[..16], &b[16..80]);
    let (d, min) = (half(b, 80), half(b, 82));
    for (i, out) in out.iter_mut().enumerate() {
        let scale = scales[i / 16];
        *out =
            d * f32::from(scale & 15) * f32::from(crumb(quants, i)) - min * f32::from(scale >> 4);
    }
}

pub(super) fn q3_k(b: &[u8; 110], out: &mut [f32; 256]) {
    let (mask, quants, scales, d) = (&b[..32], &b[32..96], &b[96..108], half(b, 108));
    for (i, out) in out.iter_mut().enumerate() {
        let g = i / 16;
        // Low four bits in the first eight bytes, high two bits in the last four.
        let low = scales[g % 8] >> (g / 8 * 4) & 15;
        let high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
        let scale = f32::from(low | high << 4) - 32.0;
        // The high bit is stored inverted: a set bit in the mask means that nothing is subtracted.
        let third = mask[i % 32] >> (i / 32) & 1;
        let q = f32::from(crumb(quants, i)) - if third == 0 { 4.0 } else { 0.0 };
        *out = d * scale * q;
    }
}

/// The 4 bits of value `i` of 256. Each 32 bytes hold 64 values, in the low halves of the bytes
/// first.
fn wide_nibble(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15
}

pub(super) fn q4_k(b: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    let (scales, quants) = (&b[4..16], &b[16..]);
    for (i, out) in out.iter_mut().enumerate() {
        let (scale, min) = scale_min(scales, i / 32);
        let q = wide_nibble(quants, i);
        *out = d * f32::from(scale) * f32::from(q) - dmin * f32::from(min);
    }
}

pub(super) fn q5_k(b: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    let (scales, high, quants) = (&b[4..16], &b[16..48], &b[48..]);
    for (i, out) in out.iter_mut().enumerate() {
        let (scale, min) = scale_min(scales, i / 32);
        let q = wide_nibble(quants, i) | (high[i % 32] >> (i / 32) & 1) << 4;
        *out = d * f32::from(scale) * f32::from(q) - dmin * f32::from(min);
    }
}

pub(super) fn q6_k(b: &[u8; 210], out: &mut [f32; 256]) {
    let (low, high, scales, d) = (&b[..128], &b[128..192], &b[192..208], half(b, 208));
    for (i, out) in out.iter_mut().enumerate() {
        // 64 bytes hold 128 values, low halves first.
        let l = low[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
        let q = f32::from(l | crumb(high, i) << 4) - 32.0;
        *out = d * f32::from(scales[i / 16].cast_signed()) * q;
    }
}
