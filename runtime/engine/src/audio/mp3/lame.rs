//! LAME (LGPL, so behind the feature `lame`).

use std::{io, num::NonZeroU32};

use mp3lame_encoder::{
    Bitrate, BuildError, Builder, DualPcm, FlushGap, MonoPcm, Quality, max_required_buffer_size,
};

use super::other;

/// Output buffer for the final flush, as LAME's documentation demands.
const FLUSH_BYTES: usize = 7_200;

/// An encoder whose samples arrive in pieces. LAME attenuates them by [`super::reserve`].
pub(super) struct Encoder(mp3lame_encoder::Encoder);

impl Encoder {
    /// Begins an MP3 of `bitrate` kilobits per second.
    pub(super) fn begin(channels: usize, sample_rate: u32, bitrate: u32) -> io::Result<Self> {
        let bitrate = rate(bitrate)?;
        let mut builder = Builder::new().ok_or_else(|| other("LAME has no memory"))?;
        let mut built = || -> Result<(), BuildError> {
            builder.set_num_channels(channels as u8)?;
            builder.set_sample_rate(sample_rate)?;
            builder.set_output_sample_rate(NonZeroU32::new(sample_rate))?;
            builder.set_brate(bitrate)?;
            builder.set_quality(Quality::NearBest)?;
            builder.set_to_write_vbr_tag(true)
        };
        built().and_then(|()| builder.build()).map(Self).map_err(other)
    }

    /// Takes the next samples, and returns the frames that they complete.
    pub(super) fn write(&mut self, channels: &[Vec<f32>]) -> io::Result<Vec<u8>> {
        let samples = channels.first().map_or(0, Vec::len);
        let mut frames = Vec::with_capacity(max_required_buffer_size(samples));
        let written = match channels {
            [left, right] => self.0.encode_to_vec(DualPcm { left, right }, &mut frames),
            [only, ..] => self.0.encode_to_vec(MonoPcm(only), &mut frames),
            [] => Ok(0),
        };
        written.map(|_| frames).map_err(other)
    }

    /// Returns the last frames, and the first one again: LAME knows its values only now.
    pub(super) fn finish(mut self) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut frames = Vec::with_capacity(FLUSH_BYTES);
        self.0.flush_to_vec::<FlushGap>(&mut frames).map_err(other)?;
        let mut first = Vec::with_capacity(self.0.lame_tag_size());
        let is_known = self.0.lame_tag_encode_to_vec(&mut first).is_some();
        Ok((frames, is_known.then_some(first)))
    }
}

fn rate(kilobits: u32) -> io::Result<Bitrate> {
    use Bitrate::*;
    let mut rates = [
        Kbps32, Kbps40, Kbps48, Kbps64, Kbps80, Kbps96, Kbps112, Kbps128, Kbps160, Kbps192,
        Kbps224, Kbps256, Kbps320,
    ]
    .into_iter();
    let found = rates.find(|&rate| rate as u32 == kilobits);
    found.ok_or_else(|| other(format!("there is no MP3 of {kilobits} kbit/s")))
}
