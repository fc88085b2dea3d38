//! MP3 files: a constant bitrate, and a first frame with the padding that players cut off at both ends.
//!
//! The encoder is plain Rust. The feature `lame` takes LAME in its place.

#[cfg(feature = "lame")]
mod lame;
#[cfg(not(feature = "lame"))]
mod plain;

use std::{
    fs::File,
    io::{self, BufWriter, Cursor, Read, Seek, Write},
};

#[cfg(feature = "lame")]
use self::lame::Encoder;
#[cfg(not(feature = "lame"))]
use self::plain::Encoder;
use super::{
    Audio,
    loudness::peak,
    resample::{Stream, to_stereo},
    write::{BLOCK, Encode, check_cancelled, encode, other},
};
use crate::Observe;

/// Scale of a song at full scale, so that the loss of encoding does not clip (LAME's `presets.c`).
/// Each pair is the least bitrate and the scale from that bitrate on.
const QUIETER: [(u32, f32); 4] = [(256, 1.0), (224, 0.98), (192, 0.97), (0, 0.95)];

/// Encodes an MP3 of `bitrate` kilobits per second, resampled to `sample_rate`.
pub(super) fn to_bytes(
    audio: &Audio,
    (bitrate, sample_rate): (u32, u32),
    observe: &dyn Observe,
) -> io::Result<Vec<u8>> {
    // The gain depends on the peak after resampling.
    let resampled = match audio.sample_rate == sample_rate {
        true => None,
        false => Some(to_stereo(audio, sample_rate, observe).map_err(io::Error::other)?),
    };
    let audio = resampled.as_ref().unwrap_or(audio);
    let (mut bytes, gain) = (Cursor::new(Vec::new()), gain(bitrate, peak(audio)));
    let file = Gained::begin(&mut bytes, audio.channels.len(), [sample_rate; 2], bitrate, gain)?;
    encode(audio, Box::new(file), observe)?;
    Ok(bytes.into_inner())
}

/// Returns the part of full scale that a song may fill.
fn reserve(bitrate: u32) -> f32 {
    QUIETER.iter().find(|(least, _)| bitrate >= *least).map_or(1.0, |(_, scale)| *scale)
}

/// Returns the gain that gives the file the loudness of its song, unless its peak leaves no reserve.
fn gain(bitrate: u32, peak: f32) -> f32 {
    let reserve = reserve(bitrate);
    let whole = (1.0 / reserve).min(1.0 / peak).max(1.0);
    // LAME applies the reserve itself.
    if cfg!(feature = "lame") { whole } else { whole * reserve }
}

/// A file of one channel whose samples arrive in pieces.
///
/// They are encoded as they arrive, with the gain of a sound whose peak leaves the reserve. Only the end
/// tells the peak, so they are also kept in a file: a louder sound is encoded again.
pub(super) struct Pieces {
    file: Gained<BufWriter<File>>,
    kept: BufWriter<File>,
    rates: [u32; 2],
}

impl Pieces {
    /// Begins a file in `out`, for the rates of the samples and of the file. `spare` is an empty file.
    pub(super) fn begin(out: File, spare: File, rates: [u32; 2], bitrate: u32) -> io::Result<Self> {
        let file = Gained::begin(BufWriter::new(out), 1, rates, bitrate, gain(bitrate, 0.0))?;
        Ok(Self { file, kept: BufWriter::new(spare), rates })
    }
}

impl Encode for Pieces {
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        if reserve(self.file.bitrate) < 1.0 {
            for sample in channels.iter().copied().flatten() {
                self.kept.write_all(&sample.to_le_bytes())?;
            }
        }
        self.file.write(channels)
    }

    fn finish(self: Box<Self>, observe: &dyn Observe) -> io::Result<()> {
        let Self { mut file, kept, rates } = *self;
        file.rest()?;
        let (bitrate, gain) = (file.bitrate, gain(file.bitrate, file.peak));
        if gain == file.gain {
            return Box::new(file).finish(observe);
        }
        // It may hold all its frames, as the second one will.
        drop(file.encoder);
        let (mut out, mut kept) = (file.out.into_inner()?, kept.into_inner()?);
        out.set_len(0)?;
        out.rewind()?;
        kept.rewind()?;
        let mut file = Gained::begin(BufWriter::new(out), 1, rates, bitrate, gain)?;
        let mut bytes = Vec::new();
        while Read::by_ref(&mut kept).take(4 * BLOCK as u64).read_to_end(&mut bytes)? > 0 {
            check_cancelled(observe)?;
            let samples = bytes.as_chunks::<4>().0.iter().map(|&sample| f32::from_le_bytes(sample));
            file.write(&[&samples.collect::<Vec<_>>()])?;
            bytes.clear();
        }
        Box::new(file).finish(observe)
    }
}

/// A file of one or two channels with a gain.
struct Gained<W> {
    out: W,
    stream: Stream,
    encoder: Encoder,
    bitrate: u32,
    gain: f32,
    /// The largest magnitude so far.
    peak: f32,
}

impl<W: Write + Seek> Gained<W> {
    fn begin(
        out: W,
        channels: usize,
        rates: [u32; 2],
        bitrate: u32,
        gain: f32,
    ) -> io::Result<Self> {
        // LAME can resample too, but then its padding at the end is wrong.
        let is_stereo = rates[0] != rates[1];
        let stream = Stream::new(channels, rates, is_stereo).map_err(other)?;
        let channels = if is_stereo { 2 } else { channels };
        let encoder = Encoder::begin(channels, rates[1], bitrate)?;
        Ok(Self { out, stream, encoder, bitrate, gain, peak: 0.0 })
    }

    fn encode(&mut self, mut channels: Vec<Vec<f32>>) -> io::Result<()> {
        self.peak = channels.iter().flatten().fold(self.peak, |peak, x| peak.max(x.abs()));
        if gain(self.bitrate, self.peak) < self.gain {
            // It will be encoded again.
            return Ok(());
        }
        channels.iter_mut().flatten().for_each(|x| *x *= self.gain);
        self.out.write_all(&self.encoder.write(&channels)?)
    }

    /// Encodes the samples that resampling held back.
    fn rest(&mut self) -> io::Result<()> {
        let rest = self.stream.finish();
        self.encode(rest)
    }
}

impl<W: Write + Seek> Encode for Gained<W> {
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        let channels = self.stream.write(channels);
        self.encode(channels)
    }

    fn finish(mut self: Box<Self>, _observe: &dyn Observe) -> io::Result<()> {
        self.rest()?;
        let Self { mut out, encoder, .. } = *self;
        let (frames, first) = encoder.finish()?;
        out.write_all(&frames)?;
        if let Some(first) = first {
            out.rewind()?;
            out.write_all(&first)?;
        }
        out.flush()
    }
}
