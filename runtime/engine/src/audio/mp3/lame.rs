//! LAME (LGPL, so behind the feature `lame`).

use mp3lame_encoder::{Bitrate, Builder, DualPcm, Encoder, FlushGap, MonoPcm, Quality};

use super::Audio;

/// Samples per call of LAME: half a second.
const AT_ONCE: usize = 24_000;

/// Output buffer for the final flush, as LAME's documentation demands.
const FLUSH_BYTES: usize = 7_200;

/// Encodes an MP3 of `bitrate` kilobits per second. LAME attenuates the sound by [`super::reserve`].
pub(super) fn encode(audio: &Audio, bitrate: u32) -> Result<Vec<u8>, String> {
    let mut encoder = encoder(audio, bitrate)?;
    let mut bytes = Vec::new();
    for start in (0..audio.samples()).step_by(AT_ONCE) {
        let end = (start + AT_ONCE).min(audio.samples());
        bytes.reserve(mp3lame_encoder::max_required_buffer_size(end - start));
        let written = match &audio.channels[..] {
            [only] => encoder.encode_to_vec(MonoPcm(&only[start..end]), &mut bytes),
            [left, right] => {
                let pair = DualPcm { left: &left[start..end], right: &right[start..end] };
                encoder.encode_to_vec(pair, &mut bytes)
            }
            more => return Err(super::too_many(more.len())),
        };
        written.map_err(|error| error.to_string())?;
    }
    bytes.reserve(FLUSH_BYTES);
    encoder.flush_to_vec::<FlushGap>(&mut bytes).map_err(|error| error.to_string())?;
    // LAME reserved a first frame, whose values are known only now.
    let mut first = Vec::with_capacity(encoder.lame_tag_size());
    if encoder.lame_tag_encode_to_vec(&mut first).is_some() && first.len() <= bytes.len() {
        bytes[..first.len()].copy_from_slice(&first);
    }
    Ok(bytes)
}

fn encoder(audio: &Audio, bitrate: u32) -> Result<Encoder, String> {
    let text = |error: mp3lame_encoder::BuildError| error.to_string();
    let channels = u8::try_from(audio.channels.len()).unwrap_or(u8::MAX);
    let mut builder = Builder::new().ok_or("LAME has no memory")?;
    builder.set_num_channels(channels).map_err(text)?;
    builder.set_sample_rate(audio.sample_rate).map_err(text)?;
    builder.set_output_sample_rate(std::num::NonZeroU32::new(audio.sample_rate)).map_err(text)?;
    builder.set_brate(rate(bitrate)?).map_err(text)?;
    builder.set_quality(Quality::NearBest).map_err(text)?;
    builder.set_to_write_vbr_tag(true).map_err(text)?;
    builder.build().map_err(text)
}

fn rate(kilobits: u32) -> Result<Bitrate, String> {
    Ok(match kilobits {
        32 => Bitrate::Kbps32,
        40 => Bitrate::Kbps40,
        48 => Bitrate::Kbps48,
        64 => Bitrate::Kbps64,
        80 => Bitrate::Kbps80,
        96 => Bitrate::Kbps96,
        112 => Bitrate::Kbps112,
        128 => Bitrate::Kbps128,
        160 => Bitrate::Kbps160,
        192 => Bitrate::Kbps192,
        224 => Bitrate::Kbps224,
        256 => Bitrate::Kbps256,
        320 => Bitrate::Kbps320,
        other => return Err(format!("there is no MP3 of {other} kbit/s")),
    })
}
