//! acestep.cpp's quantised latents: a scale and small integers for each frame.

use acestep_engine::error::counted;
use half::f16;

/// Bytes of the header: the magic bytes and the number of frames.
const HEADER: usize = 8;

/// Bytes of a frame's scale.
const SCALE: usize = 2;

/// Integer width of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width {
    magic: [u8; 4],
    bits: usize,
}

/// int8, -127 to 127.
pub(super) const EIGHT: Width = Width { magic: *b"NAC8", bits: 8 };
/// int4, -7 to 7.
pub(super) const FOUR: Width = Width { magic: *b"NAC4", bits: 4 };

impl Width {
    /// Returns the largest integer.
    fn most(self) -> f32 {
        ((1 << (self.bits - 1)) - 1) as f32
    }

    /// Returns the bytes of a frame's integers.
    fn bytes(self, channels: usize) -> usize {
        (channels * self.bits).div_ceil(8)
    }
}

/// Reads the values of such a file; `None` if its magic bytes differ.
pub(super) fn read(
    bytes: &[u8],
    channels: usize,
    width: Width,
) -> Result<Option<Vec<f32>>, String> {
    if !bytes.starts_with(&width.magic) {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(&width.magic).into_owned();
    let Some((header, body)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(format!("it is cut off within the header of a {name} file"));
    };
    let frames = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let frame = SCALE + width.bytes(channels);
    if u64::from(frames) * frame as u64 != body.len() as u64 {
        return Err(format!(
            "its header says {} of {frame} bytes, but {} bytes follow",
            counted(frames as usize, "frame"),
            body.len()
        ));
    }
    let values = body.chunks_exact(frame).flat_map(|frame| {
        let (scale, numbers) = frame.split_at(SCALE);
        let scale = f16::from_le_bytes([scale[0], scale[1]]).to_f32();
        numbers.iter().flat_map(move |&byte| unpacked(byte, width)).map(move |n| n * scale)
    });
    Ok(Some(values.collect()))
}

/// Returns the integers of a byte: one, or two with the first in the low half.
fn unpacked(byte: u8, width: Width) -> impl Iterator<Item = f32> {
    let low = if width.bits == 8 { byte.cast_signed() } else { (byte << 4).cast_signed() >> 4 };
    let high = (width.bits == 4).then_some(byte.cast_signed() >> 4);
    [Some(low), high].into_iter().flatten().map(f32::from)
}

/// Writes such a file of `[T, channels]` finite values; an error if a scale exceeds f16.
pub(super) fn write(values: &[f32], channels: usize, width: Width) -> Result<Vec<u8>, String> {
    let frames = values.len() / channels;
    let mut bytes = Vec::with_capacity(HEADER + frames * (SCALE + width.bytes(channels)));
    bytes.extend(width.magic);
    bytes.extend((frames as u32).to_le_bytes());
    for (i, frame) in values.chunks_exact(channels).enumerate() {
        let largest = frame.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = f16::from_f32(largest / width.most());
        if !scale.is_finite() {
            return Err(format!(
                "nac{} cannot hold frame {i}, whose largest number is {largest:.1e}: use safetensors \
                 or vae",
                width.bits
            ));
        }
        bytes.extend(scale.to_le_bytes());
        // acestep.cpp too uses the scale before its rounding to f16. If a frame is so quiet that
        // the inverse is infinite, its scale is 0.
        let inverse = Some(width.most() / largest).filter(|x| x.is_finite()).unwrap_or(0.0);
        let number = |x: f32| (x * inverse).round().clamp(-width.most(), width.most()) as i8;
        if width.bits == 8 {
            bytes.extend(frame.iter().map(|&x| number(x).cast_unsigned()));
        } else {
            let pair = |pair: &[f32]| {
                let [low, high] = [number(pair[0]), number(pair[1])].map(i8::cast_unsigned);
                low & 0x0f | high << 4
            };
            bytes.extend(frame.chunks_exact(2).map(pair));
        }
    }
    Ok(bytes)
}
