//! FLAC files, through flacenc: lossless, with the same integers as a WAV of equal bit depth.

use std::{
    fs::File,
    io::{self, BufWriter, Cursor, Seek, SeekFrom, Write},
};

use flacenc::{
    bitsink::ByteSink,
    component::{BitRepr, Frame, Stream},
    config::Encoder,
    encode_fixed_size_frame,
    error::{Verified, Verify},
    source::{Context, Fill, FrameBuf},
};
use rayon::prelude::*;

use super::{
    Audio,
    wav::integer,
    write::{BLOCK, Encode, check_cancelled, interleaved, other},
};
use crate::Observe;

/// Bytes before the first block.
const HEADER: u64 = 42;

/// Blocks that are encoded at the same time: some for each of 64 cores.
const TOGETHER: usize = 256;

/// Encodes a FLAC file of `bits` bits per sample, of one to eight channels and a rate of at most 655 350;
/// [`super::wav`] describes the rounding.
pub(super) fn to_bytes(audio: &Audio, bits: u16, observe: &dyn Observe) -> io::Result<Vec<u8>> {
    let channels = audio.channels.len();
    let samples = integers(audio, bits);
    let encoded = |predicts: bool| -> io::Result<Vec<u8>> {
        let form = (audio.sample_rate, channels, bits);
        let mut blocks = Blocks::begin(Cursor::new(Vec::new()), form, predicts)?;
        samples.chunks(TOGETHER * blocks.size()).try_for_each(|together| {
            check_cancelled(observe)?;
            blocks.write(together)
        })?;
        Ok(blocks.finish()?.into_inner())
    };
    let predicted = encoded(true)?;
    if predicted.len() <= samples.len() * usize::from(bits) / 8 {
        return Ok(predicted);
    }
    // The residual of loud 24-bit noise is too large for flacenc's Rice codes, whose parameter ends
    // at 14. Verbatim samples are then shorter.
    let plain = encoded(false)?;
    Ok(if plain.len() < predicted.len() { plain } else { predicted })
}

/// Returns the integers of all channels, interleaved.
fn integers(audio: &Audio, bits: u16) -> Vec<i32> {
    let count = audio.channels.len();
    let mut integers = vec![0; count * audio.samples()];
    integers.par_chunks_mut(count * BLOCK).enumerate().for_each(|(block, integers)| {
        let (start, samples) = (block * BLOCK, integers.len() / count);
        let channels = audio.channels.iter().map(|channel| &channel[start..start + samples]);
        let channels: Vec<&[f32]> = channels.collect();
        for (to, x) in integers.iter_mut().zip(interleaved(&channels)) {
            *to = integer(x, bits);
        }
    });
    integers
}

/// A file of one channel whose samples arrive in pieces. It is written twice: only the end tells if
/// verbatim samples are shorter.
pub(super) struct Pieces {
    predicted: Blocks<BufWriter<File>>,
    plain: Blocks<BufWriter<File>>,
    /// Samples that fill no block yet.
    waiting: Vec<i32>,
    samples: u64,
    bits: u16,
}

impl Pieces {
    /// Begins a file of `bits` bits per sample in `out`. `spare` is an empty file for verbatim samples.
    pub(super) fn begin(out: File, spare: File, sample_rate: u32, bits: u16) -> io::Result<Self> {
        let form = (sample_rate, 1, bits);
        let predicted = Blocks::begin(BufWriter::new(out), form, true)?;
        let plain = Blocks::begin(BufWriter::new(spare), form, false)?;
        Ok(Self { predicted, plain, waiting: Vec::new(), samples: 0, bits })
    }

    fn blocks(&mut self, count: usize) -> io::Result<()> {
        self.predicted.write(&self.waiting[..count])?;
        self.plain.write(&self.waiting[..count])?;
        self.waiting.drain(..count);
        Ok(())
    }
}

impl Encode for Pieces {
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        let known = self.waiting.len();
        self.waiting.extend(interleaved(channels).map(|sample| integer(sample, self.bits)));
        self.samples += (self.waiting.len() - known) as u64;
        let size = self.predicted.size();
        let whole = self.waiting.len() / size * size;
        self.blocks(whole)
    }

    fn finish(mut self: Box<Self>, _observe: &dyn Observe) -> io::Result<()> {
        let last = self.waiting.len();
        self.blocks(last)?;
        let Self { predicted, plain, samples, bits, .. } = *self;
        let is_long = predicted.bytes > samples * u64::from(bits) / 8;
        let is_plain = is_long && plain.bytes < predicted.bytes;
        let mut out = predicted.finish()?.into_inner()?;
        if is_plain {
            let mut plain = plain.finish()?.into_inner()?;
            out.set_len(0)?;
            out.rewind()?;
            plain.rewind()?;
            io::copy(&mut plain, &mut out)?;
        }
        Ok(())
    }
}

/// A file that is written block by block.
struct Blocks<W> {
    out: W,
    config: Verified<Encoder>,
    stream: Stream,
    block: FrameBuf,
    context: Context,
    /// Blocks so far.
    count: usize,
    /// Bytes so far.
    bytes: u64,
}

impl<W: Write + Seek> Blocks<W> {
    /// Begins a file of this rate, and these channels and bits. If it does not predict, samples are
    /// verbatim.
    fn begin(
        mut out: W,
        (sample_rate, channels, bits): (u32, usize, u16),
        predicts: bool,
    ) -> io::Result<Self> {
        let mut config = Encoder::default();
        if !predicts {
            (config.subframe_coding.use_fixed, config.subframe_coding.use_lpc) = (false, false);
        }
        let config = config.into_verified().map_err(|(_, error)| other(error))?;
        let stream = Stream::new(sample_rate as usize, channels, bits.into()).map_err(other)?;
        let block = FrameBuf::with_size(channels, config.block_size).map_err(other)?;
        out.seek(SeekFrom::Start(HEADER))?;
        let context = Context::new(bits.into(), channels);
        Ok(Self { out, config, stream, block, context, count: 0, bytes: HEADER })
    }

    /// The integers of a block, of all channels.
    fn size(&self) -> usize {
        self.block.size() * self.block.channels()
    }

    /// Writes the next blocks, whose integers are interleaved; only the last block of the file may be shorter.
    /// All are encoded at the same time, beside their checksum, which has to take them in order.
    fn write(&mut self, samples: &[i32]) -> io::Result<()> {
        let (size, first) = (self.size(), self.count);
        let (config, info, empty) = (&self.config, self.stream.stream_info(), &self.block);
        let encode = |buffer: &mut FrameBuf, (index, block): (usize, &[i32])| -> io::Result<_> {
            buffer.fill_interleaved(block).map_err(other)?;
            let frame =
                encode_fixed_size_frame(config, buffer, first + index, info).map_err(other)?;
            let mut sink = ByteSink::new();
            frame.write(&mut sink).map_err(other)?;
            Ok((frame, sink))
        };
        let blocks = samples.par_chunks(size).enumerate();
        let context = &mut self.context;
        let (summed, frames) = rayon::join(
            || samples.chunks(size).try_for_each(|block| add(context, block)),
            || blocks.map_init(|| empty.clone(), encode).collect::<io::Result<Vec<_>>>(),
        );
        summed?;
        let frames: Vec<(Frame, ByteSink)> = frames?;
        for (frame, sink) in frames {
            self.stream.stream_info_mut().update_frame_info(&frame);
            self.count += 1;
            self.bytes += sink.as_slice().len() as u64;
            self.out.write_all(sink.as_slice())?;
        }
        Ok(())
    }

    /// Writes the header, and returns the file.
    fn finish(mut self) -> io::Result<W> {
        let (block, info) = (self.config.block_size, self.stream.stream_info_mut());
        // flacenc includes the last block, which may be shorter, in the block sizes. Readers then
        // assume varying block sizes and fail.
        info.set_block_sizes(block, block).map_err(other)?;
        info.set_md5_digest(&self.context.md5_digest());
        info.set_total_samples(self.context.total_samples());
        let mut sink = ByteSink::new();
        self.stream.write(&mut sink).map_err(other)?;
        self.out.rewind()?;
        self.out.write_all(sink.as_slice())?;
        Ok(self.out)
    }
}

/// Adds a block to the checksum, in one call for all of its bytes.
fn add(context: &mut Context, block: &[i32]) -> io::Result<()> {
    let width = context.bytes_per_sample();
    let mut bytes = Vec::with_capacity(block.len() * width);
    for sample in block {
        bytes.extend_from_slice(&sample.to_le_bytes()[..width]);
    }
    context.fill_le_bytes(&bytes, width).map_err(other)
}
