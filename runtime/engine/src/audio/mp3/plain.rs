//! An encoder in plain Rust.

use rusty_mp3::{Error, Mp3Encoder, Mp3EncoderConfig};

use super::Audio;

/// Encodes an MP3 of `bitrate` kilobits per second.
pub(super) fn encode(audio: &Audio, bitrate: u32) -> Result<Vec<u8>, String> {
    let count = audio.channels.len() as u16;
    let samples: Vec<f32> =
        (0..audio.samples()).flat_map(|i| audio.channels.iter().map(move |c| c[i])).collect();
    let config = Mp3EncoderConfig { bitrate_kbps: bitrate, vbr_quality: None };
    let mut encoder = Mp3Encoder::new(config);
    encoder.push_pcm_f32(&samples, count, audio.sample_rate).map_err(|error| error.to_string())?;
    // Before the first packet is taken, so that it has the length of the whole sound.
    encoder.finish();
    let mut bytes = Vec::new();
    loop {
        match encoder.next_packet() {
            Ok(packet) => bytes.extend(packet),
            Err(Error::Again | Error::Eof) => return Ok(bytes),
            Err(error) => return Err(error.to_string()),
        }
    }
}
