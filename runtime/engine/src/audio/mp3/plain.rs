//! An encoder in plain Rust.

use std::io;

use rusty_mp3::{Error, Mp3Encoder, Mp3EncoderConfig};

use crate::audio::write::{interleaved, other};

/// An encoder whose samples arrive in pieces.
///
/// Up to 256 kbit/s it keeps its frames until the end, 0.1 GB for an hour at 128 kbit/s: it gives them bits
/// of their neighbours.
pub(super) struct Encoder {
    own: Mp3Encoder,
    channels: u16,
    sample_rate: u32,
}

impl Encoder {
    /// Begins an MP3 of `bitrate` kilobits per second.
    pub(super) fn begin(channels: usize, sample_rate: u32, bitrate: u32) -> io::Result<Self> {
        let config = Mp3EncoderConfig { bitrate_kbps: bitrate, vbr_quality: None };
        let channels = channels as u16;
        let mut own = Self { own: Mp3Encoder::new(config), channels, sample_rate };
        // A sound without samples has a rate too.
        own.write(&[])?;
        Ok(own)
    }

    /// Takes the next samples, and returns the frames that they complete.
    pub(super) fn write(&mut self, channels: &[Vec<f32>]) -> io::Result<Vec<u8>> {
        let samples: Vec<f32> = interleaved(channels).collect();
        self.own.push_pcm_f32(&samples, self.channels, self.sample_rate).map_err(other)?;
        self.frames()
    }

    /// Returns the last frames, and the first one again: it has the length of the sound only now.
    pub(super) fn finish(mut self) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
        self.own.finish();
        Ok((self.frames()?, self.own.lame_tag_frame().map(<[u8]>::to_vec)))
    }

    fn frames(&mut self) -> io::Result<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            match self.own.next_packet() {
                Ok(packet) => frames.extend(packet),
                Err(Error::Again | Error::Eof) => return Ok(frames),
                Err(error) => return Err(other(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a tone twice. The whole one gives its frames after the end.
    #[test]
    fn frames_that_are_taken_while_they_come_are_those_of_the_whole_sound() {
        for (bitrate, samples) in [(128, 0), (128, 1), (128, 5_000), (320, 1_153), (320, 5_000)] {
            let sound: Vec<f32> = (0..samples).map(|i| 0.5 * (i as f32 * 0.1).sin()).collect();
            let mut whole = Encoder::begin(1, 48_000, bitrate).expect("begun").own;
            whole.push_pcm_f32(&sound, 1, 48_000).expect("a rate");
            whole.finish();
            let whole: Vec<u8> =
                std::iter::from_fn(|| whole.next_packet().ok()).flatten().collect();
            let mut encoder = Encoder::begin(1, 48_000, bitrate).expect("begun");
            let mut pieces = Vec::new();
            for piece in sound.chunks(700) {
                pieces.extend(encoder.write(&[piece.to_vec()]).expect("frames"));
            }
            let (last, first) = encoder.finish().expect("frames");
            pieces.extend(last);
            let first = first.expect("a sound has a first frame");
            pieces[..first.len()].copy_from_slice(&first);
            assert!(pieces == whole, "{samples} samples, {bitrate} kbit/s");
        }
    }
}
