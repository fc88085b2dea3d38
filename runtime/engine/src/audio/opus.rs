//! Ogg Opus files, encoded in plain Rust: packets of 20 ms at 48 kHz, and one page per second.
//!
//! Source: RFC 6716 (Opus), RFC 7845 (Opus in Ogg).

use ogg::writing::{PacketWriteEndInfo, PacketWriter};
use opus_pure::{Application, MAX_PACKET_BYTES, OpusEncoder};

use super::{
    Audio,
    resample::{to_mono, to_stereo},
    write::check,
};
use crate::Error;

/// The only sample rate that is encoded.
const RATE: u32 = 48_000;

/// Samples per packet: 20 ms.
const PACKET: usize = 960;

/// Packets per page.
const PAGE: usize = 50;

/// Serial number of the file's only stream.
const SERIAL: u32 = 1;

/// Encodes an Ogg Opus file of `bitrate` kilobits per second, resampled to 48 kHz.
///
/// # Errors
/// [`Error::Encode`] for more than two channels.
pub(super) fn to_bytes(audio: &Audio, bitrate: u32) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Encode { format: "an Opus file", why };
    check(audio).map_err(failed)?;
    let count = match audio.channels.len() {
        one_or_two @ 1..=2 => one_or_two,
        more => return Err(failed(format!("it has {more} channels"))),
    };
    let resampled = match (audio.sample_rate, count) {
        (RATE, _) => None,
        (_, 1) => Some(Audio { channels: vec![to_mono(audio, RATE)?], sample_rate: RATE }),
        _ => Some(to_stereo(audio, RATE)?),
    };
    let audio = resampled.as_ref().unwrap_or(audio);
    let opus = |error: opus_pure::Error| failed(error.to_string());
    let mut encoder = OpusEncoder::new(RATE as i32, count, Application::Audio).map_err(opus)?;
    encoder.bitrate_bps = i32::try_from(bitrate * 1000).unwrap_or(i32::MAX);
    // The encoder's delay; players skip as many samples at the start.
    let delay = encoder.lookahead();

    let mut writer = PacketWriter::new(Vec::new());
    let io = |error: std::io::Error| failed(error.to_string());
    let end_page = PacketWriteEndInfo::EndPage;
    writer.write_packet(head(count as u8, delay), SERIAL, end_page, 0).map_err(io)?;
    writer.write_packet(no_comments(), SERIAL, end_page, 0).map_err(io)?;
    // Enough packets that the last one holds the last sample after the delay.
    let end = audio.samples() + delay;
    let packets = end.div_ceil(PACKET).max(1);
    let mut bytes = vec![0; MAX_PACKET_BYTES];
    for packet in 0..packets {
        let sample = |i: usize, c: usize| audio.channels[c].get(i).copied().unwrap_or(0.0);
        let input: Vec<f32> = (packet * PACKET..(packet + 1) * PACKET)
            .flat_map(|i| (0..count).map(move |c| sample(i, c)))
            .collect();
        let length = encoder.encode(&input, PACKET, &mut bytes).map_err(opus)?;
        let is_last = packet + 1 == packets;
        let info = if is_last {
            PacketWriteEndInfo::EndStream
        } else if (packet + 1).is_multiple_of(PAGE) {
            end_page
        } else {
            PacketWriteEndInfo::NormalPacket
        };
        // The position of the last page gives the end of the sound within its last packet.
        let heard = if is_last { end } else { (packet + 1) * PACKET };
        writer.write_packet(bytes[..length].to_vec(), SERIAL, info, heard as u64).map_err(io)?;
    }
    Ok(writer.into_inner())
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
