//! Conversion of stored values to the types of a network.
//!
//! bf16 is the upper half of an f32, so widening it is a shift. Narrowing rounds to nearest even,
//! as PyTorch does.

use acestep_model::{narrow_to_bf16, round_to_bf16};
use half::{bf16, f16, slice::HalfFloatSliceExt as _, vec::HalfBitsVecExt as _};
use rayon::prelude::*;

use crate::blocks::{Block, LONGEST};

/// Supported types of weights; files are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    F32,
    F16,
    Bf16,
    /// Quantised; only in a GGUF file.
    Block(Block),
}

impl FileType {
    /// Returns the type called `name` in a safetensors or GGUF header, if it is supported.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            _ => Self::Block(Block::from_name(name)?),
        })
    }

    /// Returns the bytes of one unit: a value, or a block of values.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Block(block) => block.bytes(),
        }
    }

    /// Returns the number of values in one unit.
    pub(crate) fn values(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Block(block) => block.values(),
        }
    }
}

/// A type that weights can be converted to.
pub(crate) trait Element: burn::tensor::Element {
    /// Returns zeros in pages that nothing has touched: the threads that write them get them.
    fn zeros(count: usize) -> Vec<Self>;
    /// Converts little-endian f32 values.
    fn from_f32s(bytes: &[u8], values: &mut [Self]) {
        for (value, word) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = Self::from_f32(f32::from_le_bytes(*word));
        }
    }
    fn from_f32(value: f32) -> Self;
    fn from_f16(value: f16) -> Self {
        Self::from_f32(value.to_f32())
    }
    fn from_bf16(value: bf16) -> Self {
        Self::from_f32(f32::from_bits(u32::from(value.to_bits()) << 16))
    }
}

impl Element for f32 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0.0; count]
    }

    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Element for f16 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0u16; count].reinterpret_into()
    }

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn from_f16(value: f16) -> Self {
        value
    }
}

impl Element for bf16 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0u16; count].reinterpret_into()
    }

    fn from_f32s(bytes: &[u8], values: &mut [Self]) {
        narrow_to_bf16(bytes, values.reinterpret_cast_mut());
    }

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn from_bf16(value: bf16) -> Self {
        value
    }
}

/// Rounds `values` to bf16, on all cores.
pub(crate) fn narrowed(values: &[f32]) -> Vec<bf16> {
    const PIECE: usize = 1 << 16;
    let mut narrow = bf16::zeros(values.len());
    let pieces = narrow.par_chunks_mut(PIECE).zip(values.par_chunks(PIECE));
    pieces.for_each(|(narrow, values)| round_to_bf16(values, narrow.reinterpret_cast_mut()));
    narrow
}

/// Converts all values that `bytes` stores as `from`. The bytes need no alignment.
pub(crate) fn convert<T: Element>(bytes: &[u8], from: FileType, values: &mut [T]) {
    match from {
        FileType::F32 => T::from_f32s(bytes, values),
        FileType::Bf16 => {
            for (value, pair) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = T::from_bf16(bf16::from_bits(u16::from_le_bytes(*pair)));
            }
        }
        FileType::F16 if T::dtype() == burn::tensor::DType::F32 => widen_f16(bytes, values),
        FileType::F16 => {
            for (value, pair) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = T::from_f16(f16::from_le_bytes(*pair));
            }
        }
        FileType::Block(block) => {
            let mut wide = [0.0; LONGEST];
            let blocks = bytes.chunks_exact(block.bytes());
            for (values, bytes) in values.chunks_mut(block.values()).zip(blocks) {
                block.widen(bytes, &mut wide);
                for (value, &wide) in values.iter_mut().zip(&wide) {
                    *value = T::from_f32(wide);
                }
            }
        }
    }
}

/// Widens f16 to f32 in blocks: `half` checks the CPU's features once per slice, not once per
/// value.
fn widen_f16<T: Element>(bytes: &[u8], values: &mut [T]) {
    const BLOCK: usize = 1024;
    let (mut narrow, mut wide) = ([f16::ZERO; BLOCK], [0.0; BLOCK]);
    for (values, block) in values.chunks_mut(BLOCK).zip(bytes.chunks(2 * BLOCK)) {
        let count = block.len() / 2;
        for (value, pair) in narrow.iter_mut().zip(block.chunks_exact(2)) {
            *value = f16::from_le_bytes([pair[0], pair[1]]);
        }
        narrow[..count].convert_to_f32_slice(&mut wide[..count]);
        for (value, &wide) in values.iter_mut().zip(&wide[..count]) {
            *value = T::from_f32(wide);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted<T: Element>(bytes: &[u8], from: FileType) -> Vec<T> {
        let mut values = vec![T::from_f32(0.0); bytes.len() / from.size() * from.values()];
        convert(bytes, from, &mut values);
        values
    }

    /// Bit patterns from the IEEE formats: 1, -2.5, the smallest subnormal f16, infinity.
    #[test]
    fn known_bit_patterns_widen_to_their_values() {
        let f16_bytes = [0x00, 0x3C, 0x00, 0xC1, 0x01, 0x00, 0x00, 0x7C];
        let bf16_bytes = [0x80, 0x3F, 0x20, 0xC0, 0x80, 0x33, 0x80, 0x7F];
        let expected = [1.0, -2.5, 2.0_f32.powi(-24), f32::INFINITY];
        assert_eq!(converted::<f32>(&f16_bytes, FileType::F16), expected);
        assert_eq!(converted::<f32>(&bf16_bytes, FileType::Bf16), expected);
    }

    /// 1 + 2^-8 lies midway between two bf16 values: the even one is 1. 1 + 3 2^-8 goes up.
    #[test]
    fn narrowing_rounds_to_the_nearest_even() {
        let step = 2.0_f32.powi(-8);
        let bytes = [1.0 + step, 1.0 + 3.0 * step].map(f32::to_le_bytes).concat();
        let narrow = converted::<bf16>(&bytes, FileType::F32);
        assert_eq!(narrow, [1.0, 1.0 + 4.0 * step].map(bf16::from_f32));
        assert_eq!(narrowed(&[1.0 + step, 1.0 + 3.0 * step]), narrow);
    }

    /// Every upper half, with the lower halves around the middle.
    #[test]
    fn narrowing_is_that_of_single_values() {
        let upper = (0..=u16::MAX).map(|upper| u32::from(upper) << 16);
        let words =
            upper.flat_map(|upper| [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF].map(|x| upper | x));
        let words: Vec<u32> = words.collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (word, value) in words.iter().zip(converted::<bf16>(&bytes, FileType::F32)) {
            let single = bf16::from_f32(f32::from_bits(*word));
            assert_eq!(value.to_bits(), single.to_bits(), "{word:#010x}");
        }
    }

    #[test]
    fn long_slices_convert_as_single_values_do() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let long = converted::<f32>(&bytes, FileType::F16);
        for (bits, value) in (0..=u16::MAX).zip(long) {
            let single = f16::from_bits(bits).to_f32();
            assert!(single == value || (single.is_nan() && value.is_nan()), "{bits:#06x}");
        }
    }
}
