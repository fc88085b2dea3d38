//! Dequantisation of ggml's blocks: groups of values that share a scale.
//!
//! A row is split into blocks of 32 or 256 values. The `_K` types have a scale for each 16 or 32
//! values of the block, in 4 or 6 bits, and one f16 scale for the block. The value is:
//!
//! | type | values, bytes | value |
//! |---|---|---|
//! | Q4_0, Q5_0, Q8_0 | 32; 18, 22, 34 | `d q`, `q` signed |
//! | Q4_1, Q5_1 | 32; 20, 24 | `d q + m`, `q` unsigned |
//! | Q2_K, Q4_K, Q5_K | 256; 84, 144, 176 | `(d s) q - (m t)`, `q` unsigned, scales `s`, `t` |
//! | Q3_K, Q6_K | 256; 110, 210 | `(d s) q`, `q` and `s` signed |
//!
//! Products are computed in f32 in the order of the brackets, as in ggml, so that the values match
//! it bit for bit.
//!
//! Source: ggml `ggml-common.h` (layouts) and `ggml-quants.c` (`dequantize_row_*`).

use half::f16;

/// Values in a block of the `_K` types.
const SUPER: usize = 256;
/// Values in a block of the other types.
const SMALL: usize = 32;
/// Maximum number of values in a block.
pub(crate) const LONGEST: usize = SUPER;

/// Type of a quantised tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names that ggml and its files use")]
pub(crate) enum Block {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
}

/// All supported types in the order of [`Block`]: ggml's name, and the values and bytes of one block.
static TYPES: [(Block, &str, usize, usize); 10] = [
    (Block::Q4_0, "Q4_0", SMALL, 18),
    (Block::Q4_1, "Q4_1", SMALL, 20),
    (Block::Q5_0, "Q5_0", SMALL, 22),
    (Block::Q5_1, "Q5_1", SMALL, 24),
    (Block::Q8_0, "Q8_0", SMALL, 34),
    (Block::Q2_K, "Q2_K", SUPER, 84),
    (Block::Q3_K, "Q3_K", SUPER, 110),
    (Block::Q4_K, "Q4_K", SUPER, 144),
    (Block::Q5_K, "Q5_K", SUPER, 176),
    (Block::Q6_K, "Q6_K", SUPER, 210),
];

impl Block {
    /// Returns the type with ggml's name `name`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        TYPES.iter().find(|(_, own, ..)| *own == name).map(|&(block, ..)| block)
    }

    /// Returns the number of values in one block.
    pub(crate) fn values(self) -> usize {
        TYPES[self as usize].2
    }

    /// Returns the bytes of one block.
    pub(crate) fn bytes(self) -> usize {
        TYPES[self as usize].3
    }

    /// Writes the values of one block, of [`Self::bytes`], to the first [`Self::values`] of
    /// `values`.
    pub(crate) fn widen(self, block: &[u8], values: &mut [f32; LONGEST]) {
        debug_assert_eq!(block.len(), self.bytes());
        match self {
            Self::Q4_0 => nibbles(scale(block, 0), &block[2..], values, |_, q| q as f32 - 8.0, 0.0),
            Self::Q4_1 => {
                nibbles(scale(block, 0), &block[4..], values, |_, q| q as f32, scale(block, 2));
            }
            Self::Q5_0 => {
                let fifth = fifth_bits(&block[2..6]);
                let number = |i, q| (q | fifth(i)) as f32 - 16.0;
                nibbles(scale(block, 0), &block[6..], values, number, 0.0);
            }
            Self::Q5_1 => {
                let fifth = fifth_bits(&block[4..8]);
                let number = |i, q| (q | fifth(i)) as f32;
                nibbles(scale(block, 0), &block[8..], values, number, scale(block, 2));
            }
            Self::Q8_0 => {
                let d = scale(block, 0);
                for (value, &q) in values.iter_mut().zip(&block[2..]) {
                    *value = f32::from(q.cast_signed()) * d;
                }
            }
            Self::Q2_K => q2_k(block, values),
            Self::Q3_K => q3_k(block, values),
            Self::Q4_K => q4_k(block, values),
            Self::Q5_K => q5_k(block, values),
            Self::Q6_K => q6_k(block, values),
        }
    }
}

/// Reads the f16 at byte `at`.
fn scale(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Reads 16 bytes of two values each: the low nibbles are the first 16 values, the high ones the
/// last.
fn nibbles(
    d: f32,
    bytes: &[u8],
    values: &mut [f32; LONGEST],
    number: impl Fn(usize, u32) -> f32,
    m: f32,
) {
    let half = SMALL / 2;
    for (i, &byte) in bytes[..half].iter().enumerate() {
        values[i] = number(i, u32::from(byte & 15)) * d + m;
        values[i + half] = number(i + half, u32::from(byte >> 4)) * d + m;
    }
}

/// Returns a function for the fifth bit of value `i`, shifted into place.
fn fifth_bits(bytes: &[u8]) -> impl Fn(usize) -> u32 {
    let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    move |i| (bits >> i & 1) << 4
}

// ANCHOR: block
/// 16 bytes with a 4-bit scale and minimum for 16 values each; 64 bytes of 2-bit values; `d`, `m`.
fn q2_k(block: &[u8], values: &mut [f32; LONGEST]) {
    let (d, m) = (scale(block, 80), scale(block, 82));
    for (j, group) in values.chunks_exact_mut(16).enumerate() {
        let (d, m) = (d * f32::from(block[j] & 15), m * f32::from(block[j] >> 4));
        let (bytes, shift) = quarters(&block[16..80], j);
        for (value, byte) in group.iter_mut().zip(bytes) {
            *value = d * f32::from(byte >> shift & 3) - m;
        }
    }
}
// ANCHOR_END: block

/// 32 bytes of third bits; 64 bytes of 2-bit values; 12 bytes with 16 6-bit scales; `d`. A third
/// bit of 0 subtracts 4.
fn q3_k(block: &[u8], values: &mut [f32; LONGEST]) {
    let (d, packed) = (scale(block, 108), &block[96..108]);
    for (j, group) in values.chunks_exact_mut(16).enumerate() {
        let low = packed[j % 8] >> (j / 8 * 4) & 15;
        let high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
        let d = d * (f32::from(low | high << 4) - 32.0);
        let (bytes, shift) = quarters(&block[32..96], j);
        let thirds = &block[j % 2 * 16..];
        for ((value, byte), third) in group.iter_mut().zip(bytes).zip(thirds) {
            let less = 4 * (1 - (third >> (j / 2) & 1));
            *value = d * (f32::from(byte >> shift & 3) - f32::from(less));
        }
    }
}

/// Returns the bytes of group `j` of 16 values, and the shift of its two bits: 128 values share 32
/// bytes, with the first 32 in the lowest bits.
fn quarters(bytes: &[u8], j: usize) -> (&[u8], usize) {
    (&bytes[j / 8 * 32 + j % 2 * 16..], j % 8 / 2 * 2)
}

/// `d`, `m`; 12 bytes with 8 scales and 8 minima; 128 bytes of 4-bit values.
fn q4_k(block: &[u8], values: &mut [f32; LONGEST]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    for (j, group) in values.chunks_exact_mut(32).enumerate() {
        let (s, t) = scale_and_minimum(&block[4..16], j);
        let (d, m) = (d * s, m * t);
        let (bytes, shift) = halves(&block[16..], j);
        for (value, byte) in group.iter_mut().zip(bytes) {
            *value = d * f32::from(byte >> shift & 15) - m;
        }
    }
}

/// Like Q4_K, with 32 bytes of fifth bits before the 4-bit values.
fn q5_k(block: &[u8], values: &mut [f32; LONGEST]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    for (j, group) in values.chunks_exact_mut(32).enumerate() {
        let (s, t) = scale_and_minimum(&block[4..16], j);
        let (d, m) = (d * s, m * t);
        let (bytes, shift) = halves(&block[48..], j);
        for ((value, byte), fifth) in group.iter_mut().zip(bytes).zip(&block[16..48]) {
            *value = d * f32::from(byte >> shift & 15 | (fifth >> j & 1) << 4) - m;
        }
    }
}

/// Returns the bytes of group `j` of 32 values, and the shift of its four bits: two groups share 32
/// bytes, with the first in the low nibbles.
fn halves(bytes: &[u8], j: usize) -> (&[u8], usize) {
    (&bytes[j / 2 * 32..], j % 2 * 4)
}

/// Returns 6-bit scale and minimum `j` of 8. The first four are in the lower six bits of bytes 0 to
/// 3 and 4 to 7. The last four are in bytes 8 to 11 and the remaining upper bits.
fn scale_and_minimum(packed: &[u8], j: usize) -> (f32, f32) {
    let (s, t) = match j {
        0..4 => (packed[j] & 63, packed[j + 4] & 63),
        _ => {
            (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
        }
    };
    (f32::from(s), f32::from(t))
}

/// 128 bytes of lower four bits; 64 bytes of upper two bits; 16 signed scales; `d`.
fn q6_k(block: &[u8], values: &mut [f32; LONGEST]) {
    let d = scale(block, 208);
    for (j, group) in values.chunks_exact_mut(16).enumerate() {
        let d = d * f32::from(block[192 + j].cast_signed());
        // 128 values share 64 bytes of lower bits (64 in the low nibbles, 64 in the high ones) and
        // 32 bytes of upper bits (32 values in each two bits).
        let (part, row, column) = (j / 8, j % 8 / 2, j % 2 * 16);
        let low = &block[part * 64 + row % 2 * 32 + column..];
        let high = &block[128 + part * 32 + column..];
        for ((value, low), high) in group.iter_mut().zip(low).zip(high) {
            let q = low >> (row / 2 * 4) & 15 | (high >> (row * 2) & 3) << 4;
            *value = d * (f32::from(q) - 32.0);
        }
    }
}

#[cfg(test)]
mod tests;
