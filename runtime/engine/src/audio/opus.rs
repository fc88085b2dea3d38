//! Ogg Opus files, encoded in plain Rust: packets of 20 ms at 48 kHz, and one page per second.
//!
//! Source: RFC 6716 (Opus), RFC 7845 (Opus in Ogg).

use std::io::{self, Write};

use ogg::writing::{PacketWriteEndInfo, PacketWriter};
use opus_pure::{Application, MAX_PACKET_BYTES, OpusEncoder};

use super::{
    Audio,
    resample::Stream,
    write::{Encode, encode, interleaved, other},
};
use crate::Observe;

/// The only sample rate that is encoded.
const RATE: u32 = 48_000;

/// Samples per packet: 20 ms.
const PACKET: usize = 960;

/// Packets per page.
const PAGE: usize = 50;

/// Serial number of the file's only stream.
const SERIAL: u32 = 1;

/// Encodes an Ogg Opus file of `bitrate` kilobits per second, resampled to 48 kHz.
pub(super) fn to_bytes(audio: &Audio, bitrate: u32, observe: &dyn Observe) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = Pieces::begin(&mut bytes, audio.channels.len(), audio.sample_rate, bitrate)?;
    encode(audio, Box::new(file), observe)?;
    Ok(bytes)
}

/// A file whose samples arrive in pieces.
pub(super) struct Pieces<W: Write> {
    stream: Stream,
    encoder: OpusEncoder,
    writer: PacketWriter<'static, W>,
    /// Samples of all channels that fill no packet yet.
    waiting: Vec<f32>,
    /// Samples of a packet, of all channels.
    size: usize,
    /// Packets so far.
    packets: usize,
}

impl<W: Write> Pieces<W> {
    /// Begins a file.
    pub(super) fn begin(
        out: W,
        channels: usize,
        sample_rate: u32,
        bitrate: u32,
    ) -> io::Result<Self> {
        let is_stereo = channels == 2 && sample_rate != RATE;
        let stream = Stream::new(channels, [sample_rate, RATE], is_stereo).map_err(other)?;
        let encoder = OpusEncoder::new(RATE as i32, channels, Application::Audio);
        let mut encoder = encoder.map_err(other)?;
        encoder.bitrate_bps = i32::try_from(bitrate * 1000).unwrap_or(i32::MAX);
        let (mut writer, end_page) = (PacketWriter::new(out), PacketWriteEndInfo::EndPage);
        // Players skip as many samples at the start as the encoder delays.
        let head = head(channels as u8, encoder.lookahead());
        writer.write_packet(head, SERIAL, end_page, 0)?;
        writer.write_packet(no_comments(), SERIAL, end_page, 0)?;
        let (waiting, size) = (Vec::new(), PACKET * channels);
        Ok(Self { stream, encoder, writer, waiting, size, packets: 0 })
    }

    /// Encodes whole packets. With `end`, the last packet is the last of the file, and the sound ends at this
    /// sample. Without `end`, more packets follow.
    fn encode(&mut self, end: Option<usize>) -> io::Result<()> {
        let whole = self.waiting.len() / self.size * self.size;
        let mut bytes = vec![0; MAX_PACKET_BYTES];
        let mut start = 0;
        while start < whole {
            let input = &self.waiting[start..start + self.size];
            let length = self.encoder.encode(input, PACKET, &mut bytes).map_err(other)?;
            (start, self.packets) = (start + self.size, self.packets + 1);
            let usual = self.packets * PACKET;
            // The position of the last page gives the end of the sound within its last packet.
            let (info, heard) = match end {
                Some(end) if start == whole => (PacketWriteEndInfo::EndStream, end),
                _ if self.packets.is_multiple_of(PAGE) => (PacketWriteEndInfo::EndPage, usual),
                _ => (PacketWriteEndInfo::NormalPacket, usual),
            };
            self.writer.write_packet(bytes[..length].to_vec(), SERIAL, info, heard as u64)?;
        }
        self.waiting.drain(..whole);
        Ok(())
    }
}

impl<W: Write> Encode for Pieces<W> {
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        self.waiting.extend(interleaved(&self.stream.write(channels)));
        self.encode(None)
    }

    fn finish(mut self: Box<Self>, _observe: &dyn Observe) -> io::Result<()> {
        self.waiting.extend(interleaved(&self.stream.finish()));
        let samples = self.packets * PACKET + self.waiting.len() * PACKET / self.size;
        let end = samples + self.encoder.lookahead();
        // Enough packets that the last one holds the last sample after the delay.
        let packets = end.div_ceil(PACKET).max(1) - self.packets;
        self.waiting.resize(packets * self.size, 0.0);
        self.encode(Some(end))?;
        self.writer.inner_mut().flush()
    }
}

/// Builds the identification header (RFC 7845, 5.1).
fn head(channels: u8, delay: usize) -> Vec<u8> {
    let mut head = b"OpusHead\x01".to_vec();
    head.push(channels);
    head.extend((delay as u16).to_le_bytes());
    head.extend(RATE.to_le_bytes());
    // Output gain 0 and channel mapping family 0, which has no table.
    head.extend([0, 0, 0]);
    head
}

/// Builds the comment header (RFC 7845, 5.2): the encoder's name and no comments; tags come later.
fn no_comments() -> Vec<u8> {
    let vendor = "opus-pure";
    let mut tags = b"OpusTags".to_vec();
    tags.extend((vendor.len() as u32).to_le_bytes());
    tags.extend(vendor.as_bytes());
    tags.extend(0u32.to_le_bytes());
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoder delays by 312 samples, so 648 samples fill one packet.
    #[test]
    fn the_last_page_ends_with_the_last_sample_after_the_delay() {
        for (samples, packets) in [(0, 1), (1, 1), (648, 1), (649, 2), (960, 2), (1_608, 2)] {
            let audio = Audio { channels: vec![vec![0.5; samples]], sample_rate: RATE };
            let bytes = to_bytes(&audio, 64, &crate::Unobserved).expect("encoded");
            let start = bytes.windows(4).rposition(|name| name == b"OggS").expect("a page");
            let page = &bytes[start..];
            assert_eq!(page[5], 4, "the end of the stream");
            let end = page[6..14].try_into().map(u64::from_le_bytes).expect("eight bytes");
            assert_eq!(end, samples as u64 + 312);
            let lengths = &page[27..27 + usize::from(page[26])];
            assert_eq!(lengths.iter().filter(|&&length| length < 255).count(), packets);
        }
    }
}
